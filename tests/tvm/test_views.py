"""Views of real trials on a CPU: what they show is true, they are made in a process of their own, and a search does not hold them up."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tvm
import tvm_ffi

import workbench
from workbench.engines.relax.engine import RelaxEngine
from workbench.engines.relax.search.processes import new_nursery
from workbench.engines.relax.viewer import IsolatedViewer
from workbench.engines.view_protocol import Viewer, ViewQuestion
from workbench.errors import InputError
from workbench.isolation import Nursery
from workbench.models import resolve_model
from workbench.records.view import (
    ALL_VIEWS,
    ASM,
    COMPUTE_DAG,
    DECISIONS,
    EFFECTS,
    LOWERED,
    PTX,
    RESOURCES,
    SCHEDULE,
    SOURCE,
    TIR,
    TIR_BEFORE,
    VIEWS,
    ViewText,
)
from workbench.records.view_diff import ViewDiff

ARGS = (1, 14, 14, 16, 16, 3, 3, 1, 1)
TRIALS = 16
ANSWER_S = 20.0
HANG_S = 120


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[workbench.Session]:
    """A small convolution that was tuned."""
    with workbench.SearchTask("conv2d_relu", ARGS, "cpu", session=tmp_path_factory.mktemp("views") / "s", threads=2) as task:
        task.tune(TRIALS, flat_after=None).wait()
        yield task.session


@pytest.fixture(scope="module")
def kernel(session: workbench.Session) -> str:
    return session.profile().tasks[0].name


def best(session: workbench.Session, kernel: str) -> int:
    """A trial that has a trace."""
    with session.directory.store() as store:
        trials = [trial for trial in store.trials.of_task(session.profile().tasks[0].task) if trial.time_us is not None and trial.number]
    return min(trials, key=lambda trial: trial.time_us or 0.0).number


def lines(view: ViewText, first: int, last: int) -> list[str]:
    return view.text.split("\n")[first - 1 : last]


def module_of(text: str) -> tvm.IRModule:
    module: tvm.IRModule = tvm.script.from_source(text)
    return module


def test_every_view_that_is_offered_can_be_shown_for_the_baseline_and_the_best(session: workbench.Session, kernel: str) -> None:
    offered = [info.view for info in session.views(kernel) if info.available]
    assert set(offered) == set(ALL_VIEWS) - {PTX, "sass"}
    for trial in (0, best(session, kernel)):
        found = session.inspection(kernel, *offered, trial=trial)
        assert [view.view for view in found.views if view.unavailable or not view.text] == []
    missing = session.inspection(kernel, PTX, TIR, trial=0)
    assert missing.view(PTX).unavailable == "a kernel for llvm has no PTX"
    assert missing.view(TIR).text
    with pytest.raises(InputError, match="no PTX"):
        session.inspect(kernel, PTX, trial=0)


@pytest.mark.parametrize("number", [0, 1, 7, None])
def test_the_schedule_makes_the_scheduled_tir_of_the_one_before(number: int | None, session: workbench.Session, kernel: str) -> None:
    trial = best(session, kernel) if number is None else number
    found = session.inspection(kernel, SCHEDULE, TIR_BEFORE, TIR, trial=trial)
    names: dict[str, Any] = {}
    exec(found.view(SCHEDULE).text, names)  # noqa: S102 - the text is meant to be run
    schedule = tvm.s_tir.Schedule(module_of(found.view(TIR_BEFORE).text))
    names["apply_trace"](schedule)
    assert tvm_ffi.structural_hash(schedule.mod) == tvm_ffi.structural_hash(module_of(found.view(TIR).text))


def test_decisions_are_those_of_the_trial_by_block_and_loop(session: workbench.Session, kernel: str) -> None:
    number = best(session, kernel)
    view = session.inspection(kernel, DECISIONS, trial=number).view(DECISIONS)
    knobs = view.data["knobs"]
    with session.directory.store() as store:
        trial = store.trials.trial(session.profile().tasks[0].task, number)
    assert trial is not None
    tiles = [knob["value"].replace(" x", "") for knob in knobs if knob["kind"] == "tile"]
    assert tiles == [text.removeprefix("tile ") for text in trial.decisions if text.startswith("tile ")]
    blocks = {knob["block"] for knob in knobs if knob["kind"] == "tile"}
    assert any("conv2d" in block for block in blocks)
    assert len({knob["knob"] for knob in knobs}) == len(knobs)
    extents = sorted(_product(tile) for tile in tiles)
    assert extents == sorted([1, 16, 14, 14, 16, 3, 3])
    assert all(knob["loop"] for knob in knobs if knob["kind"] == "tile")
    assert [knob for knob in knobs if knob["kind"] in {"parallel", "vectorize"}]
    unrolls = [knob["value"] for knob in knobs if knob["kind"] == "unroll" and knob["sampled"]]
    assert unrolls == [text.removeprefix("unroll ") for text in trial.decisions if text.startswith("unroll ")]
    for knob in knobs:
        assert knob["value"] in view.text


def _product(text: str) -> int:
    result = 1
    for factor in text.split():
        result *= int(factor)
    return result


def test_the_baseline_has_no_decisions_and_says_why(session: workbench.Session, kernel: str) -> None:
    view = session.inspection(kernel, DECISIONS, trial=0).view(DECISIONS)
    assert view.data["knobs"] == []
    assert "untuned kernel" in view.text


def test_links_lead_to_lines_that_are_about_what_they_name(session: workbench.Session, kernel: str) -> None:
    found = session.inspection(kernel, SCHEDULE, TIR, LOWERED, SOURCE, ASM, trial=best(session, kernel))
    tir = found.view(TIR)
    assert any(link.name.startswith("block conv2d") for link in tir.links)
    for link in tir.links:
        kind, _, name = link.name.partition(" ")
        head = lines(tir, link.first_line, link.first_line)[0]
        assert f'T.sblock("{name}")' in head if kind == "block" else name in head
    in_tir = {link.name for link in tir.links}
    schedule = found.view(SCHEDULE)
    assert schedule.links
    assert {link.name for link in schedule.links} <= in_tir
    assert any(link.name.startswith("block conv2d") for link in schedule.links)
    source = found.view(SOURCE)
    for link in source.links:
        assert lines(source, link.first_line, link.first_line)[0].startswith("for_")
        assert link.name.removeprefix("loop ") in lines(source, link.first_line, link.first_line)[0]
    assert {link.name for link in source.links} & in_tir


def test_lowered_tir_is_what_the_code_generator_gets(session: workbench.Session, kernel: str) -> None:
    text = session.inspect(kernel, LOWERED, trial=0)
    assert "sblock" not in text.replace("# with T.sblock", "")
    assert "T.prim_func" in text


def test_source_and_assembly_are_of_the_same_kernel(session: workbench.Session, kernel: str) -> None:
    found = session.inspection(kernel, SOURCE, ASM, trial=best(session, kernel))
    assert "define" in found.view(SOURCE).text
    assert "ret" in found.view(ASM).text
    assert found.view(ASM).text != session.inspect(kernel, ASM, trial=0)


def test_resources_count_vectors_multiply_adds_and_what_loops_touch(session: workbench.Session, kernel: str) -> None:
    found = session.inspection(kernel, RESOURCES, trial=best(session, kernel)).view(RESOURCES)
    data = found.data
    assert data["assembly"]["instructions"] > 50
    assert data["assembly"]["vector_bits"] <= (data["target_vector_bits"] or 512)
    outer = [loop for loop in data["loops"] if loop["depth"] == 0]
    whole = session.profile().tasks[0].tensor_bytes
    assert whole is not None
    assert any(loop["bytes"] is not None and loop["bytes"] > 0 for loop in outer)
    for loop, inner in zip(data["loops"], data["loops"][1:], strict=False):
        if inner["depth"] == loop["depth"] + 1 and loop["bytes"] is not None and inner["bytes"] is not None:
            assert inner["bytes"] <= loop["bytes"]
    assert data["roofline"]["percent"] > 0
    assert "% of the limit" in found.text
    assert "vector width used" in found.text


def test_two_trials_are_compared_line_by_line_and_by_decision(session: workbench.Session, kernel: str) -> None:
    diff: ViewDiff = session.diff(kernel, TIR, trial=best(session, kernel))
    assert not diff.identical
    assert diff.left.startswith("trial 0 (untuned)")
    assert diff.decisions
    assert all(item.left is None for item in diff.decisions)
    assert session.diff(kernel, TIR, trial=1, other=1).identical


def test_the_effects_of_real_trials_have_the_names_of_real_loops(session: workbench.Session, kernel: str) -> None:
    found = session.inspection(kernel, EFFECTS).view(EFFECTS)
    assert found.data["trials"] == TRIALS - 1 - sum(1 for trial in _failed(session))
    assert any("conv2d" in effect["knob"] for effect in found.data["effects"])


def _failed(session: workbench.Session) -> list[int]:
    with session.directory.store() as store:
        return [trial.number for trial in store.trials.of_task(session.profile().tasks[0].task) if trial.time_us is None]


def test_a_copied_session_shows_the_same_without_the_model(session: workbench.Session, kernel: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", str(session.path), str(copy)], check=True)  # noqa: S607
    with workbench.open(copy) as reopened:
        for trial in (0, best(session, kernel)):
            assert reopened.inspect(kernel, TIR, trial=trial) == session.inspect(kernel, TIR, trial=trial)


def test_on_the_command_line_views_come_from_the_directory_alone(session: workbench.Session, kernel: str) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "workbench.cli.main",
            "inspect",
            "--session",
            str(session.path),
            "--task",
            kernel,
            "--trial",
            "1",
            "--show",
            "tir",
            "-q",
        ],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=HANG_S,
        check=True,
    )
    assert done.stdout.rstrip("\n") == session.inspect(kernel, TIR, trial=1).rstrip("\n")


# while a search runs


def test_views_are_answered_while_the_search_runs(tmp_path: Path) -> None:
    with workbench.SearchTask("conv2d_relu", ARGS, "cpu", session=tmp_path / "s", threads=2) as task:
        name = task.kernels[0]
        search = task.tune(100_000, flat_after=None)
        deadline = time.monotonic() + HANG_S
        while len(task.trials()) < 4:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        took = []
        for view in (TIR, SOURCE, DECISIONS, RESOURCES):
            started = time.monotonic()
            assert task.session.inspection(name, view, trial=0).view(view).text
            took.append(time.monotonic() - started)
        assert search.is_running
        before = len(task.trials())
        while len(task.trials()) < before + 4:  # and it goes on
            assert time.monotonic() < deadline
            time.sleep(0.02)
        search.cancel()
    assert max(took) < ANSWER_S, took


# faults


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    with new_nursery() as made:
        yield made


@pytest.fixture(scope="module")
def engine(nursery: Nursery) -> RelaxEngine:
    made = RelaxEngine(nursery)
    made.import_model(resolve_model("matmul", args=(16, 16, 16)), seed=0, function=None)
    made.lower(made.resolve_target("cpu", threads=1), layout="keep", fusion=True, on_progress=lambda phase, share: None)
    return made


def made(viewer: Viewer, question: ViewQuestion) -> dict[str, ViewText]:
    viewer.begin(question)
    deadline = time.monotonic() + HANG_S
    while (found := viewer.poll()) is None:
        assert time.monotonic() < deadline
        time.sleep(0.002)
    return {view.view: view for view in found}


def process_of(viewer: Any) -> int:
    return int(viewer._process.pid)  # noqa: SLF001 - which process it is matters to tests alone


def test_a_process_that_dies_costs_one_view(engine: RelaxEngine) -> None:
    viewer = engine.viewer()
    try:
        made(viewer, ViewQuestion("matmul", "", (TIR,)))
        first = process_of(viewer)
        os.kill(first, signal.SIGSTOP)
        viewer.begin(ViewQuestion("matmul", "", (TIR, COMPUTE_DAG)))
        os.kill(first, signal.SIGKILL)
        deadline = time.monotonic() + HANG_S
        while (found := viewer.poll()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.002)
        dead, alive = found
        assert "was killed" in dead.unavailable
        assert dead.remedy
        assert "matmul[i, j] += A[i, k] * B[k, j]" in alive.text
        assert process_of(viewer) != first
    finally:
        viewer.close()


def test_a_view_that_takes_too_long_is_given_up_and_the_next_one_is_made(engine: RelaxEngine, nursery: Nursery) -> None:
    slow = engine.viewer()
    viewer = IsolatedViewer(nursery, slow._load, timeout_s=0.0)  # type: ignore[attr-defined]  # noqa: SLF001 - of the same engine
    try:
        found = made(viewer, ViewQuestion("matmul", "", (TIR,)))
        assert found[TIR].unavailable in {"it took more than 0 s to make", ""}
        viewer._timeout_s = 60.0  # noqa: SLF001
        assert made(viewer, ViewQuestion("matmul", "", (TIR,)))[TIR].text
    finally:
        viewer.close()
        slow.close()


def test_what_was_given_up_does_not_answer_later(engine: RelaxEngine) -> None:
    viewer = engine.viewer()
    try:
        viewer.begin(ViewQuestion("matmul", "", VIEWS))
        with pytest.raises(RuntimeError, match="not answered yet"):
            viewer.begin(ViewQuestion("matmul", "", (TIR,)))
        viewer.stop()
        assert list(made(viewer, ViewQuestion("matmul", "", (COMPUTE_DAG,)))) == [COMPUTE_DAG]
    finally:
        viewer.close()
        viewer.close()


@pytest.mark.parametrize("trace", ["[]", "[[], []]", "[" * 5000, '[[["NoSuchInstruction", [], [], []]], []]'])
def test_a_trace_that_does_not_fit_is_said_in_each_view_that_needs_it(trace: str, engine: RelaxEngine) -> None:
    viewer = engine.viewer()
    try:
        found = made(viewer, ViewQuestion("matmul", trace, (TIR_BEFORE, TIR, DECISIONS), expected="0" * 16))
        assert found[TIR_BEFORE].text
        for view in (TIR, DECISIONS):
            assert "recorded schedule" in found[view].unavailable
            assert found[view].remedy
    finally:
        viewer.close()
