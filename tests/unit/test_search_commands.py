"""What fronts ask of a running search: each command is answered, bad ones are refused, and a cancelled search ends at once."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.search_fakes import Rig, Running
from workbench.engines.search_protocol import Failed as Fault
from workbench.errors import EnvironmentFault, InputError, Interrupted
from workbench.records.command import DONE, PENDING
from workbench.records.command import FAILED as REFUSED
from workbench.records.trial import DEVICE_LOST, RUN_ERROR
from workbench.records.tuning import DROPPED, FAILED, FINISHED, STOPPED
from workbench.search import loop
from workbench.search.control import ADDRESSEE, Control
from workbench.search.limits import check_request
from workbench.worker.tuning import refuse_control

LIMIT_S = 10.0
EXCLUSIVE = pytest.mark.parametrize("exclusive", [True, False])


def until(condition: Callable[[], bool]) -> None:
    """Wait for something that has to come."""
    deadline = time.monotonic() + LIMIT_S
    while not condition():
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.001)


class Front:
    """Gives commands at given moments: before a candidate is measured, in the thread that measures."""

    def __init__(self, rig: Rig, **commands: Any) -> None:
        self.rig = rig
        self.numbers: list[int] = []
        self._plan: dict[str, list[tuple[str, dict[str, Any]]]] = {}
        self._mended: dict[str, dict[Any, Any]] = {}
        rig.bench.on_measure = self._look

    def at(self, fingerprint: str, kind: str, **arguments: Any) -> Front:
        self._plan.setdefault(fingerprint, []).append((kind, arguments))
        return self

    def mends(self, fingerprint: str, troubles: dict[Any, Any]) -> None:
        """Have the bench's troubles end before that candidate is measured."""
        self._mended[fingerprint] = troubles

    def task(self, kernel: str) -> str:
        return self.rig.tasks()[kernel].task

    def states(self) -> list[str]:
        return [self.rig.answer(number).state for number in self.numbers]

    def refusal(self) -> str:
        (number,) = self.numbers
        failure = self.rig.answer(number).failure
        assert failure is not None
        assert failure.remedy
        return failure.message

    def _look(self, fingerprint: str) -> None:
        self._mended.get(fingerprint, {}).clear()
        for kind, arguments in self._plan.get(fingerprint, []):
            self.numbers.append(self.rig.tell(kind, **arguments))


# steering


@EXCLUSIVE
def test_stop_finishes_what_is_measured_and_names_winners(rig: Rig, exclusive: bool) -> None:
    rig.exclusive = exclusive
    front = Front(rig).at("conv2d/3", "stop")
    result = rig.search("conv2d", "dense", per_task=500)
    assert front.states() == [DONE]
    assert result["stopped_because"] == "stopped by the user"
    assert {name: task.state for name, task in result["tasks"].items()} == {"conv2d": STOPPED, "dense": STOPPED}
    assert rig.trials("conv2d")[-1].fingerprint == "conv2d/3"
    assert result["tasks"]["conv2d"].final.winner == 3
    assert result["tasks"]["dense"].final is not None


@EXCLUSIVE
def test_stop_ends_a_round_that_is_being_built(rig: Rig, exclusive: bool) -> None:
    rig.exclusive = exclusive
    building = rig.bench.hold("build conv2d/2")
    search = Running(rig, "conv2d", per_task=500)
    assert building.reached.wait(LIMIT_S)
    number = rig.tell("stop")
    result = search.wait()
    assert rig.answer(number).state == DONE
    assert [trial.fingerprint for trial in rig.trials("conv2d")] == ["conv2d/untuned"]
    assert result["tasks"]["conv2d"].final.winner == 0


@EXCLUSIVE
def test_pause_stops_measuring_until_resume(rig: Rig, exclusive: bool) -> None:
    rig.exclusive = exclusive
    measuring = rig.bench.hold("measure conv2d/3")
    search = Running(rig, "conv2d", per_task=8, seconds=50.0)
    assert measuring.reached.wait(LIMIT_S)
    pause = rig.tell("pause")
    until(lambda: rig.answer(pause).state == DONE)
    measuring.let_go()
    until(lambda: "paused" in rig.progress)
    assert len(rig.trials("conv2d")) == 4  # what was being measured is stored all the same
    rig.clock.now += 1000.0  # a pause takes nothing of the time
    begun = len(rig.bench.said("begin"))
    answers = [rig.tell("budget", per_task=6), rig.tell("pause")]
    until(lambda: rig.answer(answers[1]).state == DONE)
    assert len(rig.bench.said("begin")) == begun
    rig.tell("resume")
    assert search.wait()["trials"] == 6


def test_a_paused_search_can_be_stopped(rig: Rig) -> None:
    Front(rig).at("conv2d/2", "pause")
    search = Running(rig, "conv2d", per_task=8)
    until(lambda: "paused" in rig.progress)
    rig.tell("stop")
    assert search.wait()["tasks"]["conv2d"].final.winner == 2


def test_a_search_that_is_stopped_does_not_wait_for_its_device(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "_RECOVERY_S", 3600.0)
    rig.bench.times["conv2d/1"] = Fault(DEVICE_LOST, "the GPU is lost")
    search = Running(rig, "conv2d", per_task=10)
    until(lambda: "wait for the device" in rig.progress)
    rig.tell("stop")
    assert search.wait()["trials"] == 2


@EXCLUSIVE
def test_a_dropped_task_is_left_at_once_and_its_trials_stay(rig: Rig, exclusive: bool) -> None:
    rig.exclusive = exclusive
    front = Front(rig)
    front.at("conv2d/5", "drop", task=front.task("conv2d"))
    result = rig.search("conv2d", "dense", per_task=20, batch=8)
    task = result["tasks"]["conv2d"]
    assert (task.state, task.stopped_because, task.trials, task.final) == (DROPPED, "dropped by the user", 6, None)
    assert result["tasks"]["dense"].trials == 20
    assert rig.bench.said("measure").count("conv2d/6") == 0
    assert not {"conv2d/6", "conv2d/7", "conv2d/8", "conv2d/9"}.intersection(rig.libraries())


@EXCLUSIVE
def test_what_a_dropped_task_had_proposed_is_measured_when_it_is_taken_up_again(rig: Rig, exclusive: bool) -> None:
    rig.exclusive = exclusive
    front = Front(rig)
    front.at("conv2d/5", "drop", task=front.task("conv2d")).at("dense/9", "add", task=front.task("conv2d"))
    result = rig.search("conv2d", "dense", per_task=20, batch=8)
    assert front.states() == [DONE, DONE]
    assert result["tasks"]["conv2d"].trials == 20
    assert sorted(int(trial.fingerprint.rpartition("/")[2]) for trial in rig.trials("conv2d")[1:]) == list(range(1, 20))


def test_learning_never_waits_for_what_was_not_measured(rig: Rig) -> None:
    front = Front(rig)
    front.at("conv2d/2", "drop", task=front.task("conv2d")).at("dense/9", "add", task=front.task("conv2d"))
    rig.search("conv2d", "dense", per_task=20, batch=4)
    learned = " ".join(entry.partition(" ")[2] for entry in rig.bench.said("learn") if entry.startswith("conv2d")).split()
    assert learned[:3] == ["untuned", "1", "2"]
    assert len(learned) == len(set(learned))


def test_a_task_can_join_with_a_budget_of_its_own(rig: Rig) -> None:
    front = Front(rig)
    front.at("conv2d/2", "add", task=front.task("dense"), trials=3, seconds=None)
    tasks = rig.search("conv2d", per_task=6)["tasks"]
    assert front.states() == [DONE]
    assert (tasks["dense"].trials, tasks["dense"].stopped_because) == (3, "its budget of 3 trials is used up")
    assert tasks["dense"].final is not None


@pytest.mark.parametrize("place", ["prepare", "propose"])
def test_a_task_that_failed_is_made_anew_when_it_is_added_again(rig: Rig, place: str) -> None:
    rig.bench.faults[place, "conv2d"] = ValueError("not now")
    front = Front(rig)
    front.at("dense/3", "add", task=front.task("conv2d"))
    front.mends("dense/3", rig.bench.faults)
    task = rig.search("conv2d", "dense", per_task=8, batch=4)["tasks"]["conv2d"]
    assert (task.state, task.trials, task.first_errors) == (FINISHED, 8, {})
    assert [trial.number for trial in rig.trials("conv2d")] == list(range(8))
    assert rig.bench.said("measure").count("conv2d/untuned") == 1


def test_a_baseline_that_failed_is_measured_again_when_the_task_is_added_again(rig: Rig) -> None:
    rig.bench.times["conv2d/untuned"] = InterruptedError("not now")
    front = Front(rig)
    front.at("dense/3", "add", task=front.task("conv2d"))
    front.mends("dense/3", rig.bench.times)
    task = rig.search("conv2d", "dense", per_task=8, batch=4)["tasks"]["conv2d"]
    assert (task.state, task.trials, task.baseline_us) == (FINISHED, 8, 100.0)


def test_a_task_dropped_before_its_baseline_was_measured_begins_anew(rig: Rig) -> None:
    building = rig.bench.hold("build conv2d/untuned")
    search = Running(rig, "conv2d", "dense", per_task=5)
    assert building.reached.wait(LIMIT_S)
    drop = rig.tell("drop", task=rig.tasks()["conv2d"].task)
    until(lambda: rig.answer(drop).state == DONE)
    building.let_go()
    rig.tell("add", task=rig.tasks()["conv2d"].task)
    assert search.wait()["tasks"]["conv2d"].trials == 5
    assert [trial.number for trial in rig.trials("conv2d")] == list(range(5))


@EXCLUSIVE
@pytest.mark.parametrize(("given", "trials"), [({}, 8), ({"seconds": 1000.0}, 8), ({"trials": 9}, 9)])
def test_a_task_that_comes_back_keeps_the_budgets_of_its_own_that_nobody_changes(
    rig: Rig, given: dict[str, Any], trials: int, exclusive: bool
) -> None:
    rig.exclusive = exclusive
    front = Front(rig)
    front.at("conv2d/3", "drop", task=front.task("conv2d")).at("dense/4", "add", task=front.task("conv2d"), **given)
    task = rig.search("conv2d", "dense", per_task=20, batch=4, selected={"conv2d": {"trials": 8, "seconds": 900.0}})["tasks"]["conv2d"]
    assert front.states() == [DONE, DONE]
    assert (task.trials, task.stopped_because) == (trials, f"its budget of {trials} trials is used up")
    assert (task.budget_trials, task.budget_seconds) == (trials, given.get("seconds", 900.0))


def test_a_failed_task_that_comes_back_keeps_its_budget_too(rig: Rig) -> None:
    rig.bench.faults["propose", "conv2d"] = ValueError("not now")
    front = Front(rig).at("dense/3", "add", task=rig.tasks()["conv2d"].task)
    front.mends("dense/3", rig.bench.faults)
    task = rig.search("conv2d", "dense", per_task=8, batch=4, selected={"conv2d": {"trials": 5}})["tasks"]["conv2d"]
    assert front.states() == [DONE]
    assert (task.trials, task.budget_trials) == (5, 5)


def test_an_earlier_searchs_budget_of_a_task_is_none_of_the_next_one(rig: Rig) -> None:
    rig.search("conv2d", per_task=20, selected={"conv2d": {"trials": 4}})
    assert rig.search("conv2d", per_task=7, resume=True)["tasks"]["conv2d"].trials == 7


def test_budgets_can_be_changed_while_it_runs(rig: Rig) -> None:
    front = Front(rig).at("conv2d/2", "budget", per_task=5)
    front.at("conv2d/3", "budget", task=front.task("dense"), trials=9, seconds=None)
    tasks = rig.search("conv2d", "dense", per_task=200)["tasks"]
    assert front.states() == [DONE, DONE]
    assert (tasks["conv2d"].trials, tasks["dense"].trials) == (5, 9)


@pytest.mark.parametrize("change", [{"per_task": 9}, {"task": "conv2d", "trials": 9}])
def test_a_larger_budget_lets_a_finished_task_go_on(rig: Rig, change: dict[str, Any]) -> None:
    front = Front(rig)
    if "task" in change:
        change = {**change, "task": front.task("conv2d")}
    front.at("dense/3", "budget", **change)
    rig.bench.times["dense/untuned"] = 1.0  # so that conv2d is finished before
    result = rig.search("conv2d", "dense", per_task=5, batch=2)
    assert result["tasks"]["conv2d"].trials == 9
    assert result["tasks"]["conv2d"].stopped_because == "its budget of 9 trials is used up"


def test_a_smaller_budget_ends_the_search(rig: Rig) -> None:
    Front(rig).at("conv2d/5", "budget", trials=3)
    result = rig.search("conv2d", trials=100)
    assert (result["trials"], result["stopped_because"]) == (6, "the budget of 3 trials is used up")


# refusals


@pytest.mark.parametrize(
    ("kind", "arguments"),
    [
        *(("budget", {name: value}) for name in ("trials", "per_task", "flat_after") for value in (0, -1, True, 1.5, "3", [], {}, 10**400)),
        *(("budget", {name: value}) for name in ("seconds", "flat_gain") for value in (0, -1.0, False, "3", [], 1e308, 10**400)),
        ("budget", {"flat_gain": None}),
        ("budget", {"flat_gain": 1.0}),
        ("budget", {"trails": 3}),
        ("budget", {"task": "nowhere", "trials": 3}),
        ("budget", {"task": 5, "trials": 3}),
        ("budget", {"task": "conv2d", "trials": -3}),
        ("budget", {"task": "conv2d", "seconds": True}),
        ("budget", {"task": "conv2d", "per_task": 3}),
        ("add", {}),
        ("add", {"task": None}),
        ("add", {"task": ["conv2d"]}),
        ("add", {"task": "nowhere"}),
        ("add", {"task": "\x1b[31m" * 1000}),
        ("add", {"task": "dense", "trials": 0}),
        ("add", {"task": "dense", "seconds": "1"}),
        ("add", {"task": "dense", "per_task": 1}),
        ("drop", {}),
        ("drop", {"task": "nowhere"}),
        ("drop", {"task": {}}),
        ("drop", {"task": "dense", "more": 1}),
        ("pause", {"seconds": 3}),
        ("resume", {"x": None}),
        ("stop", {"now": True}),
    ],
)
def test_a_command_that_makes_no_sense_is_refused_and_changes_nothing(rig: Rig, kind: str, arguments: dict[str, Any]) -> None:
    front = Front(rig)
    if arguments.get("task") in ("conv2d", "dense"):
        arguments = {**arguments, "task": front.task(arguments["task"])}
    front.at("conv2d/2", kind, **arguments)
    result = rig.search("conv2d", per_task=5)
    assert front.states() == [REFUSED]
    assert 10 < len(front.refusal()) < 300
    assert front.refusal().isprintable()
    assert result["stopped_because"] == "all tasks have ended"
    assert (list(result["tasks"]), result["trials"]) == (["conv2d"], 5)


def test_a_number_that_is_none_is_refused_too(rig: Rig) -> None:
    for name in ("seconds", "flat_gain"):
        for value in (float("nan"), float("inf"), -float("inf")):
            with pytest.raises(InputError, match=name):
                check_request(rig.request("conv2d", **{name: value}))


@pytest.mark.parametrize("kind", ["add", "drop", "budget", "pause", "resume", "stop"])
def test_a_command_that_comes_when_winners_are_measured_is_answered(rig: Rig, kind: str) -> None:
    last = rig.bench.hold("compare conv2d")
    search = Running(rig, "conv2d", per_task=3)
    assert last.reached.wait(LIMIT_S)
    number = rig.tell(kind)
    until(lambda: rig.answer(number).state in {DONE, REFUSED})
    assert rig.answer(number).state == (DONE if kind == "stop" else REFUSED)
    last.let_go()
    assert search.wait()["tasks"]["conv2d"].final is not None


def test_a_command_that_was_taken_and_not_done_is_answered_when_the_search_fails(rig: Rig) -> None:
    numbers: list[int] = []

    def fail(fingerprint: str) -> None:
        if fingerprint == "conv2d/2":
            numbers.extend(rig.tell(kind) for kind in ("pause", "budget", "stop"))
            rig.cancel()

    rig.bench.on_measure = fail
    with pytest.raises(Interrupted):
        rig.search("conv2d", per_task=9)
    rig.bench.on_measure = lambda fingerprint: None
    with rig.directory.store() as store:
        while (command := store.take_command()) is not None:  # what is left is what the worker takes next
            with pytest.raises(InputError):
                refuse_control(None, {})  # type: ignore[arg-type]
            store.finish_command(command.command, result={})
        assert all(store.command(number).state in {DONE, REFUSED} for number in numbers)


def test_commands_that_were_taken_and_not_done_are_refused(rig: Rig) -> None:
    with rig.directory.store() as store:
        search = store.add_command("tune", {})
        store.take_command()
        control = Control(store, search, front_gone=lambda: False)
        assert list(control.commands()) == []
        numbers = [store.add_command(kind, {ADDRESSEE: search}) for kind in ("pause", "stop", "profile", "add")]
        control.answer(next(control.commands()), lambda command: None)
        control.refuse_rest()
        assert [store.command(number).state for number in numbers] == [DONE, REFUSED, PENDING, REFUSED]
        assert list(control.commands()) == []
        assert not control.cancelled
        store.cancel_command(search)
        assert list(control.commands()) == []
        assert control.cancelled


# whom a command is meant for


@pytest.mark.parametrize(
    ("meant", "words"),
    [
        *((number, "has ended; another one runs") for number in (-1, 0)),
        (1_000_000, "has not begun; another one runs"),
        *((value, "does not say which search") for value in (None, True, "1", 1.0, [], {})),
    ],
)
@pytest.mark.parametrize("kind", ["stop", "pause", "budget", "drop", "add", "resume"])
def test_a_search_obeys_no_command_that_is_meant_for_another_one(rig: Rig, kind: str, meant: Any, words: str) -> None:
    front = Front(rig)
    arguments = {"task": front.task("conv2d")} if kind in {"drop", "add"} else {"per_task": 3} if kind == "budget" else {}
    front.at("conv2d/2", kind, **{ADDRESSEE: meant}, **arguments)
    result = rig.search("conv2d", per_task=6)
    assert front.states() == [REFUSED]
    assert words in front.refusal()
    assert (result["trials"], result["stopped_because"]) == (6, "all tasks have ended")


def test_a_command_for_a_search_that_has_ended_does_not_hit_the_next_one(rig: Rig) -> None:
    rig.search("conv2d", per_task=3)
    ended = rig.command
    front = Front(rig).at("dense/2", "stop", **{ADDRESSEE: ended})
    assert rig.search("dense", per_task=6)["trials"] == 9
    assert front.states() == [REFUSED]


def test_a_late_command_that_nobody_took_is_refused_by_the_next_search(rig: Rig) -> None:
    rig.search("conv2d", per_task=3)
    late = rig.tell("stop")
    assert rig.search("dense", per_task=6)["trials"] == 9
    assert rig.answer(late).state == REFUSED


# the end at once


@EXCLUSIVE
@pytest.mark.parametrize("way", ["cancel", "front gone"])
@pytest.mark.parametrize("place", ["measure conv2d/4", "build conv2d/4", "build conv2d/untuned", "measure conv2d/untuned", "compare conv2d"])
def test_a_cancelled_search_ends_at_once_and_all_is_stored(rig: Rig, exclusive: bool, way: str, place: str) -> None:
    rig.exclusive = exclusive
    hold = rig.bench.hold(place)
    search = Running(rig, "conv2d", per_task=20)
    assert hold.reached.wait(LIMIT_S)
    measured = rig.bench.said("measure")
    if way == "cancel":
        rig.cancel()
    else:
        rig.front_gone.set()
    with pytest.raises(Interrupted):
        search.wait()
    stored = [trial.fingerprint for trial in rig.trials("conv2d")]
    assert stored[: len(measured)] == measured
    task = rig.stored("conv2d")
    assert (task.trials, task.final) == (len(stored), None)
    if not place.startswith("compare"):
        assert (task.state, task.stopped_because) == (STOPPED, "stopped by the user")


def test_an_interruption_that_comes_with_the_progress_counts_as_the_users(rig: Rig) -> None:
    def interrupt(fingerprint: str) -> None:
        if fingerprint == "conv2d/2":
            rig.progress = Interrupting()

    rig.bench.on_measure = interrupt
    with pytest.raises(Interrupted):
        rig.search("conv2d", per_task=9)
    assert rig.stored("conv2d").stopped_because == "stopped by the user"


class Interrupting(list[str]):
    """A worker's progress that tells of the cancellation."""

    def append(self, phase: str) -> None:
        raise Interrupted("The work was stopped.")


@pytest.mark.parametrize("place", ["propose", "learn"])
def test_an_error_of_the_producer_while_the_search_is_stopping_is_no_new_trouble(rig: Rig, place: str) -> None:
    rig.exclusive = False
    rig.bench.faults[place, "conv2d"] = ValueError("too late")
    producing = rig.bench.hold(f"{place} conv2d")
    search = Running(rig, "conv2d", "dense", per_task=9)
    assert producing.reached.wait(LIMIT_S)
    number = rig.tell("stop")
    until(lambda: rig.answer(number).state == DONE)
    producing.let_go()
    result = search.wait()
    assert result["stopped_because"] == "stopped by the user"
    assert result["tasks"]["conv2d"].state in {STOPPED, FAILED}
    assert result["tasks"]["conv2d"].final is not None


def test_a_fault_of_the_environment_in_the_producer_ends_the_search(rig: Rig) -> None:
    rig.bench.faults["propose", "conv2d"] = EnvironmentFault("The disk is full.")
    with pytest.raises(EnvironmentFault, match="disk is full"):
        rig.search("conv2d", "dense", per_task=9)
    assert RUN_ERROR not in rig.stored("dense").errors
