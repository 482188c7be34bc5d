"""``workbench import``: old artifacts become a read-only session."""

from __future__ import annotations

import html
import json
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench
from workbench.api.import_artifacts import import_artifacts
from workbench.api.session import Session
from workbench.cli.main import main
from workbench.errors import InputError, SelectionError, SessionError
from workbench.importing import artifacts as kinds
from workbench.importing.artifacts import kind_of, read_artifacts
from workbench.notebook.monitor.feed import StoreFeed
from workbench.notebook.monitor.stream import Stream
from workbench.notebook.table.snapshot import snapshot
from workbench.records.old_search import OldSearch
from workbench.records.trial import OK, REJECTED
from workbench.report import page, read_content

SAMPLES = Path(__file__).parents[3] / "shared" / "legacy"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="samples of old artifacts are not here")

RELAY = """#[version = "0.0.5"]
def @main(%x: Tensor[(1, 8), float32], %w: Tensor[(4, 8), float32], %v: Tensor[(2, 4), float32]) {
  %0 = nn.dense(%x, %w, units=4);
  %1 = nn.relu(%0);
  %2 = nn.dense(%1, %v, units=2);
  nn.softmax(%2)
}
"""
TABLE = """\
Node Name             Ops                   Time(us)  Time(%)  Shape   Inputs  Outputs
---------             ---                   --------  -------  -----   ------  -------
fused_nn_dense_relu   fused_nn_dense_relu   6.0       60.0     (1, 4)  2       1
fused_nn_dense        fused_nn_dense        3.0       30.0     (1, 2)  2       1
fused_nn_softmax      fused_nn_softmax      1.0       10.0     (1, 2)  1       1
broken line
Total_time            -                     10.0      -        -       -       -
"""
KEY = '["0123", [1, 8], [4, 8], [1, 4]]'


def log_line(seconds: float, error: int = 0) -> str:
    return json.dumps({"i": [[KEY, "llvm"], [[], [["CI", 1]]]], "r": [[seconds], error, 1.0, 1.7e9], "v": "v0.6"})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "old"
    place.mkdir()
    (place / "model.txt").write_text(RELAY, encoding="utf-8")
    (place / "table.txt").write_text(TABLE, encoding="utf-8")
    (place / "tuning.json").write_text("\n".join([log_line(2e-6), log_line(1e10, error=1), "{", log_line(1e-6)]), encoding="utf-8")
    (place / "README").write_text("nothing of TVM", encoding="utf-8")
    return place


def test_rows_are_tied_to_operators_and_logs_to_tasks(folder: Path, tmp_path: Path) -> None:
    session, imported = import_artifacts(folder, session=tmp_path / "s", name="mlp")
    with session:
        profile = session.profile()
        first, second, third = profile.record.rows
        assert [str(origin) for origin in first.origins] == ["nn.dense %0 (line 3)", "nn.relu %1 (line 4)"]
        assert [str(origin) for origin in second.origins] == ["nn.dense %2 (line 5)"]
        assert [str(origin) for origin in third.origins] == ["nn.softmax the result (line 6)"]
        assert (first.time_us, first.time_percent, first.shape, first.flop, first.kernel) == (
            6.0,
            60.0,
            "(1, 4)",
            2 * 4 * 8 + 4,
            "fused_nn_dense_relu",
        )
        assert {match.confidence for match in imported.matches.values()} == {0.99}
        assert [(file, bad.line) for file, bad in imported.bad] == [("table.txt", 6), ("tuning.json", 3)]
        with session.directory.store() as store:
            trials = store.trials.of_task(str(first.task))
            assert [(trial.number, trial.status, trial.time_us, trial.best_us) for trial in trials] == [
                (1, OK, 2.0, 2.0),
                (2, REJECTED, None, 2.0),
                (3, OK, 1.0, 1.0),
            ]
            (progress,) = store.trials.progress()
            assert (progress.task, progress.trials, progress.best, progress.best_us, progress.errors) == (first.task, 3, 3, 1.0, {REJECTED: 1})
            assert store.document("matches") == {"rows": {str(row): match.to_dict() for row, match in imported.matches.items()}}


def test_an_imported_session_opens_again_and_runs_nothing(folder: Path, tmp_path: Path) -> None:
    import_artifacts(folder, session=tmp_path / "s")[0].close()
    with workbench.open(tmp_path / "s") as session:
        assert len(session.profile().record.rows) == 3
        with pytest.raises(InputError, match="the model itself is not in it"):
            session.profile(refresh=True)
        with pytest.raises(SelectionError):
            session.profile().select(top=1)


def test_the_graph_of_an_imported_model_ties_operators_to_rows(folder: Path, tmp_path: Path) -> None:
    with import_artifacts(folder, session=tmp_path / "s")[0] as session:
        graph = session.graph()
    assert [(node.kind, node.origin.op or node.origin.name, node.reads, node.rows, node.state) for node in graph.source] == [
        ("input", "x", (), (), ""),
        ("operator", "nn.dense", (0,), (0,), "called"),
        ("operator", "nn.relu", (1,), (0,), "called"),
        ("operator", "nn.dense", (2,), (1,), "called"),
        ("operator", "nn.softmax", (3,), (2,), "called"),
        ("output", "output", (4,), (), ""),
    ]
    dense = graph.source[1]
    assert (str(dense.origin), dense.attributes, [str(item) for item in (*dense.outputs, *dense.weights)]) == (
        "nn.dense %0 (line 3)",
        {"units": "4"},
        ["(1, 4)", "(4, 8)"],
    )
    assert [(node.kind, node.name, node.reads, node.row) for node in graph.kernels] == [
        ("input", "x", (), None),
        ("kernel", "fused_nn_dense_relu", (0,), 0),
        ("kernel", "fused_nn_dense", (1,), 1),
        ("kernel", "fused_nn_softmax", (2,), 2),
        ("output", "output", (3,), None),
    ]


def test_rows_of_a_table_stand_as_the_program_runs_them_and_so_each_reads_earlier_ones(tmp_path: Path) -> None:
    lines = TABLE.splitlines()
    (tmp_path / "t.txt").write_text("\n".join([*lines[:2], *reversed(lines[2:5])]), encoding="utf-8")
    (tmp_path / "m.txt").write_text(RELAY, encoding="utf-8")
    session, imported = import_artifacts([tmp_path / "t.txt", tmp_path / "m.txt"], session=tmp_path / "s")
    with session:
        assert [row.kernel for row in imported.profile.rows] == ["fused_nn_dense_relu", "fused_nn_dense", "fused_nn_softmax"]
        assert [node.reads for node in session.graph().kernels] == [(), (0,), (1,), (2,), (3,)]
    assert any("in which the program runs" in note for note in imported.profile.notes)


def test_a_table_alone_has_no_graph_and_says_what_would_give_one(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TABLE, encoding="utf-8")
    with import_artifacts([tmp_path / "t.txt"], session=tmp_path / "s")[0] as session, pytest.raises(SessionError) as caught:
        session.graph()
    assert str(caught.value) == "Nothing that was imported says what reads what. Import it again, with a Relay program or a graph JSON."


@needs_samples
@pytest.mark.parametrize(("model", "operators", "weights"), [("mlp", 10, 6), ("resnet18", 72, 43)])
def test_the_graph_of_a_sample_is_whole(model: str, operators: int, weights: int, tmp_path: Path) -> None:
    session, imported = import_artifacts(SAMPLES / model, session=tmp_path / "s")
    with session:
        graph = session.graph()
    assert graph.belongs_to(imported.profile)
    called = [node for node in graph.source if node.state == "called"]
    assert (len(called), sum(len(node.weights) for node in graph.kernels)) == (operators, weights)
    kernels = [node for node in graph.kernels if node.kind == "kernel"]
    assert all(node.reads for node in kernels)
    assert {tensor.dtype for node in kernels for tensor in (*node.outputs, *node.weights)} == {"float32"}
    assert [node.name for node in graph.kernels if node.kind == "input"] == ["data"]
    read = {number for node in graph.kernels for number in node.reads}
    assert read == set(range(len(graph.kernels) - 1))


def call(name: str, structural_hash: str, *inputs: int) -> dict[str, Any]:
    """A node of a graph JSON."""
    return {"op": "tvm_op", "name": name, "attrs": {"func_name": name, "hash": structural_hash}, "inputs": [[place, 0, 0] for place in inputs]}


def given(name: str) -> dict[str, Any]:
    return {"op": "null", "name": name, "inputs": []}


def graph_json(*nodes: dict[str, Any], shapes: list[list[int]]) -> str:
    attributes = {"shape": ["list_shape", shapes], "dltype": ["list_str", ["float32"] * len(nodes)]}
    rows = list(range(len(nodes) + 1))
    return json.dumps({"nodes": nodes, "arg_nodes": [], "heads": [[len(nodes) - 1, 0, 0]], "node_row_ptr": rows, "attrs": attributes})


GRAPH = graph_json(
    given("x"),
    given("p0"),
    call("fused_nn_dense_relu", "12ab", 0, 1),
    given("p1"),
    call("fused_nn_dense", "34cd", 2, 3),
    call("fused_nn_softmax", "56ef", 4),
    shapes=[[1, 8], [4, 8], [1, 4], [2, 4], [1, 2], [1, 2]],
)


def test_without_a_program_rows_are_the_nodes_of_a_graph_that_have_their_names(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.txt").write_text(TABLE.replace("fused_nn_softmax ", "fused_nn_sigmoid "), encoding="utf-8")
    (tmp_path / "g.json").write_text(GRAPH, encoding="utf-8")
    (tmp_path / "log.json").write_text(log_line(2e-6), encoding="utf-8")
    session, imported = import_artifacts(tmp_path, session=tmp_path / "s")
    session.close()
    matches = {row.kernel: imported.matches[row.row] for row in imported.profile.rows}
    assert {kernel: (match.confidence, match.evidence) for kernel, match in matches.items()} == {
        "fused_nn_dense_relu": (0.99, ("the same name as a node of the graph",)),
        "fused_nn_dense": (0.99, ("the same name as a node of the graph",)),
        "fused_nn_sigmoid": (0.0, ("the graph has no node of that name",)),
    }
    (trial,) = imported.trials
    assert trial.task == next(row.task for row in imported.profile.rows if row.kernel == "fused_nn_dense_relu")
    assert main(["import", str(tmp_path), "--session", str(tmp_path / "other")]) == 0
    assert "2 of 3 rows are matched to functions of the graph" in capsys.readouterr().out


def test_a_graph_alone_has_its_graph_its_shapes_and_its_dtypes(tmp_path: Path) -> None:
    (tmp_path / "g.json").write_text(GRAPH, encoding="utf-8")
    session, imported = import_artifacts(tmp_path / "g.json", session=tmp_path / "s")
    with session:
        graph = session.graph()
    assert [(row.ops, row.shape, row.dtype) for row in imported.profile.rows] == [
        (("dense", "relu"), "(1, 4)", "float32"),
        (("dense",), "(1, 2)", "float32"),
        (("softmax",), "(1, 2)", "float32"),
    ]
    assert graph.source == ()
    assert [(node.kind, node.reads, [str(tensor) for tensor in node.weights]) for node in graph.kernels] == [
        ("input", (), []),
        ("kernel", (0,), ["(4, 8)"]),
        ("kernel", (1,), ["(2, 4)"]),
        ("kernel", (2,), []),
        ("output", (3,), []),
    ]


OPTIMISED = """fn (%x: Tensor[(1, 8), float32], %w: Tensor[(8, 8), float32], %v: Tensor[(8, 8), float32]) {
  %2 = fn (%p0: Tensor[(1, 8), float32], %p1: Tensor[(8, 8), float32], Primitive=1, hash="34cd") {
    nn.dense(%p0, %p1, units=8) /* ty=Tensor[(1, 8), float32] */
  };
  %3 = %2(%x, %w) /* ty=Tensor[(1, 8), float32] */;
  %4 = fn (%p0: Tensor[(1, 8), float32], %p1: Tensor[(8, 8), float32], Primitive=1, hash="12ab", weight_layout="NC8n") {
    nn.dense(%p0, %p1, units=8, out_dtype="float32") /* ty=Tensor[(1, 8), float32] */
  };
  %4(%3, %v) /* ty=Tensor[(1, 8), float32] */
}
"""


def test_functions_of_the_same_hash_are_the_same_whatever_else_speaks_against_it(tmp_path: Path) -> None:
    nodes = [given("x"), given("p0"), call("fused_nn_dense", "12ab", 0, 1), given("p1"), call("fused_nn_dense_1", "34cd", 2, 3)]
    (tmp_path / "g.json").write_text(graph_json(*nodes, shapes=[[1, 8], [8, 8], [1, 9], [8, 8], [1, 7]]), encoding="utf-8")
    (tmp_path / "o.txt").write_text(OPTIMISED, encoding="utf-8")
    session, imported = import_artifacts(tmp_path, session=tmp_path / "s")
    session.close()
    assert {(match.confidence, match.evidence, match.alternatives) for match in imported.matches.values()} == {(1.0, ("the same hash",), ())}
    assert [row.origins[0].location for row in imported.profile.rows] == ["line 7", "line 3"]


REPORT = """\
Name                 Duration (us)  Percent  Device  Count  Argument Shapes
fused_nn_dense             6.00       75.00    cpu0      2  float32[1, 8], float32[8, 8], float32[1, 8]
fused_nn_softmax           2.00       25.00    cpu0      1  float32[1, 8], float32[1, 8]
"""


def test_a_line_of_a_report_stands_for_all_its_calls(tmp_path: Path) -> None:
    weight = "Tensor[(8, 8), float32]"
    text = f"fn (%x: Tensor[(1, 8), float32], %w: {weight}, %v: {weight}) {{ %0 = nn.dense(%x, %w);\n%1 = nn.dense(%0, %v);\nnn.softmax(%1) }}"
    (tmp_path / "r.txt").write_text(REPORT, encoding="utf-8")
    (tmp_path / "m.txt").write_text(text, encoding="utf-8")
    session, imported = import_artifacts([tmp_path / "r.txt", tmp_path / "m.txt"], session=tmp_path / "s")
    session.close()
    dense, softmax = imported.profile.rows
    flop = 2 * 8 * 8
    assert (dense.time_us, dense.flop, dense.gflops, dense.dtype) == (6.0, 2 * flop, pytest.approx(2 * flop / 6.0 / 1e3), "float32")
    assert [origin.location for origin in (*dense.origins, *softmax.origins)] == ["line 1", "line 2", "line 3"]
    task = imported.profile.tasks[0]
    assert (task.weight, task.flop, task.time_us) == (2, flop, 6.0)
    assert "as many calls (2)" in imported.matches[0].evidence


@needs_samples
@pytest.mark.parametrize(("model", "sketched", "templates"), [("mlp", 4, 6), ("resnet18", 24, 14)])
def test_tasks_that_old_tuners_listed_are_those_of_the_rows(model: str, sketched: int, templates: int, tmp_path: Path) -> None:
    session, imported = import_artifacts(SAMPLES / model, session=tmp_path / "s")
    session.close()
    assert imported.old_search.unmatched == ()
    named = [(task, listed) for task in imported.profile.tasks for listed in task.listed]
    described = [(task, listed) for task, listed in named if listed.tuner == "auto_scheduler"]
    assert len(described) == sketched
    for task, listed in described:
        assert listed.weight == task.weight
        ours = {kernel.removeprefix("tvmgen_default_").replace("contrib_dense_pack", "dense") for kernel in task.kernels}
        assert listed.name.removeprefix("vm_mod_") in ours
    tuned = {(listed.name, listed.key) for _, listed in named if listed.tuner == "AutoTVM"}
    assert len(tuned) == templates
    for task, listed in named:
        if listed.tuner == "AutoTVM":
            assert task.ops[0] == listed.name.partition("_")[0]
            assert task.spaces[listed.name] == listed.space_size


def test_a_listed_task_of_no_row_is_kept(folder: Path, tmp_path: Path) -> None:
    key = '["0123", [1, 16], [4, 16], [1, 4]]'
    (folder / "tasks.txt").write_text(f"weight 3 desc vm_mod_fused_nn_dense_nn_relu key {key}\nweight x desc\n", encoding="utf-8")
    (folder / "curve.tsv").write_text(
        "ElapsedTime(s)\t10\tEstimatedLatency(ms)\tN/A\tTrials\t8\nElapsedTime(s)\t20\tEstimatedLatency(ms)\t1.5\tTrials\t16\n", encoding="utf-8"
    )
    session, imported = import_artifacts(folder, session=tmp_path / "s")
    with session, session.directory.store() as store:
        assert store.document("old_search") == {
            "curve": [{"elapsed_s": 10.0, "latency_us": None, "trials": 8}, {"elapsed_s": 20.0, "latency_us": 1500.0, "trials": 16}],
            "unmatched": [{"tuner": "auto_scheduler", "name": "vm_mod_fused_nn_dense_nn_relu", "key": key, "weight": 3, "space_size": None}],
        }
    assert OldSearch.from_dict(imported.old_search.to_dict()) == imported.old_search


TWINS = """fn (%x: Tensor[(1, 8, 16, 16), float32], %w: Tensor[(8, 8, 3, 3), float32], %v: Tensor[(8, 8, 5, 5), float32]) {
  %0 = nn.conv2d(%x, %w, padding=[1, 1, 1, 1], channels=8, kernel_size=[3, 3]);
  %1 = nn.softmax(%0);
  %2 = nn.conv2d(%1, %v, padding=[2, 2, 2, 2], channels=8, kernel_size=[5, 5]);
  nn.softmax(%2)
}
"""
TWIN_ROWS = """\
Node Name           Ops                 Time(us)  Time(%)  Shape           Inputs  Outputs
---------           ---                 --------  -------  -----           ------  -------
fused_nn_conv2d     fused_nn_conv2d     280.0     70.0     (1, 8, 16, 16)  2       1
fused_nn_conv2d_1   fused_nn_conv2d_1   100.0     25.0     (1, 8, 16, 16)  2       1
fused_nn_softmax    fused_nn_softmax    10.0      2.5      (1, 8, 16, 16)  1       1
fused_nn_softmax_1  fused_nn_softmax    10.0      2.5      (1, 8, 16, 16)  1       1
"""


@pytest.fixture
def twins(tmp_path: Path) -> Iterator[Session]:
    """Two convolutions that look the same in the table, whose times speak against the order of their numbers."""
    (tmp_path / "m.txt").write_text(TWINS, encoding="utf-8")
    (tmp_path / "t.txt").write_text(TWIN_ROWS, encoding="utf-8")
    (tmp_path / "curve.tsv").write_text(
        "".join(f"ElapsedTime(s)\t{10 * step}\tEstimatedLatency(ms)\t{4 / step}\tTrials\t{64 * step}\n" for step in (1, 2)), encoding="utf-8"
    )
    (tmp_path / "tasks.txt").write_text('weight 1 desc vm_mod_fused_nn_dense key ["0123", [1, 8], [4, 8], [1, 4]]\n', encoding="utf-8")
    with import_artifacts(tmp_path, session=tmp_path / "s")[0] as session:
        yield session


def test_the_frame_of_an_imported_session_says_how_surely_each_row_is_matched(twins: Session) -> None:
    frame = twins.profile().frame()
    assert dict(zip(frame["kernel"], frame["match"], strict=True)) == {"fused_nn_conv2d": 0.75, "fused_nn_conv2d_1": 0.75, "fused_nn_softmax": 0.99}
    first = frame[frame["kernel"] == "fused_nn_conv2d"]["evidence"].item()
    other = frame[frame["kernel"] == "fused_nn_conv2d_1"]["task"].item()
    assert first.startswith("ambiguous: the same operators; the same output shape")
    assert first.endswith(f"; it could be {other}")


def test_the_table_of_an_imported_session_has_its_matches(twins: Session) -> None:
    profile = twins.profile()
    columns = snapshot(profile.record, {}, profile.matches)["columns"]
    by_kernel = {kernel: place for place, kernel in enumerate(columns["kernel"])}
    conv, softmax = by_kernel["fused_nn_conv2d"], by_kernel["fused_nn_softmax"]
    assert [(columns["match"][place], columns["ambiguous"][place]) for place in (conv, softmax)] == [(75.0, True), (99.0, False)]
    assert columns["evidence"][conv].startswith("ambiguous: ")


def test_the_command_marks_what_is_ambiguous(twins: Session, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    del twins
    assert main(["import", str(tmp_path / "m.txt"), str(tmp_path / "t.txt"), "--session", str(tmp_path / "other")]) == 0
    printed = capsys.readouterr().out
    assert (printed.count("75 % ?"), printed.count("99 %")) == (2, 2)


def test_the_report_of_an_imported_session_has_matches_and_the_old_search(twins: Session) -> None:
    text = html.unescape(page(read_content(twins.directory, version="0")))
    assert "75 %: ambiguous: the same operators" in text
    assert "99 %: the same operators" in text
    assert "The search of old TVM" in text
    assert "128 trials in 20 s: from 4.00 ms to 2.00 ms." in text
    assert 'auto_scheduler: weight 1 desc vm_mod_fused_nn_dense key ["0123", [1, 8], [4, 8], [1, 4]]' in text


def test_the_monitor_of_an_imported_session_draws_the_old_search(twins: Session) -> None:
    stream = Stream(StoreFeed(twins.directory))
    stream.read()
    line = stream.snapshot().content["forecast"]["data"][0]
    assert (line["x"], line["y"]) == ([10.0, 20.0, 20.0], [4.0, 2.0, 2.0])


def test_a_program_alone_gives_its_calls_without_times(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(RELAY, encoding="utf-8")
    session, imported = import_artifacts(tmp_path / "m.txt", session=tmp_path / "s")
    session.close()
    assert [row.ops for row in imported.profile.rows] == [("dense", "relu"), ("dense",), ("softmax",)]
    assert all(row.time_us is None for row in imported.profile.rows)
    assert imported.profile.unmeasured == "no table or trace with times was given"


def test_a_table_alone_gives_rows_that_are_tied_to_nothing(tmp_path: Path) -> None:
    (tmp_path / "t.txt").write_text(TABLE, encoding="utf-8")
    session, imported = import_artifacts([tmp_path / "t.txt"], session=tmp_path / "s")
    session.close()
    assert [(row.ops, row.origins, row.time_us) for row in imported.profile.rows] == [
        (("dense", "relu"), (), 6.0),
        (("dense",), (), 3.0),
        (("softmax",), (), 1.0),
    ]
    assert {match.confidence for match in imported.matches.values()} == {0.0}


def test_the_command_gives_a_profile_whose_rows_have_their_matches(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(folder), "--session", str(tmp_path / "s"), "--json", "-"]) == 0
    values = json.loads(capsys.readouterr().out)
    assert values["rows"][0]["match"] == {
        "confidence": 0.99,
        "evidence": ["the same operators", "the same output shape (1, 4)", "as many calls (1)", "no other function of the program is like it"],
        "alternatives": [],
    }
    assert [(item["file"], item["line"]) for item in values["set_aside"]] == [("table.txt", 6), ("tuning.json", 3)]
    assert [(log["trials"], log["best_us"]) for log in values["logs"]] == [(3, 1.0)]


def test_the_table_says_how_surely_rows_are_matched(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["import", str(folder), "--session", str(tmp_path / "s")]) == 0
    printed = capsys.readouterr()
    assert "3 of 3 rows are matched to operators of the program, 3 of them surely" in printed.out
    assert "table.txt, line 6 was set aside" in printed.err


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (RELAY, kinds.RELAY),
        ("fn (%x: Tensor[(1), float32]) { %x }", kinds.RELAY),
        (f"log line\n{TABLE}", kinds.DEBUG_TABLE),
        ("Name  Duration (us)  Percent\n", kinds.REPORT),
        (f"# comment\n{log_line(1.0)}", kinds.AUTO_SCHEDULER_LOG),
        ('{"input": [], "result": []}', kinds.AUTOTVM_LOG),
        ('{"i": [], "r": [], "v": 0.1}', kinds.AUTOTVM_LOG),
        ("ElapsedTime(s)\t1\tEstimatedLatency(ms)\t2\tTrials\t3", kinds.LATENCY_CURVE),
        ("weight 1 desc a key [1]", kinds.AUTO_SCHEDULER_TASKS),
        ("[Task(func_name=dense.x86, args=())]", kinds.AUTOTVM_TASKS),
        ('{\n "nodes": []}', kinds.GRAPH),
        ('{"displayTimeUnit": "ns", "traceEvents": []}', kinds.TRACE),
        ("", None),
        ("import os", None),
        ("{" * 1000, None),
        ("[" * 100_000, None),
    ],
)
def test_a_file_is_known_by_its_content(content: str, kind: str | None) -> None:
    assert kind_of(content) == kind


def test_what_is_no_artifact_is_refused_by_name(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="README is no artifact") as caught:
        read_artifacts([folder / "README"])
    assert "debug tables" in caught.value.remedy
    with pytest.raises(InputError, match="There is no"):
        read_artifacts([tmp_path / "missing"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="nothing to import"):
        read_artifacts([tmp_path / "empty"])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(InputError, match="is no file"):
        read_artifacts([tmp_path / "pipe"])


def test_a_session_of_a_model_is_not_overwritten(folder: Path, session: Any) -> None:
    with pytest.raises(SessionError, match="the session of a model that was profiled here"):
        import_artifacts(folder, session=session.path)


def test_a_failed_import_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "m.txt").write_text(RELAY.replace("nn.softmax(%2)", "nn.softmax(%9)"), encoding="utf-8")
    with pytest.raises(workbench.errors.ModelError):
        import_artifacts(tmp_path / "m.txt", session=tmp_path / "s")
    assert not (tmp_path / "s").exists()


@needs_samples
@pytest.mark.parametrize(("model", "rows"), [("mlp", 5), ("resnet18", 31)])
def test_a_sample_is_imported_whole(model: str, rows: int, tmp_path: Path) -> None:
    session, imported = import_artifacts(SAMPLES / model, session=tmp_path / "s")
    session.close()
    assert (len(imported.profile.rows), imported.bad) == (rows, ())
    assert all(row.origins for row in imported.profile.rows)
    assert min(match.confidence for match in imported.matches.values()) >= 0.9


def test_the_readable_lines_of_a_log_are_kept_among_the_records_for_searches_to_start_from(folder: Path, tmp_path: Path) -> None:
    session, _ = import_artifacts(folder, session=tmp_path / "s")
    session.close()
    lines = (tmp_path / "s" / "records" / "auto_scheduler.json").read_text(encoding="utf-8").splitlines()
    assert lines == [log_line(2e-6), log_line(1e10, error=1), log_line(1e-6)]


def test_the_readable_lines_of_a_log_of_autotvm_are_kept_too(tmp_path: Path) -> None:
    line = json.dumps(
        {
            "input": ["llvm", "dense_pack.x86", [["TENSOR", [1, 8], "float32"], ["TENSOR", [4, 8], "float32"], None, "float32"], {}],
            "config": {"index": 0, "code_hash": None, "entity": [["tile_y", "sp", [-1, 1]]]},
            "result": [[2e-6], 0, 1.0, 1.7e9],
            "version": 0.2,
            "tvm_version": "0.16.dev0",
        }
    )
    (tmp_path / "log.json").write_text(f"{line}\ndamage\n{line}\n", encoding="utf-8")
    import_artifacts(tmp_path / "log.json", session=tmp_path / "s")[0].close()
    assert (tmp_path / "s" / "records" / "autotvm.log").read_text(encoding="utf-8") == f"{line}\n{line}\n"


# databases of older MetaSchedule

DATABASE = Path(__file__).parents[1] / "samples" / "metaschedule_0_16"


def test_a_database_of_an_older_version_is_read_with_its_failures_and_its_damage(tmp_path: Path) -> None:
    folder = tmp_path / "database"
    shutil.copytree(DATABASE, folder)
    with (folder / "database_tuning_record.json").open("a", encoding="utf-8") as file:
        file.write('[0, [[["GetBlock"\n')
    session, imported = import_artifacts(folder, session=tmp_path / "s")
    with session:
        (progress,) = imported.progress
        assert progress.name == "workload 0: matmul (64, 64) (64, 64) (64, 64)"
        assert (progress.trials, dict(progress.errors)) == (6, {"run_error": 1})
        assert progress.best_us == pytest.approx(min(trial.time_us for trial in imported.trials if trial.time_us is not None))
        assert all(any(word.startswith("tile ") for word in trial.decisions) for trial in imported.trials)
        (failed,) = (trial for trial in imported.trials if trial.status != OK)
        assert failed.error == "the measurement failed; a database keeps no reason"
        ((file_name, bad),) = imported.bad
        assert (file_name, bad.line) == ("database/database_tuning_record.json", 7)
        assert imported.profile.rows == ()
