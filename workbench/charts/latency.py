"""The latency of each trial: what the main chart of a search shows, for one task in microseconds or for all in relation to their baselines."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from workbench.charts.buckets import View, in_view, occupied
from workbench.charts.columns import OK_CODE, STATUSES, Floats, Integers, TrialColumns
from workbench.records.trial import FAILURES

MOST_POINTS = 3_000
"""Points that are drawn of all measured trials; more are not told apart on a screen."""

_MOST_MARKS = 600


@dataclass(frozen=True)
class Points:
    """Some trials.

    Attributes:
        x: Number of the trial in its task; of all tasks, in the session from 1.
        y: Its time in microseconds; of all tasks, divided by the untuned kernel's.
        task: Code of its task.
    """

    x: Floats
    y: Floats
    task: Integers

    def __len__(self) -> int:
        return len(self.x)

    def at(self, places: Integers) -> Points:
        """Those in some places."""
        return Points(self.x[places], self.y[places], self.task[places])


@dataclass(frozen=True)
class BestLine:
    """The best time so far of one task: a point for each trial that was better than all before; it holds until `end`."""

    task: int
    x: Floats
    y: Floats
    end: float


@dataclass(frozen=True)
class Latency:
    """What the chart shows, or what comes to it.

    Attributes:
        task: The task; None for all.
        measured: Trials that are right and have a time.
        elsewhere: Those that were measured under other conditions, which no best counts.
        failures: The failed ones by status; their y says nothing.
        best: The best so far; of all tasks, a line for each.
        baseline: Where the untuned kernel lies; None while that is unknown.
    """

    task: str | None
    measured: Points
    elsewhere: Points
    failures: Mapping[str, Points]
    best: tuple[BestLine, ...]
    baseline: float | None


def latency(columns: TrialColumns, task: str | None, *, start: int = 0) -> Latency:
    """The chart of one task or of all, of the trials from row `start` on; the best lines are whole."""
    code = None if task is None else columns.code(task)
    if task is not None and code is None:
        return Latency(task, _NONE, _NONE, {}, (), None)
    rows = np.arange(start, len(columns))
    if code is not None:
        rows = rows[columns.column("task", start) == code]
    points = _points(columns, rows, relative=code is None)
    status = columns.column("status")[rows]
    comparable = columns.is_comparable(start)[rows - start] if len(rows) else np.zeros(0, dtype=bool)
    shown = (status == OK_CODE) & np.isfinite(points.y) & (points.y > 0)
    failures = {name: points.at(np.flatnonzero(status == STATUSES.index(name))) for name in FAILURES}
    return Latency(
        task=task,
        measured=points.at(np.flatnonzero(shown & comparable)),
        elsewhere=points.at(np.flatnonzero(shown & ~comparable)),
        failures={name: found for name, found in failures.items() if len(found)},
        best=_best(columns, code),
        baseline=(1.0 if columns.courses else None) if code is None else columns.courses[code].baseline_us,
    )


def reduced(data: Latency, *, view: View | None = None, most: int = MOST_POINTS) -> Latency:
    """The same with as few points as a screen can show: each stretch keeps its fastest, slowest and last trial, and each failure its mark."""
    measured, elsewhere = data.measured, data.elsewhere
    return Latency(
        task=data.task,
        measured=measured.at(in_view(measured.x, measured.y, most, view)),
        elsewhere=elsewhere.at(in_view(elsewhere.x, elsewhere.y, most // 2, view)),
        failures={name: points.at(_marks(points.x, view)) for name, points in data.failures.items()},
        best=data.best,
        baseline=data.baseline,
    )


def _marks(x: Floats, view: View | None) -> Integers:
    if view is None:
        return occupied(x, _MOST_MARKS)
    inside = np.flatnonzero((x >= view[0]) & (x <= view[1]))
    return np.union1d(occupied(x, _MOST_MARKS), inside[occupied(x[inside], _MOST_MARKS)])


def _points(columns: TrialColumns, rows: Integers, *, relative: bool) -> Points:
    tasks = columns.column("task")[rows]
    times = columns.column("time_us")[rows]
    if not relative:
        return Points(columns.column("number")[rows].astype(float), times, tasks)
    reference = np.array([course.reference_us or np.nan for course in columns.courses], dtype=float)
    return Points((rows + 1).astype(float), times / reference[tasks] if len(rows) else times, tasks)


def _best(columns: TrialColumns, code: int | None) -> tuple[BestLine, ...]:
    numbers, lines = columns.column("number"), []
    for task, course in enumerate(columns.courses):
        if code not in (None, task) or not course.rows:
            continue
        rows = np.array(course.rows)
        if code is None:
            lines.append(BestLine(task, (rows + 1).astype(float), np.array(course.best_us) / (course.reference_us or 1.0), float(len(columns))))
        else:
            lines.append(BestLine(task, numbers[rows].astype(float), np.array(course.best_us), float(numbers[course.last])))
    return tuple(lines)


_NONE = Points(np.zeros(0), np.zeros(0), np.zeros(0, dtype=np.int64))
