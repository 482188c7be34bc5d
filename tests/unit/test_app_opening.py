"""Opening models in the app: one at a time, given up before it has a session or a worker, and never at the cost of what was open."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import workbench
from tests.unit.app_worker import HANG_S, StandIn, wait_until
from tests.unit.conftest import Sessions
from workbench.notebook.app import opener as app_opener
from workbench.notebook.app import state
from workbench.notebook.app.choices import Opening
from workbench.notebook.app.model import AppModel
from workbench.records.command import CANCELLED, Failure
from workbench.session import SessionDirectory

Opener = Callable[..., Any]


@pytest.fixture
def app(session: SessionDirectory) -> Iterator[AppModel]:
    """An app that shows a profiled session, whose worker is a stand-in."""
    made = AppModel(on_state=lambda _: None)
    with StandIn(session):
        made.adopt(workbench.open(session.path))
        wait_until(lambda: made.state.phase == state.PROFILED)
        yield made
        made.close()


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """Sessions are opened as soon as it is set."""
    gate = threading.Event()
    real = app_opener.open_session

    def open_late(*arguments: Any, **options: Any) -> Any:
        assert gate.wait(HANG_S)
        return real(*arguments, **options)

    monkeypatch.setattr(app_opener, "open_session", open_late)
    yield gate
    gate.set()


@pytest.fixture
def second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[StandIn]:
    """The worker of the session that a second model gets, before it is opened; it answers nothing until it is let."""
    monkeypatch.chdir(tmp_path)
    directory = SessionDirectory.create(tmp_path / "workbench-sessions" / "matmul-cpu")
    with StandIn(directory) as worker:
        worker.answers.clear()
        yield worker


def open_second(app: AppModel, worker: StandIn) -> None:
    """Open the second model, and wait until its worker has been asked for a profile."""
    app.open(Opening("matmul"))
    wait_until(lambda: profile_command(worker) is not None)
    wait_until(lambda: app.state.model == "matmul" and app.state.phase == state.PREPARING)


def profile_command(worker: StandIn) -> Any:
    with worker.directory.store() as store:
        return store.last_command("profile")


def test_a_second_model_that_the_worker_cannot_profile_leaves_the_first_one_open(app: AppModel, second: StandIn) -> None:
    app.tick([1])
    open_second(app, second)
    with second.directory.store() as store:
        store.finish_command(profile_command(second).command, failure=Failure("ModelError", "The model has no outputs.", "Give another."))
    wait_until(lambda: app.state.phase == state.PROFILED)
    assert (app.state.model, app.state.problem and app.state.problem.message) == ("net", "The model has no outputs.")
    assert app.state.selection is not None
    assert app.state.selection.rows == (1,)
    app.tick([3])
    assert app.state.selection.rows == (3,)


def test_a_second_model_that_is_cancelled_while_its_command_waits_leaves_the_first_one_open(app: AppModel, second: StandIn) -> None:
    open_second(app, second)
    app.cancel()
    wait_until(lambda: app.state.phase == state.PROFILED)
    wait_until(lambda: "matmul was not opened" in app.state.next_step)
    assert (app.state.model, app.state.problem) == ("net", None)
    assert profile_command(second).state == CANCELLED, "the worker never began it"


def test_a_model_that_is_cancelled_before_it_has_a_session_is_not_opened(app: AppModel, gate: threading.Event, second: StandIn) -> None:
    app.open(Opening("matmul"))
    assert (app.state.phase, app.state.model) == (state.PREPARING, "matmul")
    assert state.CANCEL in app.state.actions
    app.cancel()
    assert (app.state.phase, app.state.model) == (state.PROFILED, "net")
    assert "matmul was not opened" in app.state.next_step
    gate.set()
    app.open(Opening("no-such-model"))  # is done after the one that was given up
    wait_until(lambda: app.state.problem is not None)
    assert app.state.model == "net"
    assert profile_command(second) is None


def test_while_a_model_is_opened_no_other_one_is(app: AppModel, gate: threading.Event) -> None:
    app.open(Opening("matmul"))
    app.open(Opening("no-such-model"))
    assert app.state.model == "matmul"
    app.cancel()
    gate.set()


def test_while_a_search_runs_no_model_is_opened(app: AppModel, sessions: Sessions) -> None:
    app.tick([0])
    app.tune(per_task=8)
    wait_until(lambda: app.state.phase == state.TUNING)
    app.open(Opening("matmul"))
    assert (app.state.phase, app.state.model) == (state.TUNING, "net")


def test_cancel_ends_what_waits_behind_the_warm_up_and_not_the_warm_up(app: AppModel, session: SessionDirectory) -> None:
    app.tick([0])
    with session.store() as store:
        warm = store.add_command("warm", {})
        waits = store.add_command("tune", {})
        store._sql.execute("UPDATE commands SET state = 'running' WHERE command = ?", (warm,))  # noqa: SLF001 - as a worker that has begun it
    assert app.session is not None
    assert app.session.cancel_running("tune")
    with session.store() as store:
        assert (store.command(waits).state, store.command(warm).cancelled) == (CANCELLED, False)
        store.finish_command(warm, result={})
