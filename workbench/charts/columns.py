"""Trials as growing columns: what every chart over trials computes from, for a hundred thousand of them too."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workbench.records.trial import FAILURES, OK, UNMEASURED
from workbench.records.trial_point import TrialPoint

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

STATUSES = (OK, UNMEASURED, *FAILURES)
"""Statuses by their code in the column ``status``; a status that nobody here knows has the code -1."""

OK_CODE = STATUSES.index(OK)
_LONGEST_GAP_S = 60.0
"""Between two trials at most so much time counts as search: what is longer was a pause, a night, or a clock that was set."""

_COLUMNS = np.dtype(
    [("task", "i4"), ("number", "i8"), ("status", "i1"), ("conditions", "i4"), ("time_us", "f8"), ("elapsed_s", "f8"), ("is_baseline", "?")]
)


@dataclass
class TaskCourse:
    """How the best of one task came about, under the conditions of its newest trials.

    Attributes:
        conditions: Code of those conditions.
        baseline_us: Time of the untuned kernel under them; None while it has none.
        rows: Rows of the trials that were better than all before, in order.
        best_us: Their times, falling.
        last: Row of its newest trial.
    """

    conditions: int
    baseline_us: float | None = None
    rows: list[int] = field(default_factory=list)
    best_us: list[float] = field(default_factory=list)
    last: int = 0

    @property
    def reference_us(self) -> float | None:
        """What the task's times are compared with: the untuned kernel's, or the first that was measured where that one failed."""
        return self.baseline_us if self.baseline_us is not None else next(iter(self.best_us), None)


class TrialColumns:
    """All trials of a session in the order in which they were stored.

    Attributes:
        tasks: Identifiers of the tasks by their code in the column ``task``.
        courses: How the best of each task came about, by its code.
        statuses: Statuses that any trial has.
        epoch: Grows when new trials change what earlier points mean: a task that is measured under other conditions, or gets its baseline late.
    """

    def __init__(self) -> None:
        self.tasks: list[str] = []
        self.courses: list[TaskCourse] = []
        self.statuses: set[str] = set()
        self.epoch = 0
        self._codes: dict[str, int] = {}
        self._conditions: dict[str, int] = {}
        self._data = np.zeros(1024, dtype=_COLUMNS)
        self._size = 0
        self._last_at = 0.0

    def __len__(self) -> int:
        return self._size

    def column(self, name: str, start: int = 0) -> NDArray[Any]:
        """One column from a row on; a view that is not to be written to."""
        return self._data[name][start : self._size]

    def code(self, task: str) -> int | None:
        """Code of a task; None if it has no trials."""
        return self._codes.get(task)

    def place(self, row: int) -> tuple[str, int]:
        """Task and number of the trial in a row."""
        return self.tasks[self._data["task"][row]], int(self._data["number"][row])

    def is_comparable(self, start: int = 0) -> NDArray[np.bool_]:
        """For each row from `start` on, whether it was measured under the conditions of its task's newest trials."""
        current = np.array([course.conditions for course in self.courses], dtype=np.int32)
        comparable: NDArray[np.bool_] = np.equal(self.column("conditions", start), current[self.column("task", start)])
        return comparable

    def extend(self, points: Sequence[TrialPoint]) -> None:
        """Append trials."""
        first = self._size
        self._reserve(first + len(points))
        new = self._data[first : first + len(points)]
        new["task"] = [self._task_code(point) for point in points]
        new["number"] = [point.number for point in points]
        new["status"] = [_STATUS_CODES.get(point.status, -1) for point in points]
        new["conditions"] = [self._conditions.setdefault(point.conditions, len(self._conditions)) for point in points]
        new["time_us"] = [np.nan if point.time_us is None else point.time_us for point in points]
        new["is_baseline"] = [point.origin == "baseline" for point in points]
        new["elapsed_s"] = self._elapsed(first, points)
        self._size = first + len(points)
        self.statuses.update(point.status for point in points)
        for row, point in enumerate(points, start=first):
            self._follow(row, point)

    def _reserve(self, size: int) -> None:
        if size > len(self._data):
            grown = np.zeros(max(size, 2 * len(self._data)), dtype=_COLUMNS)
            grown[: self._size] = self._data[: self._size]
            self._data = grown

    def _task_code(self, point: TrialPoint) -> int:
        code = self._codes.get(point.task)
        if code is None:
            code = self._codes[point.task] = len(self.tasks)
            self.tasks.append(point.task)
            self.courses.append(TaskCourse(self._conditions.setdefault(point.conditions, len(self._conditions))))
        return code

    def _elapsed(self, first: int, points: Sequence[TrialPoint]) -> Floats:
        """Seconds of search at each trial: gaps between searches do not count, and time never runs backwards."""
        if not points:
            return np.zeros(0)
        at = np.array([self._last_at if first else points[0].measured_at, *(point.measured_at for point in points)])
        self._last_at = float(at[-1])
        before = float(self._data["elapsed_s"][first - 1]) if first else 0.0
        return before + np.cumsum(np.clip(np.diff(at), 0.0, _LONGEST_GAP_S))

    def _follow(self, row: int, point: TrialPoint) -> None:
        """Take note of a trial in the course of its task."""
        if point.status == UNMEASURED:
            return
        code = self._codes[point.task]
        course, conditions = self.courses[code], self._conditions[point.conditions]
        if course.conditions != conditions:
            course = self.courses[code] = TaskCourse(conditions)
            self.epoch += 1
        course.last = row
        if point.time_us is None or point.time_us <= 0:
            return
        if point.origin == "baseline":
            self.epoch += bool(course.rows)
            course.baseline_us = point.time_us
        if not course.best_us or point.time_us < course.best_us[-1]:
            course.rows.append(row)
            course.best_us.append(point.time_us)


_STATUS_CODES = {status: code for code, status in enumerate(STATUSES)}
