"""The time of the whole model as the search goes on, and how fast it goes on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from workbench.analysis.forecast import TunedPart, forecast_us
from workbench.charts.columns import Floats, TrialColumns
from workbench.records.old_search import LatencyPoint
from workbench.records.profile import Profile

_MOST_STRETCHES = 60
_RECENT_S = 60.0
_LEAST_S = 1.0


@dataclass(frozen=True)
class Forecast:
    """The model's time over a search: the forecast after each trial that changed it, or what an old tuner estimated.

    Attributes:
        elapsed_s: Seconds of search, rising; pauses and nights between searches do not count.
        model_us: The model's time from then on; of a forecast, the first one is the time in the profile.
        total_us: The model's time in the profile; None if it was not measured, and then there is no forecast, but perhaps an old tuner's estimate.
        end_s: Seconds of search so far.
    """

    elapsed_s: Floats
    model_us: Floats
    total_us: float | None
    end_s: float


@dataclass(frozen=True)
class Pace:
    """Trials a second.

    Attributes:
        elapsed_s: Middle of each stretch of time.
        per_s: Trials a second in it.
        width_s: Length of a stretch.
        recent_per_s: Trials a second in the last minute of search; None before the second trial.
    """

    elapsed_s: Floats
    per_s: Floats
    width_s: float
    recent_per_s: float | None


def forecast(columns: TrialColumns, profile: Profile) -> Forecast:
    """The forecast over the time of search, by the formula that the command line uses."""
    elapsed = columns.column("elapsed_s")
    end = float(elapsed[-1]) if len(columns) else 0.0
    total, rows_us = profile.total_us, profile.rows_us
    if total is None or rows_us is None:
        return Forecast(np.zeros(0), np.zeros(0), None, end)
    tasks = {task.task: task for task in profile.tasks}
    events = sorted((row, code, best) for code, course in enumerate(columns.courses) for row, best in zip(course.rows, course.best_us, strict=True))
    saved: dict[int, float] = {}
    all_saved = 0.0
    at, model = [0.0], [total]
    for row, code, best in events:
        task, before = tasks.get(columns.tasks[code]), columns.courses[code].baseline_us
        if task is None or before is None:
            continue
        now = total - forecast_us(total, rows_us, [TunedPart(task.time_us or 0.0, task.weight, before, best)])
        all_saved += now - saved.get(code, 0.0)
        saved[code] = now
        at.append(float(elapsed[row]))
        model.append(max(total - all_saved, 0.0))
    return Forecast(np.array(at), np.array(model), total, end)


def old_course(curve: Sequence[LatencyPoint]) -> Forecast:
    """How the latency of the whole model fell in a search of old TVM, as its tuner estimated it then; empty before it could."""
    known = sorted((point.elapsed_s, point.latency_us) for point in curve if point.latency_us is not None)
    at, model = zip(*known, strict=True) if known else ((), ())
    end_s = max((point.elapsed_s for point in curve), default=0.0)
    return Forecast(np.array(at, dtype=float), np.array(model, dtype=float), None, end_s)


def pace(columns: TrialColumns) -> Pace:
    """Trials a second over the time of search."""
    elapsed = columns.column("elapsed_s")
    if not len(elapsed) or elapsed[-1] <= 0:
        return Pace(np.zeros(0), np.zeros(0), 0.0, None)
    end = float(elapsed[-1])
    stretches = int(min(max(end // _LEAST_S, 1), _MOST_STRETCHES))
    counts, edges = np.histogram(elapsed, bins=stretches, range=(0.0, end))
    width = end / stretches
    recent = min(end, _RECENT_S)
    in_recent = len(elapsed) - int(np.searchsorted(elapsed, end - recent, side="right"))
    return Pace((edges[:-1] + edges[1:]) / 2, counts / width, width, in_recent / recent)
