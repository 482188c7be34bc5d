"""Which engine the app opens a model with, and which Python may be started for it: only one that the user named."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import workbench
from tests.unit.app_worker import StandIn, wait_until
from workbench.notebook.app import opener, state
from workbench.notebook.app.choices import Opening
from workbench.notebook.app.model import AppModel
from workbench.notebook.app.opener import Opener
from workbench.notebook.app.stage import Stage
from workbench.notebook.app.state import Problem
from workbench.old_python import VARIABLE
from workbench.session import SessionDirectory

MODEL = "fn (%x: Tensor[(1, 4), float32]) { nn.relu(%x) }"


@pytest.fixture(autouse=True)
def _nothing_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)


@pytest.fixture
def app() -> Iterator[AppModel]:
    made = AppModel(on_state=lambda _: None)
    yield made
    made.close()


@pytest.fixture
def relay_session(session: SessionDirectory) -> SessionDirectory:
    """A profiled session that says it is of the relay engine, and names a Python wherever one could be looked for."""
    with session.store() as store:
        request = store.request()
        assert request is not None
        values = replace(request, engine="relay").to_dict()
        store.update_manifest({"request": values | {"python": sys.executable}, "python": sys.executable, "engine": "relay"})
    return session


def test_choosing_the_engine_of_an_old_tvm_says_what_it_needs_until_it_is_there(app: AppModel) -> None:
    app.consider_engine("relay", "")
    wait_until(lambda: app.state.problem is not None)
    assert app.state.problem is not None
    assert "an old TVM" in app.state.problem.message
    assert app.state.phase == state.EMPTY, "nothing was tried, so nothing has failed"
    assert all(words in app.state.problem.remedy for words in ("make venv-relay", "environment-relay.yml", "under More", VARIABLE))
    app.consider_engine("relay", "/no/such/python")
    wait_until(lambda: app.state.problem is not None and "no program" in app.state.problem.message)
    app.consider_engine("relay", sys.executable)
    wait_until(lambda: app.state.problem is None)
    app.consider_engine("relay", "")
    wait_until(lambda: app.state.problem is not None)
    app.consider_engine("relax", "")
    wait_until(lambda: app.state.problem is None)


def test_what_else_went_wrong_stays_whatever_engine_is_chosen() -> None:
    stage = Stage(on_state=lambda _: None, new_host=None, clock=time.monotonic)
    chooser = Opener(stage, in_turn=lambda work: work(), aside=lambda work: work())
    chooser.consider_engine("relay", "")
    other = Problem("The disk is full.")
    stage.show_problem(other)
    chooser.consider_engine("relax", "")
    chooser.consider_engine("relay", sys.executable)
    assert stage.state.problem == other
    stage.close()


def test_a_model_that_needs_an_old_python_is_a_problem_without_one_and_leaves_nothing(
    app: AppModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.relay.txt").write_text(MODEL)
    app.open(Opening("net.relay.txt", engine="relay"))
    wait_until(lambda: app.state.phase == state.FAILED)
    assert app.state.problem is not None
    assert "make venv-relay" in app.state.problem.remedy
    wait_until(lambda: not list(tmp_path.glob("workbench-sessions/*")))


def test_the_python_that_is_named_reaches_the_session_and_its_place_in_the_directory_does_not(
    app: AppModel, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "net.relay.txt").write_text(MODEL)
    opened: list[workbench.Session] = []
    real = opener.open_session

    def open_and_note(*arguments: Any, **options: Any) -> Any:
        opened.append(real(*arguments, **options))
        raise RuntimeError("enough was seen")

    monkeypatch.setattr(opener, "open_session", open_and_note)
    app.open(Opening("net.relay.txt", engine="relay", python=sys.executable))
    wait_until(lambda: app.state.problem is not None)
    [session] = opened
    assert (session.request.engine, session.python) == ("relay", sys.executable)
    assert sys.executable.encode() not in (session.path / "session.sqlite").read_bytes()
    session.close()


def test_a_session_names_no_python_and_gets_the_one_of_the_user(app: AppModel, relay_session: SessionDirectory) -> None:
    with StandIn(relay_session):
        app.open(Opening(str(relay_session.path), is_session=True))
        wait_until(lambda: app.state.profile is not None and app.state.phase not in state.BUSY)
        assert app.session is not None
        assert (app.session.request.engine, app.session.python) == ("relay", ""), "what strangers may write is started by nobody"
        app.open(Opening(str(relay_session.path), is_session=True, engine="relay", python=sys.executable))
        wait_until(lambda: app.session is not None and app.session.python == sys.executable)
        wait_until(lambda: app.state.phase not in state.BUSY)


def test_a_session_of_todays_engine_has_no_use_for_the_python_on_the_page(app: AppModel, session: SessionDirectory) -> None:
    with StandIn(session):
        app.open(Opening(str(session.path), is_session=True, engine="relay", python=sys.executable))
        wait_until(lambda: app.state.profile is not None and app.state.phase not in state.BUSY)
        assert app.session is not None
        assert (app.session.request.engine, app.session.python, app.state.problem) == ("relax", "", None)
