"""Views of kernels of a real old TVM: they show the schedule that is asked for, what they print does it again, and what cannot be shown says why."""

from __future__ import annotations

import json
import subprocess
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.relay.opened import CONV, DENSE, OPTIONS, SOFTMAX, TARGET, TILED, Opened, open_model
from workbench.engines.relay import interpreter
from workbench.engines.relay.interpreter import Interpreter
from workbench.engines.relay.traces import fingerprint
from workbench.engines.relay.viewer import RelayViewer
from workbench.engines.view_protocol import ViewQuestion
from workbench.records.target import TargetSpec
from workbench.records.view import (
    ASM,
    COMPUTE_DAG,
    DECISIONS,
    LOWERED,
    PTX,
    RESOURCES,
    SASS,
    SCHEDULE,
    SOURCE,
    TIR,
    TIR_BEFORE,
    VIEWS,
    ViewText,
)

HANG_S = 240.0

SCHEDULED_AGAIN = """
import json, sys
sys.path[0] = sys.argv[1]
import tvm
from tvm import te
from tvm_side.kernel_code import from_text
from tvm_side.held import Kernel
from tvm_side.replaying import fingerprint, lowered
from tvm_side.building import target_of
for given in json.load(sys.stdin):
    target = target_of(given["target"])
    kernel = Kernel(given["kernel"], "tvmgen_default_" + given["kernel"], from_text(given["function"]), "")
    mine = lowered(kernel, target, given["trace"])
    printed = {}
    exec(given["schedule"], printed)
    if "apply_steps" in printed:
        schedule = te.create_schedule([mine.tensors[-1].op])
        printed["apply_steps"](schedule)
        print(tvm.ir.structural_equal(*(tvm.lower(item, mine.tensors, simple_mode=True) for item in (schedule, mine.schedule))))
    else:
        (function,) = printed["lower"](kernel.function, target).functions.values()
        print(fingerprint(function) == mine.fingerprint)
"""


STAGES_OF_ONE_NAME = """
import json, sys
sys.path[0] = sys.argv[1]
import tvm
from tvm import relay, te
from tvm_side.held import Kernel
from tvm_side.replaying import dag_of, lowered
from tvm_side.view_schedule import schedule_text
target = tvm.target.Target("llvm -mtriple=x86_64-linux-gnu -mcpu=nehalem")
a, b, c, d = (relay.var(name, shape=(8, 16)) for name in "abcd")
module = tvm.IRModule.from_expr(relay.Function([a, b, c, d], relay.nn.relu(a + b + c + d)))
module = relay.transform.InferType()(relay.transform.FuseOps(2)(relay.transform.InferType()(module)))
kernel = Kernel("sums", "tvmgen_default_sums", module["main"].body.op, "")
steps = [["CI", 2], ["SP", 4, 0, 8, [2], 1], ["CI", 6], ["FU", 7, [0, 1]], ["AN", 7, 0, 3]]
task = [dag_of(kernel, target).workload_key(), str(target), [2, 64, 64, 0, 0, 0, 0, 0], "", 0, []]
mine = lowered(kernel, target, json.dumps({"i": [task, [[], steps]], "v": "v0.6"}))
printed = {}
exec(schedule_text(mine), printed)
schedule = te.create_schedule([mine.tensors[-1].op])
printed["apply_steps"](schedule)
print(tvm.ir.structural_equal(*(tvm.lower(item, mine.tensors, simple_mode=True) for item in (schedule, mine.schedule))))
"""


@pytest.fixture(scope="module")
def opened(old_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Opened]:
    child = Interpreter(old_python, threads=2)
    yield open_model(child, tmp_path_factory.mktemp("opened"))
    child.close()


@pytest.fixture(scope="module")
def viewer(old_python: Path, opened: Opened) -> Iterator[RelayViewer]:
    viewer = RelayViewer(Interpreter(old_python, threads=2), opened.function, TARGET)
    yield viewer
    viewer.close()


def shown(viewer: RelayViewer, kernel: str, trace: str, *views: str, expected: str = "") -> dict[str, ViewText]:
    viewer.begin(ViewQuestion(kernel, trace, views, expected))
    deadline = time.monotonic() + HANG_S
    while (texts := viewer.poll()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.01)
    assert tuple(text.view for text in texts) == views
    return {text.view: text for text in texts}


def made_again(old_python: Path, opened: Opened, cases: Sequence[tuple[str, str, str]]) -> list[str]:
    """What the old Python says of printed schedules beside the recorded ones; each case is a kernel, its trace, and what was printed."""
    given = [
        {"kernel": kernel, "function": opened.function(kernel).decode(), "trace": trace, "schedule": schedule, "target": OPTIONS}
        for kernel, trace, schedule in cases
    ]
    command = [str(old_python), "-c", SCHEDULED_AGAIN, str(interpreter.FOLDER)]
    done = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip().splitlines()[-len(cases) :]


def test_a_schedule_of_auto_scheduler_is_shown_in_all_its_forms(viewer: RelayViewer, opened: Opened) -> None:
    trace = opened.steps(TILED)
    found = shown(viewer, CONV, trace, *VIEWS, expected=fingerprint(trace))
    assert {view for view, text in found.items() if text.unavailable} == {PTX, SASS}
    assert "conv2d_NCHWc(n, oc_chunk, oh, ow, oc_block) +=" in found[COMPUTE_DAG].text
    assert "T.parallel" not in found[TIR_BEFORE].text
    assert "T.parallel" in found[TIR].text
    assert "num_args should be 3" in found[LOWERED].text
    assert "define" in found[SOURCE].text
    assert "x86_64" in found[SOURCE].text
    assert "mulss" in found[ASM].text
    assert "vector width used" in found[RESOURCES].text
    assert found[RESOURCES].data["assembly"]["instructions"] > 100
    assert any(link.name.startswith("loop ") for link in found[TIR].links)


def test_decisions_are_named_by_stage_and_loop(viewer: RelayViewer, opened: Opened) -> None:
    knobs = shown(viewer, CONV, opened.steps(TILED), DECISIONS)[DECISIONS].data["knobs"]
    assert [(knob["knob"], knob["value"], knob["sampled"]) for knob in knobs] == [
        ("tile conv2d_NCHWc/ow", "2 x 7", True),
        ("parallel conv2d_NCHWc/oc_chunk", "", False),
        ("unroll conv2d_NCHWc/n", "16", True),
        ("vectorize T_relu/ax4", "", False),
    ]


def test_a_configuration_of_autotvm_is_shown_with_its_knobs(viewer: RelayViewer, opened: Opened) -> None:
    trace = opened.template(CONV, place=3)
    found = shown(viewer, CONV, trace, DECISIONS, TIR, SOURCE)
    names = {name: value for name, _, value in json.loads(trace)["config"]["entity"]}
    assert {knob["loop"] for knob in found[DECISIONS].data["knobs"]} == set(names)
    assert "T.prim_func" in found[TIR].text
    assert "define" in found[SOURCE].text


def test_the_baseline_has_everything_but_decisions(viewer: RelayViewer) -> None:
    found = shown(viewer, SOFTMAX, "", SCHEDULE, DECISIONS, TIR, SOURCE)
    assert not any(text.unavailable for text in found.values())
    assert found[DECISIONS].data["knobs"] == []
    assert "TOPI's own schedule" in found[SCHEDULE].text


def test_the_printed_schedule_makes_the_same_kernel(viewer: RelayViewer, opened: Opened, old_python: Path) -> None:
    cases = [(CONV, opened.steps(TILED)), (DENSE, opened.template(DENSE, place=2)), (SOFTMAX, "")]
    printed = [(kernel, trace, shown(viewer, kernel, trace, SCHEDULE)[SCHEDULE].text) for kernel, trace in cases]
    assert made_again(old_python, opened, printed) == ["True", "True", "True"]


def test_stages_of_one_name_are_told_apart_in_the_printed_schedule(old_python: Path) -> None:
    command = [str(old_python), "-c", STAGES_OF_ONE_NAME, str(interpreter.FOLDER)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "True"


def test_a_schedule_that_is_not_this_kernels_or_not_the_measured_one_is_not_shown(viewer: RelayViewer, opened: Opened) -> None:
    trace = opened.steps(TILED)
    cases = {
        "another kernel's": shown(viewer, SOFTMAX, trace, TIR),
        "not the one that was measured": shown(viewer, CONV, trace, TIR, expected="0123456789abcdef"),
        "is no JSON": shown(viewer, CONV, "{", TIR, expected="0123456789abcdef"),
        "is damaged": shown(viewer, CONV, "{", TIR),
    }
    for why, found in cases.items():
        assert why in found[TIR].unavailable
        assert found[TIR].remedy


def test_text_in_a_record_cannot_become_code_of_the_printed_schedule(viewer: RelayViewer, opened: Opened) -> None:
    trace = opened.steps([["PR", 3, 0, 'x"); import os; ("']])
    found = shown(viewer, CONV, trace, SCHEDULE)[SCHEDULE]
    assert "no word" in found.unavailable


def test_steps_that_fit_no_stage_cost_one_view(viewer: RelayViewer, opened: Opened) -> None:
    found = shown(viewer, CONV, opened.steps([["AN", 99, 0, 3]]), TIR)[TIR]
    assert found.unavailable
    assert not shown(viewer, CONV, opened.steps(TILED), TIR)[TIR].unavailable


def test_a_process_that_is_killed_is_replaced(viewer: RelayViewer, opened: Opened) -> None:
    trace = opened.steps(TILED)
    viewer.begin(ViewQuestion(CONV, trace, (SOURCE, ASM)))
    viewer.stop()
    assert "define" in shown(viewer, CONV, trace, SOURCE)[SOURCE].text


@pytest.mark.parametrize(("kind", "details"), [("opencl", {}), ("cuda", {"arch": "sm_70"})])
def test_a_gpu_kernel_is_shown_without_a_gpu_where_this_tvm_has_its_code_generator(
    old_python: Path, opened: Opened, kind: str, details: dict[str, str]
) -> None:
    host = {name: value for name, value in OPTIONS.items() if name != "num-cores"}
    config = json.dumps({"kind": kind, **details, "host": host})
    viewer = RelayViewer(Interpreter(old_python, threads=2), opened.function, TargetSpec(kind, config, kind, kind))
    try:
        found = shown(viewer, SOFTMAX, "", TIR, SOURCE, ASM, PTX)
    finally:
        viewer.close()
    assert all(found[view].unavailable and found[view].remedy for view in (ASM, PTX))
    if kind == "cuda" and found[SOURCE].unavailable:  # most builds of old TVM for processors lack it
        assert "cannot build for cuda" in found[SOURCE].unavailable
        return
    assert "blockIdx.x" in found[TIR].text
    assert ("__global__" if kind == "cuda" else "__kernel") in found[SOURCE].text
