"""Views for fronts: one at a time, refused with a reason, given up when nobody wants them any more, and answered while a search runs."""

from __future__ import annotations

import itertools
import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.search_fakes import Bench, Rig, Running, look_for_commands_always, trace_of
from workbench.engines.view_protocol import ViewQuestion
from workbench.errors import EnvironmentFault, InputError, Interrupted, SelectionError
from workbench.records.command import ABANDONED, CANCELLED, DONE, FAILED, PENDING, RUNNING
from workbench.records.peaks import Bandwidth, Peaks, Rate
from workbench.records.trial import OK, Trial
from workbench.records.tuning import TaskProgress
from workbench.records.view import COMPUTE_DAG, RESOURCES, TIR, ViewText
from workbench.search import attention
from workbench.session import SessionDirectory
from workbench.worker.context import JobContext
from workbench.worker.view_desk import INSPECT, DeskBesideSearch, ViewDesk

LIMIT_S = 10.0
RATE = Rate(1e12, 1e12, 0.0, 15)
PEAKS = Peaks("cpu", "0" * 16, 2, RATE, (Bandwidth(RATE, 2**30, "memory"),), "by hand", 1.0)


class FakeViewer:
    """Makes each view of its name, when a test lets it."""

    def __init__(self) -> None:
        self.questions: list[ViewQuestion] = []
        self.stopped = 0
        self.closed = False
        self.fault: EnvironmentFault | None = None
        self.may_answer = threading.Event()
        self.may_answer.set()

    def begin(self, question: ViewQuestion) -> None:
        if self.fault is not None:
            raise self.fault
        self.questions.append(question)

    def poll(self) -> tuple[ViewText, ...] | None:
        if not self.may_answer.is_set():
            return None
        return tuple(ViewText(view, f"{view} of {self.questions[-1].kernel}") for view in self.questions[-1].views)

    def stop(self) -> None:
        self.stopped += 1

    def close(self) -> None:
        self.closed = True


class Lab:
    """A session with trials 0 and 1 of conv2d, and a desk."""

    def __init__(self, directory: SessionDirectory) -> None:
        self.directory = directory
        self.viewer = FakeViewer()
        engine: Any = type("FakeEngine", (), {"viewer": lambda _: self.viewer})()
        self.desk = ViewDesk(engine)
        self.store = directory.store()
        profile = self.store.profile()
        assert profile is not None
        self.task = next(task for task in profile.tasks if task.name == "conv2d")
        for number, (origin, trace, time_us) in enumerate([("baseline", "", 100.0), ("search", trace_of(1), 50.0)]):
            trial = Trial(self.task.task, number, OK, "", f"f{number}", origin, "c", (time_us,), 1, 0.0, 0.0, 0.0, None, time_us, 1.0)
            self.store.trials.add(trial, trace, TaskProgress(self.task.task, "conv2d", 2))

    def ask(self, views: Any = (TIR,), trial: Any = 1, task: Any = None) -> int:
        return self.store.add_command(INSPECT, {"task": task or self.task.task, "trial": trial, "views": list(views)})

    def look(self, *, may_begin: bool = True) -> bool:
        return self.desk.look(self.store, may_begin=may_begin)

    def state(self, command: int) -> str:
        return self.store.command(command).state


@pytest.fixture
def lab(session: SessionDirectory) -> Iterator[Lab]:
    made = Lab(session)
    yield made
    made.store.close()


def test_a_waiting_command_is_taken_and_answered(lab: Lab) -> None:
    command = lab.ask([TIR, "asm"])
    assert lab.look() is False
    result = lab.store.command(command).result
    assert result is not None
    assert [ViewText.from_dict(values).text for values in result["views"]] == ["tir of conv2d", "asm of conv2d"]
    assert lab.viewer.questions == [ViewQuestion("conv2d", trace_of(1), (TIR, "asm"), "f1")]


def test_while_one_is_made_the_next_one_waits(lab: Lab) -> None:
    lab.viewer.may_answer.clear()
    first, second = lab.ask(), lab.ask()
    assert lab.look() is True
    assert lab.look() is True
    assert (lab.state(first), lab.state(second)) == (RUNNING, PENDING)
    lab.viewer.may_answer.set()
    lab.look()
    assert (lab.state(first), lab.state(second)) == (DONE, PENDING)
    lab.look()
    assert lab.state(second) == DONE


def test_nothing_is_begun_where_it_would_disturb_but_what_is_begun_is_looked_after(lab: Lab) -> None:
    command = lab.ask()
    assert lab.look(may_begin=False) is False
    assert lab.state(command) == PENDING
    lab.viewer.may_answer.clear()
    lab.look()
    lab.viewer.may_answer.set()
    assert lab.look(may_begin=False) is False
    assert lab.state(command) == DONE


def test_a_cancelled_command_ends_at_once(lab: Lab) -> None:
    lab.viewer.may_answer.clear()
    command = lab.ask()
    lab.look()
    lab.store.cancel_command(command)
    assert lab.look() is False
    assert (lab.state(command), lab.viewer.stopped) == (CANCELLED, 1)


def test_what_is_abandoned_may_be_asked_for_again(lab: Lab) -> None:
    lab.viewer.may_answer.clear()
    command = lab.ask()
    lab.look()
    lab.desk.abandon(lab.store)
    assert (lab.state(command), lab.viewer.stopped) == (ABANDONED, 1)
    lab.desk.abandon(lab.store)
    assert lab.viewer.stopped == 1
    lab.viewer.may_answer.set()
    again = lab.ask()
    lab.look()
    assert lab.state(again) == DONE


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"views": ["nothing"]}, "no view nothing"),
        ({"views": []}, "no views"),
        ({"views": [None]}, "None"),
        ({"task": "gone"}, "no task or kernel gone"),
        ({"trial": 99}, "no trial 99"),
        ({"trial": "x"}, "cannot be read"),
        ({"trial": None}, "cannot be read"),
    ],
)
def test_a_command_that_makes_no_sense_is_refused_with_a_reason(lab: Lab, changes: dict[str, Any], named: str) -> None:
    command = lab.ask(**changes)
    assert lab.look() is False
    failure = lab.store.command(command).failure
    assert failure is not None
    assert named in failure.message
    assert lab.look() is False


def test_a_command_without_arguments_is_refused(lab: Lab) -> None:
    command = lab.store.add_command(INSPECT, {})
    lab.look()
    assert lab.state(command) == FAILED


def test_a_process_that_cannot_be_started_is_said(lab: Lab) -> None:
    lab.viewer.fault = EnvironmentFault("No memory.", "Free some.")
    command = lab.ask()
    lab.look()
    failure = lab.store.command(command).failure
    assert failure is not None
    assert (failure.kind, failure.message, failure.remedy) == ("EnvironmentFault", "No memory.", "Free some.")


def test_what_no_trial_is_needed_for_needs_none(lab: Lab) -> None:
    command = lab.ask([COMPUTE_DAG], trial=99)
    lab.look()
    result = lab.store.command(command).result
    assert result is not None
    assert result["views"][0]["text"] == "compute_dag of conv2d\nFLOP = 1,000,000"
    assert lab.viewer.questions[0].trace == ""


@pytest.mark.parametrize(("trial", "time_us"), [(0, 100.0), (1, 50.0)])
def test_resources_say_how_far_the_trial_is_from_the_limit(lab: Lab, trial: int, time_us: float) -> None:
    lab.store.write_document("peaks", PEAKS.to_dict())
    command = lab.ask([RESOURCES], trial=trial)
    lab.look()
    result = lab.store.command(command).result
    assert result is not None
    (view,) = result["views"]
    limit_us = lab.task.tensor_bytes / 1e12 * 1e6  # type: ignore[operator]
    assert view["data"]["roofline"]["percent"] == pytest.approx(100 * limit_us / time_us)
    assert "% of the limit" in view["text"]


def test_without_known_limits_resources_say_so(lab: Lab) -> None:
    command = lab.ask([RESOURCES])
    lab.look()
    result = lab.store.command(command).result
    assert result is not None
    assert "limit of the device: not measured" in result["views"][0]["text"]
    assert result["views"][0]["data"]["roofline"] is None


def test_closing_ends_the_process(lab: Lab) -> None:
    lab.ask()
    lab.look()
    lab.desk.close()
    assert lab.viewer.closed


# without a search


def test_without_a_search_the_command_is_waited_for_and_can_be_interrupted(lab: Lab) -> None:
    told: list[str] = []

    def on_progress(phase: str, share: float) -> None:
        told.append(phase)
        if len(told) == 3:
            raise Interrupted("The work was stopped.")

    context = JobContext(lab.directory, lab.store, 1, on_progress, lambda: False)
    arguments = {"task": "conv2d", "trial": 1, "views": [TIR]}
    assert lab.desk.answer(context, arguments)["views"][0]["text"] == "tir of conv2d"
    lab.viewer.may_answer.clear()
    with pytest.raises(Interrupted):
        lab.desk.answer(context, arguments)
    assert lab.viewer.stopped == 1
    with pytest.raises(SelectionError):
        lab.desk.answer(context, {**arguments, "trial": 5})
    with pytest.raises(InputError):
        lab.desk.answer(context, {**arguments, "views": "tir"})


# while a search runs


class Searched:
    """A search that looks after a desk."""

    def __init__(self, directory: SessionDirectory, scratch: Path, *, exclusive: bool) -> None:
        self.viewer = FakeViewer()
        engine: Any = type("FakeEngine", (), {"viewer": lambda _: self.viewer})()
        self.rig = Rig(directory, Bench(), scratch, exclusive=exclusive)
        self.rig.side_work = lambda store: DeskBesideSearch(ViewDesk(engine), store)

    def ask(self, trial: int = 0) -> int:
        return self.rig.tell(INSPECT, task="conv2d", trial=trial, views=[COMPUTE_DAG])  # the traces of these trials are none

    def is_done(self, command: int) -> bool:
        return self.rig.answer(command).state == DONE


def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.001)


@pytest.fixture(params=[True, False], ids=["on the processor", "on a device"])
def searched(request: pytest.FixtureRequest, session: SessionDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Searched:
    look_for_commands_always(monkeypatch.setattr)
    monkeypatch.setattr(attention, "_PATIENCE_S", 0.05)
    return Searched(session, tmp_path / "scratch", exclusive=request.param)


def test_a_view_is_answered_although_a_measurement_takes_long(searched: Searched) -> None:
    measuring = searched.rig.bench.hold("measure conv2d/3")
    search = Running(searched.rig, "conv2d", per_task=6)
    assert measuring.reached.wait(LIMIT_S)
    command = searched.ask(trial=1)
    until(lambda: searched.is_done(command))
    measuring.let_go()
    assert search.wait()["tasks"]["conv2d"].trials == 6


def test_a_view_is_answered_while_candidates_are_built(searched: Searched) -> None:
    building = searched.rig.bench.hold("build conv2d/2")
    search = Running(searched.rig, "conv2d", per_task=6)
    assert building.reached.wait(LIMIT_S)
    command = searched.ask()
    until(lambda: searched.is_done(command))
    building.let_go()
    search.wait()


def test_a_paused_search_answers_too(searched: Searched) -> None:
    measuring = searched.rig.bench.hold("measure conv2d/3")
    search = Running(searched.rig, "conv2d", per_task=6)
    assert measuring.reached.wait(LIMIT_S)
    pause = searched.rig.tell("pause")
    measuring.let_go()
    until(lambda: searched.is_done(pause) and "paused" in searched.rig.progress)
    command = searched.ask(trial=1)
    until(lambda: searched.is_done(command))
    searched.rig.tell("resume")
    search.wait()


def test_a_measurement_on_the_processor_waits_for_a_view_but_not_for_long(
    session: SessionDirectory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    look_for_commands_always(monkeypatch.setattr)
    monkeypatch.setattr(attention, "_COURTESY_S", 0.2)
    searched = Searched(session, tmp_path / "scratch", exclusive=True)
    searched.viewer.may_answer.clear()
    waited: list[float] = []
    asked: list[int] = []

    def on_measure(fingerprint: str) -> None:
        waited.append(time.monotonic())
        if fingerprint == "conv2d/1":
            asked.append(searched.ask())

    searched.rig.bench.on_measure = on_measure
    searched.rig.search("conv2d", per_task=4)
    assert sum(later - earlier >= 0.2 for earlier, later in itertools.pairwise(waited)) == 1  # not before each measurement again
    assert searched.rig.answer(asked[0]).state == ABANDONED  # the search ended before it was made: its front asks again
    assert searched.viewer.stopped == 1


def test_a_cancelled_search_leaves_the_view_to_be_asked_for_again(searched: Searched) -> None:
    searched.viewer.may_answer.clear()
    measuring = searched.rig.bench.hold("measure conv2d/3")
    search = Running(searched.rig, "conv2d", per_task=60)
    assert measuring.reached.wait(LIMIT_S)
    command = searched.ask()
    until(lambda: searched.rig.answer(command).state == RUNNING)
    searched.rig.cancel()
    with pytest.raises(Interrupted):
        search.wait()
    assert searched.rig.answer(command).state == ABANDONED


def test_answers_are_json(lab: Lab) -> None:
    command = lab.ask()
    lab.look()
    assert json.loads(json.dumps(lab.store.command(command).result))["views"][0]["view"] == TIR
