"""The forecast of a whole model: Amdahl's law, with values worked out by hand."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from workbench.analysis.forecast import TunedPart, forecast_us, model_forecast_us
from workbench.records.tuning import FASTER, NOT_FASTER, Final, TaskProgress


def part(rows_us: float, before_us: float, now_us: float, calls: int = 1) -> TunedPart:
    return TunedPart(rows_us, calls, before_us, now_us)


@pytest.mark.parametrize(
    ("total_us", "rows_us", "parts", "forecast"),
    [
        (100.0, 100.0, [], 100.0),
        # Amdahl: 60 % of the time gets 2, 3 times as fast
        (100.0, 100.0, [part(60.0, 60.0, 30.0)], 100.0 * (0.4 + 0.6 / 2)),
        (100.0, 100.0, [part(60.0, 60.0, 20.0)], 100.0 * (0.4 + 0.6 / 3)),
        # each of three calls saves 10 us
        (100.0, 100.0, [part(60.0, 20.0, 10.0, calls=3)], 70.0),
        # two kernels
        (100.0, 100.0, [part(60.0, 60.0, 30.0), part(30.0, 30.0, 10.0)], 100.0 - 30.0 - 20.0),
        # alone, two calls take 40 us, and within the model 60: they save what they save alone
        (100.0, 100.0, [part(60.0, 20.0, 10.0, calls=2)], 80.0),
        # alone they take 200 us, and within the model 60: they save half of 60
        (100.0, 100.0, [part(60.0, 100.0, 50.0, calls=2)], 70.0),
        # a model of one kernel whose row takes more than a whole run: it gains what the kernel gains, twice
        (80.0, 100.0, [part(100.0, 100.0, 50.0)], 40.0),
        # rows sum to twice the whole: each is worth half of what it says
        (100.0, 200.0, [part(160.0, 160.0, 40.0), part(20.0, 20.0, 10.0)], 100.0 - 80.0 * 0.75 - 10.0 * 0.5),
        # whole runs spend time between the rows too, which stays
        (120.0, 100.0, [part(100.0, 100.0, 1.0)], 120.0 - 99.0),
        # what got slower is not used
        (100.0, 100.0, [part(60.0, 10.0, 20.0)], 100.0),
        (100.0, 0.0, [part(0.0, 10.0, 5.0)], 100.0),
    ],
)
def test_the_model_gains_what_its_kernels_save(total_us: float, rows_us: float, parts: list[TunedPart], forecast: float) -> None:
    assert forecast_us(total_us, rows_us, parts) == pytest.approx(forecast)


def test_a_forecast_never_falls_below_the_rest_nor_gains_more_than_the_best_kernel() -> None:
    source = random.Random(1)
    for _ in range(500):
        shares = [source.uniform(0.1, 1.0) for _ in range(source.randint(1, 6))]
        total_us, rows_us = source.uniform(1.0, 1000.0), source.uniform(1.0, 1000.0)
        tuned = shares[: source.randint(1, len(shares))]
        rows = [rows_us * share / sum(shares) for share in tuned]
        parts = [part(row, before := source.uniform(0.1, 500.0), before / source.uniform(1.01, 20.0), source.randint(1, 5)) for row in rows]
        forecast = forecast_us(total_us, rows_us, parts)
        rest_us = total_us - sum(rows) * min(1.0, total_us / rows_us)
        assert rest_us * (1.0 - 1e-9) - 1e-9 <= forecast <= total_us
        assert total_us / forecast <= max(one.before_us / one.now_us for one in parts) * (1.0 + 1e-9)


def searched(task: Any, before_us: float | None, now_us: float | None, **changes: Any) -> TaskProgress:
    return replace(TaskProgress(task.task, task.name, task.weight, baseline_us=before_us, best_us=now_us), **changes)


def test_the_forecast_of_a_profile_takes_the_times_of_the_last_measurement_or_else_of_the_search(sessions: Any) -> None:
    profile = sessions.profile(["conv2d", "dense", "conv2d"])  # rows of 100, 50 and 33.3 us, 1000 us in all
    conv2d, dense = profile.tasks
    assert model_forecast_us(profile, []) == 1000.0
    assert model_forecast_us(profile, [searched(conv2d, 60.0, 30.0)]) == pytest.approx(1000.0 - 2 * 30.0)
    final = Final(3, 60.0, 0.1, 20.0, 0.1, 3, 11, FASTER, "")
    assert model_forecast_us(profile, [searched(conv2d, 60.0, 30.0, final=final)]) == pytest.approx(1000.0 - 2 * 40.0)
    kept = replace(final, verdict=NOT_FASTER, winner=0)
    assert model_forecast_us(profile, [searched(conv2d, 60.0, 30.0, final=kept)]) == 1000.0
    both = [searched(conv2d, 60.0, 30.0), searched(dense, 40.0, 10.0)]
    assert model_forecast_us(profile, both) == pytest.approx(1000.0 - 60.0 - 30.0)


def test_what_was_not_measured_or_is_no_task_of_the_profile_changes_nothing(sessions: Any) -> None:
    profile = sessions.profile(["conv2d", "dense"])
    stranger = TaskProgress("elsewhere", "elsewhere", 5, baseline_us=50.0, best_us=1.0)
    unmeasured = [searched(profile.tasks[0], None, None), searched(profile.tasks[0], 10.0, None), searched(profile.tasks[0], None, 10.0)]
    assert model_forecast_us(profile, [stranger, *unmeasured]) == 1000.0
    for changes in ({"total_us": None}, {"rows_us": None}):
        assert model_forecast_us(replace(profile, **changes), [searched(profile.tasks[0], 50.0, 10.0)]) is None
