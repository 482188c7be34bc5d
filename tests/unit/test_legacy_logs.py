"""Logs and task lists of the old tuners: what is read, and what is set aside with its line and reason."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.legacy.auto_scheduler.latency_curve import LatencyPoint, parse_total_latency
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.auto_scheduler.steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    FollowFusedSplit,
    FollowSplit,
    Fuse,
    Pragma,
    Reorder,
    Rfactor,
    Split,
    StorageAlign,
    parse_step,
)
from workbench.legacy.auto_scheduler.task_list import parse_auto_scheduler_tasks
from workbench.legacy.autotvm_log import Knob, parse_autotvm_log, parse_autotvm_tasks
from workbench.legacy.lines import BadLine, LineError
from workbench.legacy.measured import parse_result
from workbench.records.trial import BUILD_ERROR, BUILD_TIMEOUT, OK, REJECTED, RUN_ERROR, RUN_TIMEOUT, WRONG_RESULT

SAMPLES = Path(__file__).parents[3] / "shared" / "legacy"
needs_samples = pytest.mark.skipif(not SAMPLES.is_dir(), reason="samples of old artifacts are not here")

TARGET = "llvm -keys=cpu -mcpu=skylake-avx512 -num-cores=2"
KEY = '["matmul", 64, 32, 16]'
STEPS = [["SP", 2, 0, 64, [4, 8], 1], ["AN", 2, 0, 3]]
RESULT = [[0.25, 0.5], 0, 1.5, 1700000000]


def line(**changes: Any) -> str:
    values = {"i": [[KEY, TARGET, [2, 64, 64, 0, 0, 0, 0, 0], "", 1, []], [[], STEPS]], "r": RESULT, "v": "v0.6"}
    return json.dumps({**values, **changes})


# the auto-scheduler's log


def test_a_line_of_the_log_is_one_trial_with_its_steps_and_times() -> None:
    parsed = parse_auto_scheduler_log(f"# a comment\n\n{line()}\n")
    assert parsed.bad == ()
    (record,) = parsed.entries
    assert (record.line, record.workload, json.loads(record.arguments), record.target, record.version) == (3, "matmul", [64, 32, 16], TARGET, "v0.6")
    assert record.workload_key == KEY
    assert record.hardware == (2, 64, 64, 0, 0, 0, 0, 0)
    assert record.steps == (Split(2, 0, 64, (4, 8), inner_to_outer=True), Annotate(2, 0, "parallel"))
    assert (record.result.status, record.result.times_s, record.result.all_cost_s, record.result.measured_at) == (OK, (0.25, 0.5), 1.5, 1.7e9)


@pytest.mark.parametrize(
    ("version", "task"),
    [
        ("v0.2", [KEY, TARGET]),
        ("v0.3", [KEY, TARGET, [2, 64, 64, 0, 0, 0, 0, 0]]),
        ("v0.5", [KEY, TARGET, [2, 64, 64, 0, 0, 0, 0, 0], "", 1]),
        ("v0.6", [KEY, TARGET, [2, 64, 64, 0, 0, 0, 0, 0], "", 1, ["a", "b"]]),
    ],
)
def test_every_version_has_a_task_of_its_own_length(version: str, task: list[Any]) -> None:
    (record,) = parse_auto_scheduler_log(line(i=[task, [[], STEPS]], v=version)).entries
    assert (record.workload, record.version, len(record.hardware)) == ("matmul", version, 0 if version == "v0.2" else 8)


def test_a_key_of_old_versions_may_be_a_bare_hash() -> None:
    (record,) = parse_auto_scheduler_log(line(i=[["0123abcd", TARGET], [[], []]], v="v0.2")).entries
    assert (record.workload, record.arguments, record.steps) == ("0123abcd", "[]", ())


@pytest.mark.parametrize(
    ("value", "step"),
    [
        (["AN", 6, 0, 4], Annotate(6, 0, "vthread")),
        (["FU", 6, [0, 1, 2]], Fuse(6, (0, 1, 2))),
        (["PR", 3, 0, "auto_unroll_max_step$512"], Pragma(3, 0, "auto_unroll_max_step$512")),
        (["RE", 3, [1, 0]], Reorder(3, (1, 0))),
        (["SP", 3, 4, 512, [1, None, 16], 0], Split(3, 4, 512, (1, None, 16), inner_to_outer=False)),
        (["SP", 3, 4, None, [16], 1], Split(3, 4, None, (16,), inner_to_outer=True)),
        (["FSP", 6, 3, 2, 1], FollowSplit(6, 3, 2, 1)),
        (["FFSP", 6, 3, [1, 2], 1, 1], FollowFusedSplit(6, 3, (1, 2), 1, by_factor=True)),
        (["SA", 1, 2, 32, 8], StorageAlign(1, 2, 32, 8)),
        (["CA", 1, 3, 7], ComputeAt(1, 3, 7)),
        (["CI", 5], ComputeInline(5)),
        (["CR", 5], ComputeRoot(5)),
        (["CHR", 1, "shared", [3, 4]], CacheRead(1, "shared", (3, 4))),
        (["CHW", 1, "local"], CacheWrite(1, "local")),
        (["RF", 1, 2, 0], Rfactor(1, 2, 0)),
    ],
)
def test_every_step_is_read(value: list[Any], step: object) -> None:
    assert parse_step(value) == step


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (["XX", 1], "there is no step 'XX'"),
        ([], "a step has 0 items instead of at least 1"),
        (["SP", 1, 2], "the step SP has 2 arguments instead of 5"),
        (["AN", 1, 2, 12], "there is no annotation 12"),
        (["CI", "5"], "a stage is '5', not a whole number"),
        (["CI", True], "a stage is True, not a whole number"),
        ("CI", "a step is 'CI', not a list"),
        ([["CI"], 5], "there is no step ['CI']"),
    ],
)
def test_a_step_that_is_none_says_why(value: Any, reason: str) -> None:
    with pytest.raises(LineError) as caught:
        parse_step(value)
    assert str(caught.value) == reason


def test_damaged_lines_are_set_aside_with_number_and_reason_and_the_others_read() -> None:
    content = "\n".join(
        [
            line(),
            line()[:-20],
            "[1, 2]",
            line(v="v0.9"),
            line(r=[[0.1], 9, 1.0, 1]),
            line(r=[[], 0, 1.0, 1]),
            line(r=[[1e10], 0, 1.0, 1]),
            line(i=[[KEY], [[], []]]),
            line(i=[["[1]", TARGET], [[], []]]),
            '{"i": NaN}',
            "[" * 100_000,
            line(r=[[1e10], 1, 1.0, 1]),
        ]
    )
    parsed = parse_auto_scheduler_log(content)
    assert [record.line for record in parsed.entries] == [1, 12]
    assert [bad.line for bad in parsed.bad] == [2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    reasons = [bad.reason for bad in parsed.bad]
    assert reasons[0].startswith("it is no JSON value: ")
    assert reasons[1:] == [
        "the line is [1, 2], not an object",
        "its version is 'v0.9'; known are v0.2, v0.3, v0.4, v0.5, v0.6",
        "9 is no error number",
        "it claims success without a measured time that makes sense",
        "it claims success without a measured time that makes sense",
        "the task has 1 items instead of at least 2",
        "the workload's name is 1, not a text",
        "it is no JSON value: NaN is not a JSON value",
        "it is nested too deeply",
    ]


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (1, REJECTED),
        (2, BUILD_ERROR),
        (3, BUILD_ERROR),
        (4, RUN_ERROR),
        (5, WRONG_RESULT),
        (6, BUILD_TIMEOUT),
        (7, RUN_TIMEOUT),
        (8, RUN_ERROR),
    ],
)
def test_a_failure_has_a_class_and_no_time(code: int, status: str) -> None:
    result = parse_result([[1e10], code, 2.0, 3])
    assert (result.status, result.times_s) == (status, ())
    assert result.error


@needs_samples
def test_the_sample_log_is_read_whole() -> None:
    parsed = parse_auto_scheduler_log((SAMPLES / "conv2d_auto_scheduler.json").read_text(encoding="utf-8"))
    assert (len(parsed.entries), parsed.bad) == (64, ())
    assert {record.workload for record in parsed.entries} == {"conv2d_layer"}


# what else the auto-scheduler printed

TASKS = f"""some text
weight 2 desc vm_mod_fused_nn_dense_add key ["08f7", [1, 64], [10, 64], [1, 10], [1, 10]]
p0 = PLACEHOLDER [1, 64]
T_add(ax0, ax1) = (T_matmul_NT[ax0, ax1] + p2[ax0, ax1])

weight 1 desc matmul key {KEY}
weight 1 desc broken key ["08f7", [1, 64]
weight 1 desc broken key [5]
"""


def test_a_printed_task_has_weight_key_shapes_and_its_compute_dag() -> None:
    parsed = parse_auto_scheduler_tasks(TASKS)
    first, second = parsed.entries
    assert (first.weight, first.description, first.shapes) == (2, "vm_mod_fused_nn_dense_add", ((1, 64), (10, 64), (1, 10), (1, 10)))
    assert first.compute_dag.splitlines() == ["p0 = PLACEHOLDER [1, 64]", "T_add(ax0, ax1) = (T_matmul_NT[ax0, ax1] + p2[ax0, ax1])"]
    assert (second.weight, second.workload_key, second.shapes, second.compute_dag.splitlines()[:1]) == (1, KEY, (), [])
    assert [bad.line for bad in parsed.bad] == [7, 8]
    assert parsed.bad[1] == BadLine(8, "the workload's name is 5, not a text")


def test_the_latency_of_the_whole_model_over_a_search_is_read() -> None:
    row = "ElapsedTime(s)\t{}\tEstimatedLatency(ms)\t{}\tTrials\t{}\n"
    parsed = parse_total_latency(row.format(10, "N/A", 64) + row.format(20, "1.250", 128) + "x\t1\n" + row.format("nan", "1", 1))
    assert parsed.entries == (LatencyPoint(10.0, None, 64), LatencyPoint(20.0, 1250.0, 128))
    assert [bad.line for bad in parsed.bad] == [3, 4]


@needs_samples
@pytest.mark.parametrize(("model", "count"), [("mlp", 4), ("resnet18", 24)])
def test_the_sample_task_lists_are_read_whole(model: str, count: int) -> None:
    parsed = parse_auto_scheduler_tasks((SAMPLES / model / "auto_scheduler_tasks.txt").read_text(encoding="utf-8"))
    assert (len(parsed.entries), parsed.bad) == (count, ())
    assert all(task.shapes and task.compute_dag for task in parsed.entries)


# AutoTVM

AUTOTVM = {
    "input": [TARGET, "dense_nopack.x86", [["TENSOR", [1, 784], "float32"], ["TENSOR", [128, 784], "float32"], None, "float32"], {}],
    "config": {"index": 86, "code_hash": None, "entity": [["tile_y", "sp", [-1, 1]], ["unroll", "ot", 16]]},
    "result": [[0.001], 0, 3.75, 1700000000.5],
    "version": 0.2,
    "tvm_version": "0.16.dev0",
}


def test_a_line_of_autotvm_is_one_trial_with_its_knobs() -> None:
    (record,) = parse_autotvm_log(json.dumps(AUTOTVM)).entries
    assert (record.task, record.target, record.index, record.result.times_s) == ("dense_nopack.x86", TARGET, 86, (0.001,))
    assert json.loads(record.arguments)[0] == ["TENSOR", [1, 784], "float32"]
    assert record.knobs == (Knob("tile_y", "sp", "[-1, 1]"), Knob("unroll", "ot", "16"))


def test_a_line_of_the_first_version_is_read_without_its_knobs() -> None:
    old = {"i": [TARGET, "topi_nn_dense", [["TENSOR", [1, 8], "float32"]], {}, None, {"i": 3}], "r": [[0.1], 0, 1.0, 1], "v": 0.1}
    (record,) = parse_autotvm_log(json.dumps(old)).entries
    assert (record.task, record.index, record.knobs, record.result.status) == ("topi_nn_dense", None, (), OK)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"version": 0.3}, "its version is 0.3; known are 0.1 and 0.2"),
        ({"config": {"index": 1, "entity": [["a", "zz", 1]]}}, "'zz' is no kind of knob"),
        ({"config": {"index": 1}}, "the configuration has no 'entity'"),
        ({"input": [TARGET]}, "the input has 1 items instead of at least 3"),
    ],
)
def test_a_damaged_line_of_autotvm_says_why(changes: dict[str, Any], reason: str) -> None:
    parsed = parse_autotvm_log(json.dumps({**AUTOTVM, **changes}))
    assert (parsed.entries, parsed.bad) == ((), (BadLine(1, reason),))


def test_printed_tasks_are_read_as_literals_and_never_run() -> None:
    printed = "Task(func_name=dense.x86, args=(('TENSOR', (1, 8), 'float32'), None), kwargs={}, workload=('dense.x86',))  # space 120"
    hostile = "Task(func_name=dense.x86, args=(__import__('os').abort(),), kwargs={})"
    parsed = parse_autotvm_tasks(f"[{printed[:-13]}\n{printed}\n{hostile}\nTask(func_name=\n")
    assert [(task.name, json.loads(task.arguments), task.space_size) for task in parsed.entries] == [
        ("dense.x86", [["TENSOR", [1, 8], "float32"], None], None),
        ("dense.x86", [["TENSOR", [1, 8], "float32"], None], 120),
    ]
    assert [(bad.line, bad.reason) for bad in parsed.bad] == [(3, "the task's arguments are no literals"), (4, "the task is no Python expression")]


@needs_samples
def test_the_sample_of_autotvm_is_read_whole() -> None:
    parsed = parse_autotvm_log((SAMPLES / "mlp_autotvm.log").read_text(encoding="utf-8"))
    assert (len(parsed.entries), parsed.bad) == (14, ())
    tasks = parse_autotvm_tasks((SAMPLES / "mlp" / "autotvm_tasks.txt").read_text(encoding="utf-8"))
    assert (len(tasks.entries), tasks.bad) == (6, ())
    assert [task.space_size for task in tasks.entries] == [120, 540, 56, 224, 28, 63]
