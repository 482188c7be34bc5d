"""The monitor without a page: what it tells, how much of it, how it stays in step, and how it steers a search."""

from __future__ import annotations

import contextlib
import gzip
import sqlite3
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from tests.monitor_samples import HOSTILE, FakeFeed
from tests.unit.chart_points import point
from workbench.errors import EnvironmentFault, InputError, SelectionError, SessionError
from workbench.notebook.monitor.feed import IDLE, PAUSED, SEARCHING, StoreFeed
from workbench.notebook.monitor.packing import Message, message
from workbench.notebook.monitor.plotly_asset import plotly_gzip
from workbench.notebook.monitor.steady_time import SteadyTime
from workbench.notebook.monitor.steering import Request, StoreSteering, read_request
from workbench.notebook.monitor.stream import MOST_APPENDED, Stream
from workbench.notebook.part import bundled
from workbench.records.trial import BUILD_ERROR, OK, Trial
from workbench.records.tuning import FINISHED, SearchBudget, TaskProgress
from workbench.selection import select
from workbench.session import SessionDirectory

HANG_S = 20.0


@pytest.fixture
def feed(sessions: Any) -> FakeFeed:
    return FakeFeed(sessions.profile(["conv2d", "dense", "conv2d", "softmax"]))


def size(told: Message) -> int:
    return len(str(told.content)) + sum(map(len, told.buffers))


def opened(feed: FakeFeed) -> tuple[Stream, Message]:
    stream = Stream(feed, clock=lambda: 1010.0)
    stream.read()
    return stream, stream.snapshot()


def next_of(stream: Stream) -> Message:
    stream.read()
    told = stream.update()
    assert told is not None
    return told


# the stream


def test_a_view_gets_a_snapshot_and_then_what_is_new_with_the_place_where_it_begins(feed: FakeFeed) -> None:
    feed.add(5)
    stream, told = opened(feed)
    assert (told.kind, told.content["end"]) == ("snapshot", 5)
    assert stream.update() is None
    feed.add(3)
    update = next_of(stream)
    assert (update.kind, update.content["generation"], update.content["start"], update.content["end"]) == ("update", 1, 5, 8)
    assert update.content["latency"]["append"]["0"]["x"] == [6.0, 7.0, 8.0]
    assert stream.update() is None


def test_64_trials_more_at_100_000_are_less_than_10_kb_and_no_snapshot(feed: FakeFeed) -> None:
    feed.points = [point(index + 1, 500.0 + index % 97, task=feed.profile().tasks[index % 3].task, number=index // 3) for index in range(100_000)]
    stream, told = opened(feed)
    assert size(told) < 500_000
    feed.points += [point(100_001 + index, 600.0, task=feed.profile().tasks[0].task, number=40_000 + index) for index in range(64)]
    update = next_of(stream)
    assert update.kind == "update"
    assert size(update) < 10_000


def test_a_new_best_is_in_the_update_and_the_lines_of_other_tasks_stay(feed: FakeFeed) -> None:
    feed.add(2)
    stream, _ = opened(feed)
    feed.add(1)
    steps = next_of(stream).content["latency"]["steps"]
    assert len(steps) == 1
    (line,) = steps.values()
    assert line["x"] == [3.0]
    assert line["y"] == pytest.approx([1 / 3])


@pytest.mark.parametrize(
    "change",
    [
        lambda feed: feed.add(1, feed.profile().tasks[1].task),
        lambda feed: feed.points.append(point(99, None, task=feed.points[0].task, status=BUILD_ERROR)),
        lambda feed: feed.points.append(point(99, 5.0, task=feed.points[0].task, conditions="there")),
        lambda feed: feed.add(MOST_APPENDED + 1),
    ],
    ids=["a task that is new", "a class of failure that is new", "other conditions", "very many points"],
)
def test_what_changes_more_than_points_is_a_new_snapshot(feed: FakeFeed, change: Callable[[FakeFeed], None]) -> None:
    feed.add(3)
    stream, _ = opened(feed)
    change(feed)
    told = next_of(stream)
    assert (told.kind, told.content["generation"]) == ("snapshot", 2)


def test_an_hour_of_20_trials_a_second_holds_no_more_points_on_the_page_than_a_snapshot_and_its_updates(feed: FakeFeed) -> None:
    task = feed.profile().tasks[0].task
    feed.add(1)
    stream, told = opened(feed)
    on_page, largest = 1, 0
    for tick in range(72):  # fifty seconds each
        start = len(feed.points)
        feed.points += [point(start + index + 1, 900.0 + (start + index) % 13, task=task, number=start + index) for index in range(1000)]
        told = next_of(stream)
        figure = told.content.get("latency", {})
        on_page = sum_points(told) if told.kind == "snapshot" else on_page + 1000
        largest = max(largest, on_page, 0 if figure else tick)
    assert largest <= 2 * MOST_APPENDED


def sum_points(told: Message) -> int:
    measured = told.content["latency"]["data"][0]["x"]
    return len(told.buffers[measured["buffer"]]) // 4 if isinstance(measured, dict) else len(measured)


def test_only_lines_that_changed_are_told(feed: FakeFeed) -> None:
    feed.add(2)
    first, second = (task.task for task in feed.profile().tasks[:2])
    feed.tasks = (TaskProgress(first, "conv2d", 2, trials=2), TaskProgress(second, "dense", 1))
    stream, told = opened(feed)
    assert len(told.content["lines"]) == 3
    feed.tasks = (replace(feed.tasks[0], trials=3, state=FINISHED, stopped_because="done"), feed.tasks[1])
    (line,) = next_of(stream).content["lines"]
    assert (line["task"], line["trials"], line["state"], line["why"]) == (first, 3, FINISHED, "done")


def test_errors_are_told_by_class_with_their_first_full_text(feed: FakeFeed) -> None:
    tasks = feed.profile().tasks
    feed.tasks = (
        TaskProgress(tasks[0].task, "conv2d", 2, errors={BUILD_ERROR: 2}, first_errors={BUILD_ERROR: f"line one\nline two \x1b[31m {HOSTILE}"}),
        TaskProgress(tasks[1].task, "dense", 1, errors={BUILD_ERROR: 5}, first_errors={BUILD_ERROR: "other"}),
    )
    _, told = opened(feed)
    (entry,) = told.content["errors"]
    assert (entry["count"], entry["task"]) == (7, "conv2d")
    assert entry["text"].splitlines() == ["line one", f"line two \\x1b[31m {HOSTILE}"]


def test_the_bar_tells_trials_rate_and_time_left_by_the_budget(feed: FakeFeed) -> None:
    task = feed.profile().tasks[0].task
    feed.points = [point(index + 1, 10.0, task=task, number=index, measured_at=1000.0 + index / 2) for index in range(21)]
    feed.tasks = (TaskProgress(task, "conv2d", 2, state="searching", trials=21),)
    feed.request = replace(feed.request, tasks=feed.request.tasks[:1])
    _, told = opened(feed)
    bar = told.content["summary"]
    assert (bar["trials"], bar["state"], bar["spent_s"], bar["per_s"]) == (21, SEARCHING, 10, 2.0)
    assert bar["left_s"] == round((64 - 21) / 2)


def test_pauses_do_not_count_as_time_of_the_search(feed: FakeFeed) -> None:
    feed.request = replace(feed.request, budget=SearchBudget(seconds=60.0))
    feed.pauses = ((1010.0, 1030.0), (1040.0, None))
    stream = Stream(feed, clock=lambda: 1100.0)
    bar = stream.snapshot().content["summary"]
    assert (bar["spent_s"], bar["left_s"]) == (20, 40)


def test_the_time_of_a_search_that_stands_still_goes_on_once_a_second(feed: FakeFeed) -> None:
    now = [1000.0]
    stream = Stream(feed, clock=lambda: now[0])
    stream.read()
    stream.snapshot()
    now[0] = 1000.6
    stream.read()
    assert stream.update() is None
    now[0] = 1001.2
    assert next_of(stream).content.keys() == {"generation", "start", "end", "summary"}
    feed.state, now[0] = PAUSED, 1001.3
    assert next_of(stream).content["summary"]["state"] == PAUSED


def test_a_clock_that_is_set_and_a_night_asleep_are_no_time_of_the_search(feed: FakeFeed) -> None:
    feed.request = replace(feed.request, budget=SearchBudget(seconds=60.0))
    wall, clock = [1000.0], [50.0]
    stream = Stream(feed, clock=SteadyTime(wall=lambda: wall[0], clock=lambda: clock[0]))
    stream.read()
    stream.snapshot()
    for jump in (86_400.0, -172_800.0):
        wall[0] += jump
        clock[0] += 10.0
        told = next_of(stream).content["summary"]
    assert (told["spent_s"], told["left_s"]) == (20, 40)


def test_a_point_of_the_chart_is_its_trial_in_the_chart_of_all_tasks_and_of_one(feed: FakeFeed) -> None:
    first, second = (task.task for task in feed.profile().tasks[:2])
    feed.add(2, first)
    feed.add(3, second)
    stream, _ = opened(feed)
    assert [stream.place(x) for x in (0, 1, 3, 5, 6)] == [None, (first, 0), (second, 0), (second, 2), None]
    stream.task = second
    assert stream.place(1) == (second, 1)
    detail = stream.detail(1).content
    assert detail["title"].endswith("#1")
    assert detail["decisions"] == ["tile 1 4 7 2", "unroll 64", HOSTILE]
    assert stream.detail(77).content["title"] == ""


def test_a_task_has_a_chart_of_its_own(feed: FakeFeed) -> None:
    first, second = (task.task for task in feed.profile().tasks[:2])
    feed.add(4, first)
    feed.add(2, second)
    stream, _ = opened(feed)
    stream.task = second
    told = stream.snapshot()
    assert told.content["latency"]["data"][0]["x"] == [0.0, 1.0]
    assert told.content["latency"]["layout"]["yaxis"]["title"]["text"] == "time (us)"


def test_while_no_search_runs_the_selection_is_what_is_ticked(feed: FakeFeed) -> None:
    feed.state, feed.selection = IDLE, select(feed.profile(), top=1)
    stream, told = opened(feed)
    ticked = [line["task"] for line in told.content["lines"] if line["ticked"]]
    assert ticked == stream.ticked() == [feed.profile().tasks[0].task]


def test_a_dropped_task_is_not_ticked_and_an_added_one_is(feed: FakeFeed) -> None:
    tasks = feed.profile().tasks
    feed.request = replace(feed.request, tasks=feed.request.tasks[:1])
    asked = feed.request.tasks[0].task
    added = next(task.task for task in tasks if task.task != asked)
    feed.tasks = (TaskProgress(asked, "a", 1, state="dropped"), TaskProgress(added, "b", 1, state="searching"))
    stream, _ = opened(feed)
    assert stream.ticked() == [added]


# packing


def test_long_arrays_travel_as_buffers_and_short_ones_as_numbers() -> None:
    told = message("x", {"a": [{"y": np.arange(100.0)}], "b": np.array([1.5]), "c": None})
    assert told.content == {"a": [{"y": {"buffer": 0}}], "b": [1.5], "c": None}
    assert np.frombuffer(told.buffers[0], "<f4").tolist() == list(range(100))


def test_plotly_is_bundled_and_travels_compressed() -> None:
    assert len(plotly_gzip()) < 600_000
    assert gzip.decompress(plotly_gzip()) == bundled("plotly.js").read_bytes()
    assert plotly_gzip() is plotly_gzip()


# requests


@pytest.mark.parametrize(
    "content",
    [
        {"request": "explode"},
        {"request": "pause", "task": "t"},
        {"request": "add"},
        {"request": "add", "task": 3},
        {"request": "budget", "task": "t", "trials": 0},
        {"request": "budget", "task": "t", "trials": 1.5},
        {"request": "budget", "task": "t", "trials": True},
    ],
)
def test_a_request_that_makes_no_sense_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        read_request(content)


def test_requests_are_read() -> None:
    assert read_request({"request": "pause"}) == Request("pause")
    assert read_request({"request": "budget", "task": "t", "trials": None}) == Request("budget", "t", None)
    assert read_request({"request": "add", "task": "t", "trials": 64}) == Request("add", "t", 64)


def test_ticks_and_budgets_go_to_the_selection_while_no_search_runs(session: SessionDirectory) -> None:
    with session.store() as store:
        profile = store.profile()
    assert profile is not None
    first, second, _ = (task.task for task in profile.tasks)
    steer = StoreSteering(session)
    steer(Request("add", first, 10))
    steer(Request("add", second))
    steer(Request("budget", first, 20))
    with session.store() as store:
        selection = store.selection()
    assert selection is not None
    assert {item.task: item.trials for item in selection.tasks} == {first: 20, second: None}
    steer(Request("drop", first))
    with pytest.raises(SelectionError, match="at least one"):
        steer(Request("drop", second))
    with pytest.raises(SelectionError, match="not ticked"):
        steer(Request("budget", first, 3))
    with pytest.raises(SessionError, match="No search is running"):
        steer(Request("pause"))


# a session as a feed, and a search of another process to steer


def test_the_feed_of_a_session_gives_the_points_that_the_store_has(session: SessionDirectory) -> None:
    task = "conv2d-1"
    stored = [
        Trial(task, number, OK if number % 2 else BUILD_ERROR, "", "f", "search", "here", times, 3, 0.0, 0.0, 0.0, None, None, 1.7e9 + number)
        for number, times in enumerate([(), (3.0, 1.0, 2.0), (), (4.0, 1.0)])
    ]
    with session.store() as store:
        for item in stored:
            store.trials.add(item, "", TaskProgress(task, "conv2d", 1))
    feed = StoreFeed(session)
    points = feed.since(0)
    assert [item.time_us for item in points] == [item.time_us for item in stored]
    assert [(item.number, item.status, item.measured_at) for item in points] == [(item.number, item.status, item.measured_at) for item in stored]
    assert feed.since(points[1].cursor) == points[2:]
    assert feed.trial(task, 1) == stored[1]


@pytest.mark.parametrize(
    "change",
    ["$.status', 'great", "$.measured_at', 'x", "$.conditions', 3, '$.status', 'ok", "$.times_us', 'x", "$.times_us', json('[0]'), '$.status', 'ok"],
)
def test_a_trial_that_no_search_can_have_written_is_an_error_and_no_point(session: SessionDirectory, change: str) -> None:
    stored = Trial("conv2d-1", 1, OK, "", "f", "search", "here", (3.0,), 3, 0.0, 0.0, 0.0, None, None, 1.7e9)
    with session.store() as store:
        store.trials.add(stored, "", TaskProgress("conv2d-1", "conv2d", 1))
    assert len(StoreFeed(session).since(0)) == 1
    with contextlib.closing(sqlite3.connect(session.database)) as sql, sql:
        sql.execute(f"UPDATE trials SET record = json_set(record, '{change}')")  # noqa: S608 - a test's own statement
    with pytest.raises(SessionError, match="damaged"):
        StoreFeed(session).since(0)


def test_a_running_search_is_seen_with_its_phase_and_steered_through_the_store(session: SessionDirectory) -> None:
    with session.lock() as held, session.store() as store:
        assert held
        number = store.add_command("tune", {})
        store.take_command()
        store.add_event("progress", {"command": number, "phase": "measure: conv2d", "share": 0.1})
        feed = StoreFeed(session)
        assert (feed.standing().state, feed.standing().doing) == (SEARCHING, "measure: conv2d")
        store.add_event("progress", {"command": number, "phase": "paused", "share": 0.1})
        assert feed.standing().state == PAUSED
        ((_, end),) = feed.standing().pauses
        assert end is None
        store.add_event("progress", {"command": number, "phase": "measure: conv2d", "share": 0.1})
        store.add_event("progress", {"command": number, "phase": "paused", "share": 0.1})
        (begun, ended), (_, lasts) = feed.standing().pauses
        assert (ended is not None and ended >= begun, lasts) == (True, None)
        asked = threading.Thread(target=StoreSteering(session), args=(Request("add", "conv2d-1", 7),))
        asked.start()
        told = None
        while told is None:
            told = store.take_command(["add"])
        store.finish_command(told.command, result={})
        asked.join(HANG_S)
        assert told.arguments == {"task": "conv2d-1", "trials": 7}
        store.finish_command(number, result={})
        assert feed.standing().state == IDLE


def test_a_session_that_cannot_be_read_is_an_error_of_the_feed(session: SessionDirectory) -> None:
    feed = StoreFeed(session)
    session.database.unlink()
    with pytest.raises((SessionError, EnvironmentFault)):
        feed.standing()
