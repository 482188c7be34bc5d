"""What the debug runtime, the graph executor and the profiler of old TVM printed and wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import ModelError
from workbench.legacy.debug.graph import parse_graph
from workbench.legacy.debug.report import parse_reports
from workbench.legacy.debug.table import parse_debug_tables
from workbench.legacy.debug.trace import parse_execution_trace

SAMPLES = Path(__file__).parents[3] / "shared" / "legacy"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="samples of old artifacts are not here")

NEW = """\
INFO: something before
Node Name          Ops                Time(us)   Time(%)  Shape           Inputs  Outputs  Measurements(us)
---------          ---                --------   -------  -----           ------  -------  ----------------
fused_nn_dense     fused_nn_dense     1,024.168  62.808   (1, 64)         3       1        [1020.1, 1028.2]
fused_split        fused_split        13.215     34.342   (1, 4, 56, 16)  1       2        [13.215]
fused_split        fused_split        13.215     34.342   (1, 4, 56, 16)  1       2        [13.215]
reshape_nop        __nop              0.345      0.897    (1, 784)        1       1        [0.345]
Total_time         -                  1037.728   -        -               -       -        -
after the table
"""
OLD = """\
Node Name       Ops                          Time(us)  Time(%)  Start Time       End Time         Shape             Inputs  Outputs
---------       ---                          --------  -------  ----------       --------         -----             ------  -------
1_NCHW1c        fuse___layout_transform___4  56.52     0.02     15:24:44.177475  15:24:44.177534  (1, 1, 224, 224)  1       1
relu            fuse_relu                    7.5e+01   0.5      15:24:44.177475  15:24:44.177534  ()                1       1
"""


def test_the_table_of_newer_tvm_is_read_with_its_measurements() -> None:
    (table,) = parse_debug_tables(NEW)
    assert (table.total_us, table.bad, len(table.rows)) == (1037.728, (), 4)
    first = table.rows[0]
    assert (first.line, first.node_name, first.ops, first.time_us, first.time_percent) == (4, "fused_nn_dense", "fused_nn_dense", 1024.168, 62.808)
    assert (first.shape, first.inputs, first.outputs, first.measurements_us) == ((1, 64), 3, 1, (1020.1, 1028.2))
    assert [row.node_name for row in table.nodes] == ["fused_nn_dense", "fused_split", "reshape_nop"]


def test_the_table_of_older_tvm_has_start_and_end_times() -> None:
    (table,) = parse_debug_tables(OLD)
    assert [(row.node_name, row.time_us, row.shape) for row in table.rows] == [("1_NCHW1c", 56.52, (1, 1, 224, 224)), ("relu", 75.0, ())]
    assert (table.total_us, table.bad) == (None, ())


def test_a_table_that_lost_its_alignment_is_read_all_the_same() -> None:
    (plain,), (pasted,) = parse_debug_tables(NEW), parse_debug_tables("\n".join(" ".join(line.split()) for line in NEW.splitlines()))
    assert pasted == plain


def test_several_tables_in_one_text_are_kept_apart() -> None:
    assert [len(table.rows) for table in parse_debug_tables(f"{NEW}\n{OLD}\n{OLD}")] == [4, 2, 2]


def test_lines_that_do_not_fit_are_set_aside_with_their_numbers() -> None:
    damaged = NEW.replace("1,024.168", "fast").replace("0.345      0.897", "nan 1.0")
    (table,) = parse_debug_tables(damaged)
    assert [row.node_name for row in table.rows] == ["fused_split", "fused_split"]
    assert [(bad.line, bad.reason) for bad in table.bad] == [
        (4, "its cells do not fit the columns Node Name, Ops, Time(us), Time(%), Shape, Inputs, Outputs, Measurements(us)"),
        (7, "nan is no time"),
    ]


def test_a_time_beyond_all_numbers_is_none() -> None:
    (table,) = parse_debug_tables(NEW.replace("1,024.168", "1e999"))
    assert [bad.reason for bad in table.bad] == ["1e999 is no time"]


@pytest.mark.parametrize("content", ["", "Node Name", "Node Name  Ops", "no table\n\nat all", "\0" * 100, "Node Name Ops Time(us) Time(us)\n"])
def test_a_text_without_a_table_has_none(content: str) -> None:
    assert parse_debug_tables(content) == ()


def test_a_line_made_to_be_slow_takes_no_time_to_refuse() -> None:
    (table,) = parse_debug_tables(NEW.splitlines()[1] + "\n" + "a " * 20_000 + "\n" + "a b 1 2 (" + "1, " * 20_000 + "\n")
    assert (len(table.rows), len(table.bad)) == (0, 2)


@needs_samples
@pytest.mark.parametrize(("model", "rows", "total_us"), [("mlp", 5, 38.48), ("resnet18", 31, 41031.869)])
def test_the_sample_tables_are_read_whole(model: str, rows: int, total_us: float) -> None:
    (table,) = parse_debug_tables((SAMPLES / model / "debug_table.txt").read_text(encoding="utf-8"))
    assert (len(table.nodes), table.total_us, table.bad) == (rows, total_us, ())
    assert sum(row.time_us for row in table.nodes) == pytest.approx(total_us, rel=1e-3)


# graphs

GRAPH: dict[str, Any] = {
    "nodes": [
        {"op": "null", "name": "data", "inputs": []},
        {"op": "tvm_op", "name": "a", "attrs": {"func_name": "f", "num_outputs": "2", "hash": "12ab"}, "inputs": [[0, 0, 0]]},
        {"op": "tvm_op", "name": "b", "attrs": {"func_name": "__nop"}, "inputs": [[1, 1, 0]]},
    ],
    "arg_nodes": [0],
    "heads": [[2, 0, 0]],
    "node_row_ptr": [0, 1, 3, 4],
    "attrs": {"shape": ["list_shape", [[1, 3], [1, 2], [1, 1], [2]]]},
}
DUMP: dict[str, Any] = {
    "nodes": [
        {"op": "param", "name": "data", "inputs": [], "attrs": {"T": "type: float32"}, "shape": [1, 3]},
        {"op": "f", "name": "a", "inputs": ["data"], "attrs": {"func_name": "f", "num_outputs": "1", "hash": "12ab"}, "shape": [1, 2]},
    ]
}


def test_a_graph_numbers_its_inputs_and_has_the_shapes_of_every_output() -> None:
    graph = parse_graph(json.dumps(GRAPH))
    assert [(node.name, node.function, node.inputs, node.shapes, node.structural_hash, node.outputs) for node in graph.nodes] == [
        ("data", "", (), ((1, 3),), "", 1),
        ("a", "f", (0,), ((1, 2), (1, 1)), "12ab", 2),
        ("b", "__nop", (1,), ((2,),), "", 1),
    ]
    assert [node.name for node in graph.calls] == ["a", "b"]


def test_a_dump_names_its_inputs() -> None:
    graph = parse_graph(json.dumps(DUMP))
    assert [(node.name, node.function, node.inputs, node.shapes, node.structural_hash) for node in graph.nodes] == [
        ("data", "", (), ((1, 3),), ""),
        ("a", "f", (0,), ((1, 2),), "12ab"),
    ]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "it is no JSON value"),
        ("[]", "the graph is [], not an object"),
        ('{"nodes": 5}', "its nodes is 5, not a list"),
        ('{"nodes": [{"name": "a"}]}', "a node has no 'op'"),
        ('{"nodes": [{"op": "f", "name": "a", "inputs": ["b"]}]}', "node a reads b, which does not come before it"),
        ('{"nodes": [{"op": "x", "name": "a", "inputs": [[0]]}], "arg_nodes": []}', "node 0 reads node 0, which does not come before it"),
        ('{"nodes": [], "arg_nodes": [], "node_row_ptr": [0, 1]}', "node_row_ptr does not fit the nodes"),
    ],
)
def test_what_is_no_graph_is_refused_with_the_reason(content: str, reason: str) -> None:
    with pytest.raises(ModelError) as caught:
        parse_graph(content)
    assert reason in str(caught.value)


@needs_samples
@pytest.mark.parametrize("model", ["mlp", "resnet18"])
def test_graph_and_dump_of_a_sample_call_the_same_functions(model: str) -> None:
    graph = parse_graph((SAMPLES / model / "graph.json").read_text(encoding="utf-8"))
    dump_folder = SAMPLES / model / "dump" / "_tvmdbg_device_CPU_0"
    dump = parse_graph((dump_folder / "_tvmdbg_graph_dump.json").read_text(encoding="utf-8"))
    assert [(node.name, node.function, node.shapes, node.structural_hash) for node in graph.calls] == [
        (node.name, node.function, node.shapes, node.structural_hash) for node in dump.calls
    ]
    times_us = parse_execution_trace((dump_folder / "_tvmdbg_execution_trace.json").read_text(encoding="utf-8"))
    (table,) = parse_debug_tables((SAMPLES / model / "debug_table.txt").read_text(encoding="utf-8"))
    assert {row.node_name for row in table.nodes} == {node.name for node in graph.calls}
    assert {row.node_name: row.time_us for row in table.nodes} == pytest.approx(
        {row.node_name: times_us[row.node_name] for row in table.nodes}, abs=0.001
    )


# traces


def test_a_trace_has_the_time_of_each_node_between_its_marks() -> None:
    events = [("data", "B", 0.0), ("data", "E", 0.0), ("f", "B", 0.0), ("f", "E", 2.5), ("lost", "E", 9.0)]
    content = json.dumps({"traceEvents": [{"name": name, "ph": phase, "ts": at_us, "pid": 1, "tid": 1} for name, phase, at_us in events]})
    assert parse_execution_trace(content) == {"data": 0.0, "f": 2.5}


def test_what_is_no_trace_is_refused() -> None:
    with pytest.raises(ModelError, match="an event has no 'ts'"):
        parse_execution_trace('{"traceEvents": [{"name": "a", "ph": "B"}]}')


# reports


def report_line(name: str, *cells: str) -> str:
    """A line as TVM prints it: the name set to the left, the rest to the right."""
    widths = (13, 7, 6, 5, 33, 16)
    return "  ".join([f"{name:<24}", *(f"{cell:>{width}}" for cell, width in zip(cells, widths, strict=True))])


REPORT = "\n".join(
    [
        "One or more operators have not been tuned.",
        report_line("Name", "Duration (us)", "Percent", "Device", "Count", "Argument Shapes", "Hash"),
        report_line("fused_nn_dense_nn_relu_1", "1,203.50", "62.81", "cpu0", "2", "float32[1, 64], float32[10, 64]", "f7d73102fe087ff5"),
        report_line("VM::AllocStorage", "2.35", "0.52", "cpu0", "12", "", ""),
        "----------",
        report_line("Sum", "1,205.85", "63.33", "", "14", "", ""),
        report_line("Total", "1,300.00", "", "cpu0", "1", "", ""),
        "",
        "Configuration",
        "-------------",
        "Number of threads: 2",
    ]
)


def test_a_report_is_read_with_its_right_aligned_columns() -> None:
    (report,) = parse_reports(REPORT)
    assert (report.total_us, report.bad) == (1300.0, ())
    dense, storage = report.rows
    assert (dense.line, dense.name, dense.time_us, dense.percent, dense.device, dense.count) == (
        3,
        "fused_nn_dense_nn_relu_1",
        1203.5,
        62.81,
        "cpu0",
        2,
    )
    assert dense.shapes == (("float32", (1, 64)), ("float32", (10, 64)))
    assert dense.structural_hash == "f7d73102fe087ff5"
    assert (storage.name, storage.time_us, storage.count, storage.shapes, storage.structural_hash) == ("VM::AllocStorage", 2.35, 12, (), "")


def test_lines_of_a_report_that_do_not_fit_are_set_aside() -> None:
    (report,) = parse_reports(REPORT.replace("2.35", "slow"))
    assert [row.name for row in report.rows] == ["fused_nn_dense_nn_relu_1"]
    assert [bad.line for bad in report.bad] == [4]
