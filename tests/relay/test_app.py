"""The app without a page on a real old TVM: a model is opened with the engine and the Python that the page names, profiled and searched."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.relay.models import CONVOLUTION
from workbench.notebook.app import state
from workbench.notebook.app.choices import read_opening
from workbench.notebook.app.model import AppModel
from workbench.old_python import VARIABLE

HANG_S = 240.0
TRIALS = 3


@pytest.fixture
def app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[AppModel]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv(VARIABLE, raising=False)
    (tmp_path / "net.relay").write_text(CONVOLUTION)
    made = AppModel(on_state=lambda _: None)
    yield made
    made.close()


def wait_until(app: AppModel, holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not holds():
        assert app.state.problem is None, app.state.problem
        assert time.monotonic() < deadline, app.state
        time.sleep(0.02)


def test_a_relay_model_is_profiled_and_searched_with_the_python_that_was_named(app: AppModel, old_python: Path) -> None:
    app.open(read_opening({"model": "net.relay", "target": "cpu", "engine": "relay", "python": str(old_python)}))
    wait_until(app, lambda: app.state.phase == state.PROFILED)
    assert app.state.engine.startswith("relay engine, TVM 0.")
    profile = app.state.profile
    assert profile is not None
    assert profile.rows[0].time_us is not None
    assert app.session is not None
    assert app.session.path.name == "net-cpu-relay"
    app.tick([next(row.row for row in profile.rows if "conv2d" in row.node_name)])
    app.tune(per_task=TRIALS)
    wait_until(app, lambda: app.state.phase == state.TUNED)
    [searched] = [task for task in app.state.progress if task.trials]
    assert searched.trials >= TRIALS
    assert searched.best_us is not None
