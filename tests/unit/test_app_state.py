"""The states of the app: each follows from what the store says, and each says what can be done next."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.conftest import make_profile
from workbench.errors import ModelError, WorkerDied
from workbench.notebook.app import state
from workbench.notebook.app.session_view import Phase, SessionView
from workbench.notebook.app.shown import shown
from workbench.notebook.app.standing import LocalWork, StepClock, app_state
from workbench.notebook.app.state import AppState, Problem
from workbench.records.command import ABANDONED, CANCELLED, DONE, FAILED, PENDING, RUNNING, Command, Failure
from workbench.records.selection import SelectedTask, Selection
from workbench.records.tuning import FASTER, Final, TaskProgress, TuneRequest

PROFILE = make_profile(["conv2d", "dense", "softmax"])
TASK = PROFILE.tasks[0]
FINAL = Final(winner=3, baseline_us=100.0, baseline_us_iqr=1.0, winner_us=50.0, winner_us_iqr=1.0, best=3, rounds=11, verdict=FASTER, why="twice")
SEARCHED = TaskProgress(TASK.task, TASK.name, TASK.weight, trials=9, baseline_us=100.0, best=3, best_us=50.0)
TICKED = Selection("net", "cpu", (SelectedTask(TASK.task, TASK.name),), TASK.rows, "top 1")
REQUEST = TuneRequest(tasks=TICKED.tasks)
DIED = Failure("WorkerDied", "The worker died with SIGKILL.", "Try again.", "the log")


def command(kind: str, state: str = RUNNING, *, number: int = 7, failure: Failure | None = None) -> Command:
    return Command(number, kind, {}, state, cancelled=False, result=None, failure=failure)


def view(**changes: Any) -> SessionView:
    values: dict[str, Any] = {"place": "/s", "model": "net", "profile_id": "1", "profile": PROFILE, "selection": TICKED}
    return SessionView(**(values | changes))


def phase(seen: SessionView | None, local: LocalWork | None = None) -> str:
    return app_state(seen, local or LocalWork(), ()).phase


def test_without_a_session_the_app_is_empty_opening_or_has_failed() -> None:
    assert phase(None) == state.EMPTY
    assert phase(None, LocalWork(opening="net.onnx")) == state.PREPARING
    assert phase(None, LocalWork(problem=Problem.of(ModelError("There is no model.", "Give one.")))) == state.FAILED


@pytest.mark.parametrize(
    ("seen", "expected"),
    [
        (view(profile=None, profile_id="", command=command("profile"), is_served=True), state.PREPARING),
        (view(profile=None, profile_id=""), state.EMPTY),
        (view(profile=None, profile_id="", command=command("profile", FAILED, failure=DIED)), state.FAILED),
        (view(command=command("profile", DONE)), state.PROFILED),
        (view(command=command("profile"), is_served=True), state.PREPARING),
        (view(command=command("profile", CANCELLED)), state.PROFILED),
        (view(command=command("tune"), is_served=True), state.TUNING),
        (view(command=command("tune", PENDING), is_served=True), state.TUNING),
        (view(command=command("tune"), is_served=True, control="pause"), state.PAUSED),
        (view(command=command("tune"), is_served=True, control="resume"), state.TUNING),
        (view(command=command("tune"), is_served=True, control="stop"), state.ENDING),
        (view(command=command("tune"), is_served=True, doing="measure the best again: conv2d"), state.ENDING),
        (view(command=command("tune", DONE), progress=(replace(SEARCHED, final=FINAL),)), state.TUNED),
        (view(command=command("tune", CANCELLED), progress=(SEARCHED,)), state.STOPPED),
        (view(command=command("tune", FAILED, failure=DIED), progress=(SEARCHED,)), state.STOPPED),
        (view(command=command("tune", ABANDONED), progress=(SEARCHED,)), state.STOPPED),
        (view(command=command("tune"), progress=(SEARCHED,)), state.STOPPED),
        (view(command=command("profile", DONE), progress=(SEARCHED,)), state.STOPPED),
        (view(command=command("apply"), is_served=True), state.APPLYING),
        (view(command=command("apply", DONE), progress=(replace(SEARCHED, final=FINAL),)), state.APPLIED),
        (view(command=command("apply", FAILED, failure=DIED), progress=(replace(SEARCHED, final=FINAL),)), state.TUNED),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_phase_follows_from_what_the_store_and_the_lock_say(seen: SessionView, expected: str) -> None:
    assert phase(seen) == expected


def test_a_command_that_this_front_is_just_giving_counts_before_its_worker_has_the_lock() -> None:
    assert phase(view(command=command("profile", DONE)), LocalWork(begun="tune")) == state.TUNING
    assert phase(view(command=command("tune", PENDING)), LocalWork(begun="tune")) == state.TUNING


@pytest.mark.parametrize("name", state.PHASES)
def test_every_phase_says_what_can_be_done_next_and_leaves_a_way_on(name: str) -> None:
    bare = AppState(phase=name)
    full = AppState(phase=name, profile=PROFILE, selection=TICKED, progress=(replace(SEARCHED, final=FINAL),), request=REQUEST)
    for shown_state in (bare, full):
        assert shown_state.next_step.endswith((".", "%."))
        assert shown_state.actions & {state.OPEN, state.CANCEL, state.STOP, state.PAUSE}


def test_where_nothing_can_be_tuned_nobody_is_told_to_tick() -> None:
    imported = replace(PROFILE, tasks=tuple(replace(task, untunable="imported") for task in PROFILE.tasks))
    assert "Tick" in AppState(phase=state.PROFILED, profile=PROFILE).next_step
    assert "None of these kernels can be tuned" in AppState(phase=state.PROFILED, profile=imported).next_step


def test_without_a_device_nobody_is_told_that_a_search_will_do() -> None:
    dry = AppState(phase=state.PROFILED, profile=replace(PROFILE, unmeasured="no CUDA device here"), selection=TICKED)
    assert "no CUDA device here" in dry.next_step
    assert "read its code" in dry.next_step
    assert "Nothing was measured" in AppState(phase=state.STOPPED, profile=PROFILE, selection=TICKED).next_step
    assert "goes on with what was measured" in AppState(phase=state.STOPPED, profile=PROFILE, progress=(SEARCHED,)).next_step


@pytest.mark.parametrize(("kind", "words"), [("profile", "profile was"), ("tune", "search was"), ("apply", "Applying was")])
def test_what_was_cancelled_is_said_until_something_else_is_done(kind: str, words: str) -> None:
    cancelled = view(command=command(kind, CANCELLED))
    assert words in app_state(cancelled, LocalWork(), ()).next_step
    assert "cancelled" not in app_state(cancelled, LocalWork(begun="tune"), ()).next_step
    assert "cancelled" not in app_state(view(command=command(kind, DONE)), LocalWork(), ()).next_step


def test_why_a_search_ended_is_said_until_another_one_begins() -> None:
    ended = view(command=command("tune", DONE), progress=(replace(SEARCHED, final=FINAL),), last_stop="the budget of 64 trials is used up")
    said = "The search ended: the budget of 64 trials is used up. "
    assert app_state(ended, LocalWork(), ()).next_step.startswith(said + "1 kernel is faster.")
    assert "ended" not in app_state(ended, LocalWork(begun="tune"), ()).next_step
    cancelled = replace(ended, command=command("tune", CANCELLED), last_stop="stopped by the user")
    assert app_state(cancelled, LocalWork(), ()).next_step.startswith("The search was cancelled; what was measured is kept. Resume"), "not said twice"
    assert "ended" not in app_state(replace(ended, command=command("apply", DONE)), LocalWork(), ()).next_step
    failed = replace(ended, command=command("tune", FAILED, failure=DIED), last_stop=DIED.message)
    assert "SIGKILL" not in app_state(failed, LocalWork(), ()).next_step, "the problem says it"
    assert "ended: The worker died with SIGKILL. " in app_state(failed, LocalWork(dismissed=7), ()).next_step


def test_what_an_engine_lacks_is_no_failure_of_anything_that_was_done() -> None:
    lack = Problem("The relay engine needs a Python with an old TVM.")
    assert (app_state(None, LocalWork(lack=lack), ()).phase, app_state(None, LocalWork(lack=lack), ()).problem) == (state.EMPTY, lack)
    both = LocalWork(lack=lack, problem=Problem("The disk is full."))
    assert (app_state(None, both, ()).phase, app_state(None, both, ()).problem) == (state.FAILED, both.problem)


def test_what_failed_is_said_before_what_an_engine_lacks() -> None:
    failed = view(command=command("tune", FAILED, failure=DIED), progress=(SEARCHED,))
    shown_state = app_state(failed, LocalWork(lack=Problem("No old TVM.")), ())
    assert shown_state.problem is not None
    assert shown_state.problem.message == DIED.message
    assert app_state(failed, LocalWork(lack=Problem("No old TVM."), dismissed=7), ()).problem == Problem("No old TVM.")


def test_a_worker_that_a_signal_halts_is_said_with_what_lets_it_go_on() -> None:
    halted = app_state(view(command=command("tune"), is_served=True, is_busy=True, worker_pid=77, is_halted=True), LocalWork(), ())
    assert (halted.phase, halted.worker.state) == (state.TUNING, state.HALTED)
    assert halted.trouble is not None
    assert "kill -CONT 77" in halted.trouble.remedy


def test_tuning_needs_ticks_and_applying_needs_finals() -> None:
    resting = AppState(phase=state.PROFILED, profile=PROFILE)
    assert state.TUNE not in resting.actions
    assert state.TUNE in replace(resting, selection=TICKED).actions
    tuned = AppState(phase=state.TUNED, profile=PROFILE, selection=TICKED, progress=(SEARCHED,))
    assert state.APPLY not in tuned.actions
    assert state.APPLY in replace(tuned, progress=(replace(SEARCHED, final=FINAL),)).actions


def test_a_search_whose_request_is_not_known_cannot_be_resumed_but_tuned() -> None:
    stopped = AppState(phase=state.STOPPED, profile=PROFILE, selection=TICKED, progress=(SEARCHED,))
    assert state.RESUME not in stopped.actions
    assert state.TUNE in stopped.actions
    assert state.RESUME in replace(stopped, request=REQUEST).actions


def test_a_search_that_lost_its_worker_is_stopped_and_says_why() -> None:
    died = app_state(view(command=command("tune", FAILED, failure=DIED), progress=(SEARCHED,)), LocalWork(), ())
    assert died.problem == Problem("The worker died with SIGKILL.", "Try again.", "the log")
    assert died.worker.state == state.GONE
    vanished = app_state(view(command=command("tune"), progress=(SEARCHED,)), LocalWork(), ())
    assert vanished.problem is not None
    assert "Resume" in vanished.problem.remedy
    assert vanished.worker.state == state.GONE


def test_a_problem_that_was_dismissed_stays_away_until_the_next_command_fails() -> None:
    seen = view(command=command("tune", FAILED, failure=DIED), progress=(SEARCHED,))
    assert app_state(seen, LocalWork(dismissed=7), ()).problem is None
    later = replace(seen, command=command("tune", FAILED, number=8, failure=DIED))
    assert app_state(later, LocalWork(dismissed=7), ()).problem is not None


def test_an_old_failure_is_not_shown_while_something_new_runs() -> None:
    seen = view(command=command("tune", FAILED, failure=DIED), progress=(SEARCHED,))
    assert app_state(seen, LocalWork(begun="tune"), ()).problem is None


@pytest.mark.parametrize(
    ("seen", "local", "expected"),
    [
        (view(), LocalWork(), state.NO_WORKER),
        (view(), LocalWork(begun="tune"), state.STARTING),
        (view(is_served=True, worker_phase="starting"), LocalWork(), state.STARTING),
        (view(is_served=True, worker_phase="ready"), LocalWork(), state.READY),
        (view(is_served=True, worker_phase="ready", is_busy=True), LocalWork(), state.WORKING),
    ],
)
def test_the_worker_is_what_lock_and_store_say(seen: SessionView, local: LocalWork, expected: str) -> None:
    assert app_state(seen, local, ()).worker.state == expected


def test_a_problem_tells_what_happened_and_what_to_do_and_keeps_the_full_text() -> None:
    error = WorkerDied("It died.", "Look at the log.")
    error.add_note("line 1\nline 2")
    assert Problem.of(error) == Problem("It died.", "Look at the log.", "line 1\nline 2")
    fault = Problem.of(ZeroDivisionError("by zero"))
    assert "ZeroDivisionError" in fault.message
    assert "report" in fault.remedy


def test_phases_are_timed_by_a_clock_that_nobody_sets() -> None:
    clock = StepClock()
    clock.note((Phase(7, "import", None, 1),), 10.0)
    clock.note((Phase(7, "lower: fold constants", None, 2), Phase(7, "lower: fuse", None, 3)), 12.0)
    clock.note((Phase(7, "measure (round 2)", 0.4, 4),), 15.0)
    assert [(step.name, step.seconds, step.share, step.is_done) for step in clock.steps(16.0)] == [
        ("reading the model", 2.0, None, True),
        ("lowering", 3.0, None, True),
        ("measuring", 1.0, 0.4, False),
    ]
    clock.end(17.0)
    clock.end(99.0)
    assert clock.steps(100.0)[-1].seconds == 2.0
    clock.note((Phase(8, "load", None, 5),), 9.0)
    assert [step.name for step in clock.steps(5.0)] == ["loading the program"], "another command begins anew"
    assert clock.steps(5.0)[0].seconds == 0.0, "no clock makes a time negative"


def test_names_are_made_safe_for_the_page() -> None:
    hostile = "<img src=x onerror=alert(1)>\x1b[31m\u202e"
    seen = view(model=hostile, selection=replace(TICKED, tasks=(SelectedTask(TASK.task, hostile),), rule=hostile))
    values = shown(app_state(seen, LocalWork(), ()))
    assert values["model"] == "<img src=x onerror=alert(1)>\\x1b[31m\\u202e", "text stays text; what is no text is shown as an escape"
    assert "\x1b" not in str(values)
    assert "\u202e" not in str(values)


def test_what_is_ticked_is_shown_with_its_share_and_what_it_promises() -> None:
    values = shown(app_state(view(), LocalWork(), ()))["selection"]
    assert values["count"] == 1
    assert values["tasks"][0]["name"] == TASK.name
    assert 0 < values["share"] < 1
    factors = dict(map(tuple, values["forecasts"]))
    assert factors[2.0] == pytest.approx(1 / (1 - values["share"] + values["share"] / 2))


def test_nothing_ticked_is_shown_as_nothing() -> None:
    values = shown(app_state(view(selection=None), LocalWork(), ()))["selection"]
    assert (values["count"], values["tasks"], values["share"], values["forecasts"]) == (0, [], 0.0, [])
