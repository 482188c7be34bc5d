"""The app without a page, on a session whose worker is a stand-in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import workbench
from tests.unit.app_worker import HANG_S, StandIn, wait_until
from workbench.errors import SelectionError
from workbench.notebook.app import state, watcher
from workbench.notebook.app.model import AppModel
from workbench.notebook.app.state import AppState
from workbench.notebook.app.teller import Teller
from workbench.records.command import CANCELLED, FINAL_STATES, Failure
from workbench.records.selection import Selection
from workbench.session import SessionDirectory
from workbench.store import Store, connection
from workbench.worker import READY


@pytest.fixture
def worker(session: SessionDirectory) -> Iterator[StandIn]:
    with StandIn(session) as stand_in:
        yield stand_in


Open = Callable[..., AppModel]


@pytest.fixture
def open_app(session: SessionDirectory) -> Iterator[Open]:
    """Makes apps on the session, which tell their states if they are given whom; they have had the worker load its program."""
    apps: list[AppModel] = []

    def make(on_state: Callable[[AppState], None] = lambda _: None, *, with_profile: bool = True) -> AppModel:
        app = AppModel(on_state=on_state)
        apps.append(app)
        app.adopt(workbench.open(session.path))
        wait_until(lambda: not with_profile or (app.state.profile is not None and is_warm(session)))
        return app

    yield make
    for app in apps:
        app.close()


def is_warm(session: SessionDirectory) -> bool:
    with session.store() as store:
        warm = store.last_command("warm")
    return warm is not None and warm.state in FINAL_STATES


def in_phase(app: AppModel, phase: str) -> Callable[[], bool]:
    return lambda: app.state.phase == phase


def task_of(app: AppModel, name: str) -> str:
    profile = app.state.profile
    assert profile is not None
    return next(task.task for task in profile.tasks if task.name == name)


def searching(app: AppModel, worker: StandIn, rows: tuple[int, ...] = (0,)) -> None:
    app.tick(rows)
    app.tune(per_task=8)
    wait_until(lambda: "tune" in worker.kinds())
    wait_until(in_phase(app, state.TUNING))


def test_a_session_that_is_opened_shows_its_profile_and_its_ticks(open_app: Open, worker: StandIn, session: SessionDirectory) -> None:
    app = open_app()
    assert app.state.phase == state.PROFILED
    assert app.state.model == "net"
    wait_until(lambda: app.state.worker.state == state.READY)
    app.tick([1])
    wait_until(lambda: stored_rows(session) == (1,))
    again = open_app()
    assert again.state.selection is not None
    assert again.state.selection.rows == (1,)


def stored_rows(session: SessionDirectory) -> tuple[int, ...]:
    with session.store() as store:
        selection = store.selection()
    return () if selection is None else selection.rows


def test_two_apps_on_one_session_agree(open_app: Open, worker: StandIn) -> None:
    one, two = open_app(), open_app()
    one.tick([0])
    wait_until(lambda: two.state.selection is not None and two.state.selection.rows == (0, 2))
    two.tick([0, 2, 3])
    wait_until(lambda: one.state.selection is not None and one.state.selection.rows == (0, 2, 3))
    searching(one, worker, (0, 2))
    wait_until(in_phase(two, state.TUNING))
    two.pause()
    wait_until(in_phase(one, state.PAUSED))
    one.resume()
    wait_until(in_phase(two, state.TUNING))


def test_a_search_asks_for_what_is_ticked_and_goes_on_where_there_are_trials(open_app: Open, worker: StandIn) -> None:
    app = open_app()
    app.tick([1])
    app.set_task_budget(task_of(app, "dense"), trials=5)
    app.tune(per_task=8, seconds=30.0)
    wait_until(lambda: "tune" in worker.kinds())
    asked = worker.asked("tune").arguments
    assert [(task["name"], task["trials"]) for task in asked["tasks"]] == [("dense", 5)]
    assert asked["budget"]["per_task"] == 8
    assert asked["budget"]["seconds"] == 30.0
    assert asked["resume"] is True


def test_trials_states_and_the_end_come_from_the_store(open_app: Open, worker: StandIn) -> None:
    app = open_app()
    searching(app, worker)
    worker.measure(task_of(app, "conv2d"), "conv2d", 0, 100.0)
    worker.measure(task_of(app, "conv2d"), "conv2d", 1, 50.0)
    wait_until(lambda: [task.best_us for task in app.state.progress] == [50.0])
    worker.finish_search()
    wait_until(in_phase(app, state.TUNED))
    assert state.APPLY in app.state.actions
    wait_until(lambda: worker.kinds()[-1] == "warm")


def test_pause_resume_and_stop_reach_the_search(open_app: Open, worker: StandIn) -> None:
    app = open_app()
    searching(app, worker)
    app.pause()
    wait_until(in_phase(app, state.PAUSED))
    app.resume()
    wait_until(in_phase(app, state.TUNING))
    app.stop()
    wait_until(in_phase(app, state.ENDING))
    assert [kind for kind in worker.kinds() if kind in ("pause", "resume", "stop")] == ["pause", "resume", "stop"]


def test_a_worker_that_dies_is_noticed_and_resume_asks_for_the_same_again(open_app: Open, session: SessionDirectory) -> None:
    with StandIn(session) as first:
        app = open_app()
        searching(app, first)
        asked = {name: value for name, value in first.asked("tune").arguments.items() if name != "expects_trust"}
        first.measure(task_of(app, "conv2d"), "conv2d", 0, 100.0)
        with session.store() as store:
            store.update_manifest({"search": {"request": asked}})
        first.die()
        wait_until(lambda: app.state.phase == state.STOPPED and app.state.problem is not None)
    assert app.state.problem is not None
    assert app.state.problem.remedy
    assert state.RESUME in app.state.actions
    with StandIn(session) as second:
        app.resume()
        wait_until(in_phase(app, state.TUNING))
        wait_until(lambda: "tune" in second.kinds())
        again = second.asked("tune").arguments
        assert again["budget"] == asked["budget"]
        assert again["resume"] is True
        assert app.state.problem is None


def test_a_search_of_another_front_is_found_and_steered(open_app: Open, worker: StandIn, session: SessionDirectory) -> None:
    first = open_app()
    searching(first, worker)
    first.close()
    with session.store() as store:
        command = store.last_command("tune")
        assert command is not None
        assert command.state not in FINAL_STATES, "closing the app ends no search of another worker"
    second = open_app()
    wait_until(in_phase(second, state.TUNING))
    second.pause()
    wait_until(in_phase(second, state.PAUSED))


def test_ticking_while_it_runs_adds_and_drops_tasks_and_budgets_reach_it(open_app: Open, worker: StandIn) -> None:
    app = open_app()
    searching(app, worker, (0,))
    worker.measure(task_of(app, "conv2d"), "conv2d", 0, 100.0)
    app.tick([0, 2, 3])
    wait_until(lambda: "add" in worker.kinds())
    app.set_task_budget(task_of(app, "softmax"), trials=4)
    wait_until(lambda: "budget" in worker.kinds())
    app.tick([3])
    wait_until(lambda: "drop" in worker.kinds())
    told = {command.kind: {name: value for name, value in command.arguments.items() if name != "search"} for command in worker.taken}
    assert told["add"]["task"] == task_of(app, "softmax")
    assert told["budget"] == {"task": task_of(app, "softmax"), "trials": 4, "seconds": None}
    assert told["drop"] == {"task": task_of(app, "conv2d")}


def test_no_click_waits_for_the_worker(open_app: Open, worker: StandIn) -> None:
    app = open_app()
    searching(app, worker)
    worker.answers.clear()
    app.pause()
    app.tick([0, 2, 1])
    app.stop()
    app.cancel()
    assert app.state.selection is not None, "all of these returned although nobody answers"
    assert app.state.selection.rows == (0, 1, 2)
    worker.answers.set()


def test_cancel_ends_a_search_at_once_and_it_can_go_on(open_app: Open, worker: StandIn, session: SessionDirectory) -> None:
    app = open_app()
    searching(app, worker)
    worker.measure(task_of(app, "conv2d"), "conv2d", 0, 100.0)
    app.cancel()
    wait_until(in_phase(app, state.STOPPED))
    with session.store() as store:
        command = store.last_command("tune")
        assert command is not None
        assert command.state == CANCELLED
    assert app.state.problem is None, "the user wanted it"


def test_what_the_worker_answers_is_shown_as_a_problem_with_its_remedy(open_app: Open, session: SessionDirectory) -> None:
    with StandIn(session) as stand_in:
        app = open_app()
        searching(app, stand_in)
        with session.store() as store:
            command = store.last_command("tune")
            assert command is not None
            store.finish_command(command.command, failure=Failure("EnvironmentFault", "The disk is full.", "Free some space.", "Traceback"))
        wait_until(lambda: app.state.problem is not None)
        assert app.state.problem is not None
        assert (app.state.problem.message, app.state.problem.remedy) == ("The disk is full.", "Free some space.")
        app.dismiss()
        wait_until(lambda: app.state.problem is None)


def test_ticks_are_not_written_while_the_session_is_read_or_what_was_read_would_take_them_away_again(
    open_app: Open, worker: StandIn, session: SessionDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    reading, written, overlaps = threading.Event(), threading.Event(), list[bool]()
    read, write = watcher.read_view, Store.write_selection

    def read_slowly(*arguments: Any) -> Any:
        reading.set()
        view = read(*arguments)
        written.wait(0.3)  # a write that does not wait for this comes now
        reading.clear()
        return view

    def note_and_write(store: Store, selection: Selection) -> None:
        overlaps.append(reading.is_set())
        write(store, selection)
        written.set()

    app = open_app()
    monkeypatch.setattr(watcher, "read_view", read_slowly)
    monkeypatch.setattr(Store, "write_selection", note_and_write)
    with session.store() as store:
        store.update_manifest({"anything": 1})
    assert reading.wait(HANG_S)
    app.tick([1])
    assert written.wait(HANG_S)
    assert overlaps == [False]
    wait_until(lambda: app.state.selection is not None and app.state.selection.rows == (1,))


def test_a_selection_travels_as_a_file(open_app: Open, worker: StandIn) -> None:
    app = open_app()
    with pytest.raises(SelectionError, match="Nothing is ticked"):
        app.export_selection()
    app.tick([1])
    text = app.export_selection()
    app.tick([3])
    app.import_selection(text)
    assert app.state.selection is not None
    assert app.state.selection.rows == (1,)
    app.import_selection("{")
    assert app.state.problem is not None
    assert "not valid JSON" in app.state.problem.message
    assert app.state.selection.rows == (1,)


def test_a_locked_store_is_said_and_the_ticks_fall_back(
    open_app: Open, worker: StandIn, session: SessionDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app()
    monkeypatch.setattr(connection, "_BUSY_TIMEOUT_S", 0.05)
    worker.answers.clear()
    with session.store() as store:
        store._sql.execute("BEGIN IMMEDIATE")  # noqa: SLF001 - as another program would hold it
        app.tick([1])
        wait_until(lambda: app.state.problem is not None)
        store._sql.execute("ROLLBACK")  # noqa: SLF001
    assert app.state.problem is not None
    assert "locked" in app.state.problem.message
    assert app.state.selection is None
    app.tick([1])
    wait_until(lambda: stored_rows(session) == (1,))


def test_a_session_that_cannot_be_read_is_looked_at_again(open_app: Open, worker: StandIn, session: SessionDirectory) -> None:
    app = open_app()
    with session.store() as store:
        store.update_manifest({"request": {"source": 7}})
        good = store._sql.execute("SELECT record FROM selection").fetchone()  # noqa: SLF001
        store._sql.execute("INSERT OR REPLACE INTO selection VALUES (1, '{')")  # noqa: SLF001 - as a damaged disk would
    assert good is None
    wait_until(lambda: app.state.trouble is not None)
    assert app.state.trouble is not None
    assert "damaged" in app.state.trouble.message
    with session.store() as store:
        store._sql.execute("DELETE FROM selection")  # noqa: SLF001
    wait_until(lambda: app.state.trouble is None)


def test_a_session_that_is_damaged_from_the_beginning_keeps_nobody_from_another_model(
    open_app: Open, worker: StandIn, session: SessionDirectory
) -> None:
    with session.store() as store:
        store._sql.execute("INSERT OR REPLACE INTO selection VALUES (1, '{')")  # noqa: SLF001 - as a damaged disk would
    app = open_app(with_profile=False)
    wait_until(lambda: app.state.trouble is not None and app.state.phase not in state.BUSY)
    assert state.OPEN in app.state.actions


def test_a_model_that_cannot_be_opened_leaves_what_was_open(open_app: Open, worker: StandIn) -> None:
    from workbench.notebook.app.choices import Opening  # noqa: PLC0415 - one use

    app = open_app()
    app.open(Opening("nothing-of-that-name.onnx"))
    wait_until(lambda: app.state.problem is not None)
    assert app.state.profile is not None
    assert app.state.phase == state.PROFILED
    assert app.state.problem is not None
    assert "no model" in app.state.problem.message


def test_states_are_told_one_at_a_time_the_newest_last_and_none_twice() -> None:
    told: list[AppState] = []
    may_go = threading.Event()
    present = AppState()

    def draw(shown: AppState) -> None:
        assert may_go.wait(HANG_S)
        told.append(shown)

    teller = Teller(lambda: present, draw)
    for number in range(1000):
        present = AppState(model=f"net{number}")
        teller.tell()
    may_go.set()
    wait_until(lambda: bool(told) and told[-1].model == "net999")
    teller.tell()
    teller.close()
    assert len(told) <= 3
    assert len({shown.model for shown in told}) == len(told)


def test_what_a_view_does_wrong_does_not_stop_the_next_one(caplog: pytest.LogCaptureFixture) -> None:
    told: list[str] = []
    present = AppState(model="bad")

    def draw(shown: AppState) -> None:
        told.append(shown.model)
        if shown.model == "bad":
            raise RuntimeError("no")

    teller = Teller(lambda: present, draw)
    teller.tell()
    wait_until(lambda: told == ["bad"])
    present = AppState(model="good")
    teller.tell()
    wait_until(lambda: told == ["bad", "good"])
    teller.close()
    assert "could not be shown" in caplog.text


def test_a_closed_app_tells_nothing_more_and_does_nothing_more(open_app: Open, worker: StandIn, session: SessionDirectory) -> None:
    app = open_app()
    app.close()
    app.tick([1])
    app.tune(per_task=1)
    assert stored_rows(session) == ()
    assert "tune" not in worker.kinds()


def test_an_app_attends_its_session_until_it_is_closed(open_app: Open, worker: StandIn, session: SessionDirectory) -> None:
    app = open_app()
    wait_until(session.is_attended)
    app.close()
    assert not session.is_attended()


def test_the_death_of_a_worker_is_seen_by_the_first_look_after_it(open_app: Open, session: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    is_dead = threading.Event()
    look = watcher.Watcher._look  # noqa: SLF001 - what the thread does again and again

    def look_on(self: watcher.Watcher) -> None:
        counts = is_dead.is_set()
        look(self)
        if counts:
            seen.append(app.state.phase)

    monkeypatch.setattr(watcher.Watcher, "_look", look_on)
    told: list[AppState] = []
    with StandIn(session) as worker:
        app = open_app(told.append)
        searching(app, worker)
        worker.measure(task_of(app, "conv2d"), "conv2d", 0, 100.0)
        wait_until(lambda: bool(app.state.progress))
        worker.die()
        is_dead.set()
        wait_until(lambda: bool(seen))
    assert seen[0] == state.STOPPED
    assert watcher.INTERVAL_S <= 0.1, "so it is seen within a fraction of a second"
    wait_until(lambda: told[-1].phase == state.STOPPED)


def test_a_worker_that_is_halted_is_said_without_a_word_from_it_and_goes_on(open_app: Open, worker: StandIn, session: SessionDirectory) -> None:
    with subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE) as process:
        with session.store() as store:
            store.set_worker(process.pid, READY)  # its process
        app = open_app()
        searching(app, worker)
        try:
            os.kill(process.pid, signal.SIGSTOP)
            wait_until(lambda: app.state.trouble is not None and app.state.worker.state == state.HALTED)
            assert app.state.phase == state.TUNING
            os.kill(process.pid, signal.SIGCONT)
            wait_until(lambda: app.state.trouble is None and app.state.worker.state == state.WORKING)
        finally:
            process.kill()


def test_a_clock_of_the_machine_that_is_set_changes_nothing_that_the_app_says(
    open_app: Open, worker: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    app = open_app()
    for day in (9e9, 0.0):
        monkeypatch.setattr("time.time", lambda now=day: now)
        searching(app, worker, (0, 2))
        app.pause()
        wait_until(in_phase(app, state.PAUSED))
        app.cancel()
        wait_until(lambda: app.state.phase not in state.BUSY)
        assert (app.state.problem, app.state.trouble) == (None, None)
        worker.taken.clear()


def test_progress_alone_is_told_less_often_than_anything_else() -> None:
    told: list[AppState] = []
    present = AppState(phase=state.TUNING, doing="search")
    teller = Teller(lambda: present, told.append)
    teller.tell()
    wait_until(lambda: len(told) == 1)
    started = time.monotonic()
    for number in range(40):
        present = AppState(phase=state.TUNING, doing=f"measure {number}")
        teller.tell()
        time.sleep(0.005)
    present = AppState(phase=state.PAUSED, doing="measure 39")
    teller.tell()
    wait_until(lambda: told[-1].phase == state.PAUSED)
    assert len(told) <= 3 + (time.monotonic() - started) / 0.3
    present = AppState(phase=state.PAUSED, doing="the last of all")
    teller.tell()
    wait_until(lambda: told[-1].doing == "the last of all")
    teller.close()
