"""The parts of the app without a page: one selection for all, what they show of the session, and how much they tell their pages."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import ipywidgets
import pytest

import workbench
from tests.graph_samples import network
from tests.unit.app_worker import StandIn, wait_until
from tests.unit.conftest import Sessions
from tests.unit.test_view_desk import PEAKS
from workbench.analysis.roofline import row_limits
from workbench.notebook import Workbench
from workbench.notebook.app import state
from workbench.notebook.part import Part
from workbench.records.comparison import Comparison, KernelComparison, Timing, Verification
from workbench.records.graph import GRAPH_DOCUMENT
from workbench.session import PEAKS as PEAKS_DOCUMENT
from workbench.session import SessionDirectory

TRIALS_PER_S = 20
SECONDS = 3.0
MOST_PER_S = 20

Open = Callable[[], Workbench]


@pytest.fixture
def session(tmp_path: Path, sessions: Sessions) -> SessionDirectory:
    """A session with a graph; twelve rows on seven tasks, which take turns."""
    graph, profile = network(12)
    directory = sessions.write(tmp_path / "session", profile)
    with directory.store() as store:
        store.write_document(GRAPH_DOCUMENT, graph.to_dict())
    return directory


@pytest.fixture
def worker(session: SessionDirectory) -> Iterator[StandIn]:
    with StandIn(session) as stand_in:
        yield stand_in


@pytest.fixture
def open_app(session: SessionDirectory, worker: StandIn) -> Iterator[Open]:
    """Makes the app on the session."""
    apps: list[Workbench] = []

    def make() -> Workbench:
        app = Workbench(workbench.open(session.path))
        apps.append(app)
        wait_until(lambda: app.parts.table is not None)
        return app

    yield make
    for app in apps:
        app.close()


@pytest.fixture
def app(open_app: Open) -> Workbench:
    return open_app()


@pytest.fixture
def searched(app: Workbench, worker: StandIn) -> Workbench:
    """An app whose first task has two trials and goes on."""
    app.model.tick([0, 1])
    app.model.tune(per_task=10_000)
    wait_until(lambda: app.model.state.phase == state.TUNING)
    worker.measure(task_at(app, 0), "conv2d", 0, 100.0)
    worker.measure(task_at(app, 0), "conv2d", 1, 90.0)
    wait_until(lambda: app.parts.monitor is not None and app.parts.inspector is not None)
    return app


def part(found: Any) -> Any:
    assert found is not None
    return found


def task_at(app: Workbench, row: int) -> str:
    """The task of a row."""
    profile = app.model.state.profile
    assert profile is not None
    task = profile.rows[row].task
    assert task is not None
    return task


def limits_of(app: Workbench) -> list[float | None]:
    """The column that a view of the table gets."""
    told: list[Any] = []
    table = part(app.parts.table)
    table.send = lambda content, buffers=None: told.append(content)
    table.take_message({"kind": "ready"})
    return list(next(message for message in told if message["kind"] == "snapshot")["columns"]["limit_percent"])


def test_the_table_says_how_far_rows_are_from_the_limit_of_the_device(open_app: Open, session: SessionDirectory) -> None:
    with session.store() as store:
        store.write_document(PEAKS_DOCUMENT, PEAKS.to_dict())
        profile = store.profile()
    assert profile is not None
    known = row_limits(profile, PEAKS)
    assert len(known) == 12
    assert limits_of(open_app()) == [known.get(row.row) for row in profile.rows]


def test_the_limit_appears_when_it_becomes_known_and_ticks_stay(app: Workbench, session: SessionDirectory) -> None:
    table = part(app.parts.table)
    table.ticked = [1]
    assert set(limits_of(app)) == {None}
    with session.store() as store:
        store.write_document(PEAKS_DOCUMENT, PEAKS.to_dict())
    wait_until(lambda: any(limits_of(app)))
    assert (app.parts.table is table, table.ticked) == (True, [1, 8])


def test_a_kernel_that_is_chosen_in_the_monitor_or_the_inspector_is_looked_at_everywhere(searched: Workbench) -> None:
    parts = searched.parts
    table, monitor, inspector = part(parts.table), part(parts.monitor), part(parts.inspector)
    monitor.task = task_at(searched, 1)
    assert (table.focus, part(parts.graph).focus, inspector.task) == (1, 1, task_at(searched, 1))
    inspector.task = task_at(searched, 3)
    assert (table.focus, monitor.task) == (3, task_at(searched, 3))
    table.focus = 7
    assert (monitor.task, inspector.task) == (task_at(searched, 0),) * 2
    inspector.show(task_at(searched, 0), 1)
    assert (table.focus, inspector.trial) == (7, 1), "another row of the same task is looked at already"
    monitor.task = ""
    assert table.focus == 7, "all tasks are none"


def test_a_row_that_is_looked_at_is_marked_in_the_comparison_and_a_click_there_goes_everywhere(app: Workbench, session: SessionDirectory) -> None:
    table = part(app.parts.table)
    table.focus = 1
    compare(app, session)
    comparison = part(app.parts.comparison)
    assert comparison.focus == 1
    table.focus = 3
    assert comparison.focus == 3
    comparison.focus = 0
    assert table.focus == 0


def compare(app: Workbench, session: SessionDirectory) -> None:
    """Have a comparison in the session, and wait until it is shown."""
    kernels = tuple(KernelComparison(100.0, 1.0, 50.0, 1.0, kernel=f"k{row}", weight=2, rows=(row, row + 7)) for row in (0, 1, 3))
    record = Comparison("net", "relax", "cpu", Timing(1000.0), kernels, Verification(verified=True), applied=True, applied_at=1.0)
    with session.store() as store:
        store.write_document("comparison", replace(record, profile_id=store.manifest()["profile_id"]).to_dict())
        store.add_command("apply", {})
    wait_until(lambda: app.parts.comparison is not None)


def test_a_number_of_trials_set_in_the_monitor_leaves_the_time_of_the_task(app: Workbench, session: SessionDirectory) -> None:
    task = task_at(app, 1)
    app.model.tick([1])
    app.model.set_task_budget(task, trials=5, seconds=30.0)
    app.model.tune(per_task=8)
    wait_until(lambda: app.parts.monitor is not None)
    part(app.parts.monitor).take_message({"kind": "request", "request": "budget", "task": task, "trials": 64})
    wait_until(lambda: stored_budgets(session) == [(64, 30.0)])


def stored_budgets(session: SessionDirectory) -> list[tuple[int | None, float | None]]:
    with session.store() as store:
        selection = store.selection()
    return [] if selection is None else [(item.trials, item.seconds) for item in selection.tasks]


def test_twenty_trials_a_second_are_no_more_than_twenty_messages_a_second(
    searched: Workbench, worker: StandIn, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []
    lock = threading.Lock()
    real = ipywidgets.Widget._send  # noqa: SLF001 - all that goes to a page goes through it

    def count(widget: Any, message: Any, buffers: Any = None) -> None:
        with lock:
            sent.append(type(widget).__name__)
        real(widget, message, buffers)

    parts = searched.parts
    everything: list[Part] = [searched.shell, *map(part, (parts.table, parts.graph, parts.monitor, parts.inspector))]
    for shown in everything:
        shown.take_message({"kind": "ready"})
    monkeypatch.setattr(ipywidgets.Widget, "_send", count)
    task, number, started = task_at(searched, 0), 2, time.monotonic()
    while (passed := time.monotonic() - started) < SECONDS:
        while number - 2 < passed * TRIALS_PER_S:
            worker.measure(task, "conv2d", number, 80.0 + 1.0 / number)
            number += 1
        time.sleep(0.01)
    with lock:
        counted = list(sent)
    assert {"ProfileTable", "GraphView", "TuningMonitor", "Inspector", "Shell"} <= set(counted), "each part was told something"
    assert len(counted) <= MOST_PER_S * SECONDS, json.dumps({name: counted.count(name) for name in set(counted)})


def test_a_click_is_told_at_once_while_progress_comes_all_the_time(searched: Workbench, worker: StandIn) -> None:
    task = task_at(searched, 0)
    for number in range(2, 12):
        worker.measure(task, "conv2d", number, 80.0 - number)
        time.sleep(0.02)
    searched.model.tick([3])
    clicked = time.monotonic()
    wait_until(lambda: part(searched.parts.table).ticked == [3, 10])
    assert time.monotonic() - clicked < 0.25
