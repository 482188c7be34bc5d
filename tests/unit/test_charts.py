"""What charts show of trials: every best, every failure, the right baseline, and a forecast that is the command line's."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import plotly.graph_objects as go
import pytest

from tests.unit.chart_points import columns_of, point
from workbench.analysis.forecast import model_forecast_us
from workbench.charts.buckets import extremes, in_view, occupied
from workbench.charts.columns import TrialColumns
from workbench.charts.figures import first_best_line, forecast_figure, latency_figure, latency_increment, pace_steps
from workbench.charts.forecast import Pace, forecast, old_course, pace
from workbench.charts.latency import Latency, latency, reduced
from workbench.charts.palette import FAILURE_MARKS, TASK_COLOURS, task_colour, template
from workbench.records.old_search import LatencyPoint
from workbench.records.trial import BUILD_ERROR, FAILURES, OK, RUN_TIMEOUT, UNMEASURED, WRONG_RESULT
from workbench.records.tuning import TaskProgress


def many(count: int, *, seed: int = 1) -> TrialColumns:
    """Trials of three tasks, every seventh of them failed."""
    random = np.random.default_rng(seed)
    times = random.lognormal(5, 1, count)
    points = []
    for index in range(count):
        task = f"task{index % 3}"
        failed = index % 7 == 3
        status = FAILURES[index // 7 % len(FAILURES)] if failed else OK
        points.append(
            point(
                index + 1, None if failed else times[index], task=task, number=index // 3, status=status, origin="baseline" if index < 3 else "search"
            )
        )
    return columns_of(points)


# buckets


@pytest.mark.parametrize("count", [0, 1, 2, 9, 10, 1000, 99_991])
def test_a_reduced_series_keeps_its_smallest_and_largest_value_and_its_last(count: int) -> None:
    y = np.random.default_rng(count).lognormal(size=count)
    places = extremes(y, 300)
    assert len(places) <= max(300, 0)
    assert np.all(np.diff(places) > 0)
    if count:
        assert {int(y.argmin()), int(y.argmax()), count - 1} <= set(places.tolist())


def test_every_stretch_of_the_axis_that_has_a_failure_keeps_one() -> None:
    x = np.sort(np.random.default_rng(0).uniform(0, 1e5, 50_000))
    places = occupied(x, 1000)
    assert len(places) <= 1002
    assert set(np.floor((x[places] - x[0]) / (x[-1] - x[0]) * 1000)) == set(np.floor((x - x[0]) / (x[-1] - x[0]) * 1000))


def test_what_is_looked_at_is_shown_in_full() -> None:
    x = np.arange(100_000, dtype=float)
    places = in_view(x, np.ones(100_000), 600, (5000.0, 5500.0))
    assert set(range(5000, 5500)) <= set(places.tolist())
    assert len(places) < 1000


# columns


def test_the_best_so_far_is_made_of_trials_that_are_right_and_comparable() -> None:
    columns = columns_of([point(1, 100.0), point(2, 80.0), point(3, None, status=WRONG_RESULT), point(4, 90.0), point(5, 60.0)])
    (course,) = columns.courses
    assert (course.rows, course.best_us, course.baseline_us) == ([0, 1, 4], [100.0, 80.0, 60.0], 100.0)


def test_a_task_that_is_measured_under_other_conditions_begins_anew_and_its_earlier_trials_are_marked() -> None:
    columns = columns_of([point(1, 100.0), point(2, 10.0)])
    epoch = columns.epoch
    columns.extend([point(3, 200.0, conditions="there", origin="baseline"), point(4, 150.0, conditions="there")])
    assert columns.epoch > epoch
    assert columns.courses[0].best_us == [200.0, 150.0]
    data = latency(columns, "conv")
    assert data.elsewhere.y.tolist() == [100.0, 10.0]
    assert data.measured.y.tolist() == [200.0, 150.0]
    assert data.baseline == 200.0


def test_a_candidate_that_was_only_built_and_checked_changes_no_chart() -> None:
    columns = columns_of([point(1, 100.0), point(2, None, status=UNMEASURED, conditions="dry")])
    data = latency(columns, "conv")
    assert len(data.measured) == 1
    assert not data.failures
    assert columns.courses[0].conditions == 0


def test_a_night_between_two_searches_and_a_clock_that_is_set_back_count_little() -> None:
    columns = columns_of([point(1, 1.0), point(2, 1.0), point(3, 1.0, measured_at=50_000.0), point(4, 1.0, measured_at=0.0)])
    assert columns.column("elapsed_s").tolist() == [0.0, 1.0, 61.0, 61.0]


def test_columns_that_come_in_pieces_are_the_same_as_at_once() -> None:
    whole, points = many(3000), [point(index + 1, float(index % 50 + 1), task=f"t{index % 4}") for index in range(3000)]
    pieces = TrialColumns()
    for start in range(0, 3000, 700):
        pieces.extend(points[start : start + 700])
    whole = columns_of(points)
    for name in ("task", "number", "status", "time_us", "elapsed_s"):
        assert np.array_equal(pieces.column(name), whole.column(name), equal_nan=True)
    assert [course.best_us for course in pieces.courses] == [course.best_us for course in whole.courses]


# latency


def test_no_best_and_no_class_of_failure_is_lost_among_a_hundred_thousand_trials() -> None:
    columns = many(100_000)
    data = latency(columns, None)
    small = reduced(data)
    assert len(small.measured) <= 6000
    assert small.best == data.best
    assert small.measured.y.min() == data.measured.y.min()
    assert small.failures.keys() == data.failures.keys() == set(FAILURES)
    for line in data.best:
        assert line.y[-1] == pytest.approx(
            np.nanmin((columns.column("time_us"))[columns.column("task") == line.task]) / columns.courses[line.task].reference_us
        )


def test_all_tasks_are_shown_in_relation_to_their_own_untuned_kernels() -> None:
    columns = columns_of(
        [point(1, 100.0), point(2, 50.0), point(3, 10.0, task="dense", number=0, origin="baseline"), point(4, 20.0, task="dense", number=1)]
    )
    data = latency(columns, None)
    assert data.measured.y.tolist() == [1.0, 0.5, 1.0, 2.0]
    assert data.measured.x.tolist() == [1.0, 2.0, 3.0, 4.0]
    assert data.baseline == 1.0


def test_where_the_untuned_kernel_failed_the_first_time_takes_its_place() -> None:
    columns = columns_of([point(1, None, status=BUILD_ERROR), point(2, 40.0), point(3, 20.0)])
    assert latency(columns, None).measured.y.tolist() == [1.0, 0.5]
    assert latency(columns, "conv").baseline is None


def test_a_task_without_trials_is_an_empty_chart() -> None:
    data = latency(many(10), "unknown")
    assert (len(data.measured), data.best, data.baseline) == (0, (), None)


@pytest.mark.parametrize("task", [None, "task1"])
def test_increments_add_up_to_the_whole(task: str | None) -> None:
    columns = many(2000)
    whole, tail = latency(columns, task), latency(columns, task, start=1500)
    in_tail = columns.column("task")[1500:] == 1 if task else np.ones(500, dtype=bool)
    assert len(tail.measured) + sum(map(len, tail.failures.values())) == int(in_tail.sum())
    assert np.array_equal(tail.measured.y, whole.measured.y[-len(tail.measured) :])
    assert [line.y.tolist() for line in tail.best] == [line.y.tolist() for line in whole.best]


# forecast


def test_the_forecast_ends_where_the_command_lines_forecast_is(sessions: Any) -> None:
    profile = sessions.profile(["conv2d", "dense", "conv2d"])
    tasks = [task.task for task in profile.tasks]
    columns = columns_of(
        [
            point(1, 100.0, task=tasks[0]),
            point(2, 50.0, task=tasks[0]),
            point(3, 50.0, task=tasks[1], origin="baseline"),
            point(4, 40.0, task=tasks[1]),
            point(5, 30.0, task=tasks[0]),
        ]
    )
    progress = [
        TaskProgress(tasks[0], "conv2d", 2, baseline_us=100.0, best_us=30.0),
        TaskProgress(tasks[1], "dense", 1, baseline_us=50.0, best_us=40.0),
    ]
    data = forecast(columns, profile)
    assert data.model_us[0] == profile.total_us
    assert data.model_us[-1] == pytest.approx(model_forecast_us(profile, progress))
    assert np.all(np.diff(data.model_us) <= 0)


def test_without_times_there_is_no_forecast(sessions: Any) -> None:
    profile = replace(sessions.profile(["conv2d"]), total_us=None)
    assert len(forecast(many(10), profile).model_us) == 0


def test_the_course_of_an_old_search_is_what_its_tuner_estimated_from_where_it_could() -> None:
    course = old_course([LatencyPoint(5.0, None, 8), LatencyPoint(10.0, 4000.0, 16), LatencyPoint(20.0, 2000.0, 32), LatencyPoint(30.0, None, 40)])
    assert (course.elapsed_s.tolist(), course.model_us.tolist(), course.total_us, course.end_s) == ([10.0, 20.0], [4000.0, 2000.0], None, 30.0)
    figure = forecast_figure(course, pace(TrialColumns()))
    assert figure["data"][0]["y"].tolist() == [4.0, 2.0, 2.0]
    assert [note["text"] for note in figure["layout"]["annotations"]] == ["as the old tuner estimated it"]
    backwards = old_course([LatencyPoint(20.0, 2000.0, 32), LatencyPoint(10.0, 4000.0, 16)])
    assert (backwards.elapsed_s.tolist(), backwards.end_s) == ([10.0, 20.0], 20.0), "a file in another order"
    nothing = forecast_figure(old_course([LatencyPoint(5.0, None, 8)]), pace(TrialColumns()))
    assert (len(nothing["data"][0]["x"]), nothing["layout"]["annotations"]) == (0, [])


def test_the_pace_is_that_of_the_last_minute_and_its_stretches_hold_all_trials() -> None:
    columns = columns_of([point(index + 1, 1.0, measured_at=1000.0 + index * (0.1 if index >= 100 else 1.0)) for index in range(100)])
    speed = pace(columns)
    assert speed.recent_per_s == pytest.approx(1.0, rel=0.05)
    assert (speed.per_s * speed.width_s).sum() == pytest.approx(100)
    assert pace(TrialColumns()).recent_per_s is None


def test_the_outline_of_the_pace_holds_each_value_over_its_stretch_of_time() -> None:
    steps = pace_steps(Pace(np.array([1.0, 3.0, 5.0]), np.array([4.0, 0.0, 2.0]), 2.0, None))
    assert (steps["x"].tolist(), steps["y"].tolist()) == ([0.0, 2.0, 4.0, 6.0], [4.0, 0.0, 2.0, 2.0])
    assert len(pace_steps(pace(TrialColumns()))["x"]) == 0


# figures


def figures(data: Latency, names: dict[int, str]) -> dict[str, Any]:
    return latency_figure(data, classes=data.failures, names=names)


@pytest.mark.parametrize("task", [None, "task1"])
def test_plotly_accepts_the_figures_as_they_are(sessions: Any, task: str | None) -> None:
    columns = many(500)
    figure = figures(latency(columns, task), {0: "<b>a</b>", 1: "b", 2: "c"})
    go.Figure({"data": figure["data"], "layout": {**figure["layout"], "template": template(dark=True)}})
    go.Figure(forecast_figure(forecast(columns, sessions.profile(["conv2d"])), pace(columns)))


def test_each_class_of_failure_has_a_row_and_a_mark_of_its_own() -> None:
    columns = columns_of([point(1, 9.0), point(2, None, status=BUILD_ERROR), point(3, None, status=RUN_TIMEOUT), point(4, None, status=BUILD_ERROR)])
    figure = figures(latency(columns, "conv"), {})
    rows = {trace["name"]: trace for trace in figure["data"] if trace.get("yaxis") == "y2"}
    assert rows["build error"]["x"].tolist() == [1.0, 3.0]
    assert rows["run timeout"]["x"].tolist() == [2.0]
    assert figure["layout"]["yaxis2"]["ticktext"] == ["build error", "run timeout"]
    assert len({symbol for symbol, _ in FAILURE_MARKS.values()}) == len(FAILURES)


def test_the_baseline_is_a_line_and_the_best_line_falls_and_holds_to_the_end() -> None:
    columns = columns_of([point(1, 100.0), point(2, 60.0), point(3, 70.0)])
    data = latency(columns, "conv")
    figure = figures(data, {})
    assert figure["layout"]["shapes"][0]["y0"] == 100.0
    assert figure["layout"]["yaxis"]["type"] == "log"
    line = next(trace for trace in figure["data"] if trace["name"] == "best so far")
    assert (line["x"].tolist(), line["y"].tolist()) == ([0.0, 1.0, 2.0], [100.0, 60.0, 60.0])


def test_an_increment_names_the_traces_that_it_extends() -> None:
    columns = many(700)
    classes = latency(columns, None).failures
    figure = figures(latency(columns, None), {})
    added = latency_increment(latency(columns, None, start=600), classes=classes)
    for place, arrays in added.items():
        trace = figure["data"][place]
        assert trace["type"] == "scattergl"
        assert len(arrays["x"]) == len(arrays["y"]) > 0
        assert trace["x"].tolist()[-len(arrays["x"]) :] == arrays["x"].tolist()
    assert sum(len(arrays["x"]) for arrays in added.values()) == 100
    assert [trace["mode"] for trace in figure["data"][first_best_line(latency(columns, None), classes=classes) :]] == ["lines"] * 3


def test_points_and_best_line_of_a_task_have_its_colour_and_the_eighth_task_that_of_the_first() -> None:
    columns = columns_of([point(index + 1, 100.0 + index, task=f"task{index}") for index in range(9)])
    data = latency(columns, None)
    points = [trace for trace in figures(data, {})["data"] if trace["mode"] == "markers" and trace["name"] == "measured"]
    assert [(trace["marker"]["color"], trace["x"].tolist()) for trace in points[:3]] == [
        (TASK_COLOURS[0], [1.0, 8.0]),
        (TASK_COLOURS[1], [2.0, 9.0]),
        (TASK_COLOURS[2], [3.0]),
    ]
    lines = figures(data, {})["data"][first_best_line(data, classes=[]) :]
    assert [line["line"]["color"] for line in lines] == [task_colour(code) for code in range(9)]
