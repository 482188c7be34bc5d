"""A session made of plain records for a monitor, the same in unit tests, in a notebook's kernel, and in benchmarks."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tests.unit.chart_points import point
from workbench.errors import SessionError
from workbench.machine import read_machine
from workbench.notebook.monitor.feed import MOST_AT_ONCE, SEARCHING, Standing
from workbench.notebook.monitor.steering import Request
from workbench.records.old_search import LatencyPoint
from workbench.records.profile import Profile, Task
from workbench.records.request import ModelSource, ProfileRequest
from workbench.records.trial import BUILD_ERROR, OK, RUN_TIMEOUT, WRONG_RESULT, MeasureOptions, Trial
from workbench.records.trial_point import TrialPoint
from workbench.records.tuning import FASTER, FINISHED, Final, SearchBudget, TaskProgress, TuneRequest
from workbench.selection import select
from workbench.session import SessionDirectory

HOSTILE = "<img src=x onerror=\"document.body.dataset.hacked='yes'\">"


@dataclass
class Course:
    """What the trials of one task amount to."""

    trials: int = 0
    best_us: float = 1000.0
    errors: dict[str, int] = field(default_factory=dict)

    def take(self, status: str, time_us: float | None) -> None:
        self.trials += 1
        if time_us is None:
            self.errors[status] = self.errors.get(status, 0) + 1
        else:
            self.best_us = min(self.best_us, time_us)


class FakeFeed:
    """A session of plain records.

    Attributes:
        points: Its trials.
        tasks: How far each task is.
        state: Whether a search runs.
        fault: What reading it raises; None if it can be read.
        pauses: When its search paused.
        curve: The latency of the model in an old search.
    """

    def __init__(self, profile: Profile) -> None:
        self._profile = profile
        self.points: list[TrialPoint] = []
        self.tasks: tuple[TaskProgress, ...] = ()
        self.state = SEARCHING
        self.fault: Exception | None = None
        self.pauses: tuple[tuple[float, float | None], ...] = ()
        self.curve: tuple[LatencyPoint, ...] = ()
        self._courses: dict[str, Course] = {}
        self.selection = select(profile, share=1.0)
        self.request = TuneRequest(self.selection.tasks, SearchBudget(per_task=64))

    def profile(self) -> Profile:
        return self._profile

    def old_curve(self) -> tuple[LatencyPoint, ...]:
        return self.curve

    def since(self, cursor: int) -> list[TrialPoint]:
        if self.fault is not None:
            raise self.fault
        return self.points[cursor : cursor + MOST_AT_ONCE]

    def standing(self) -> Standing:
        return Standing(self.state, "measuring", self.tasks, self.selection, self.request, 1000.0, self.pauses)

    def trial(self, task: str, number: int) -> Trial | None:
        found = next((item for item in self.points if (item.task, item.number) == (task, number)), None)
        if found is None:
            return None
        times = () if found.time_us is None else (found.time_us,)
        return Trial(
            *(task, number, found.status, "" if times else f"error\n{HOSTILE}", "f", found.origin, "here", times, 1, 0.0, 0.0, 0.0, None, 1.5, 0.0),
            decisions=("tile 1 4 7 2", "unroll 64", HOSTILE),
            options=MeasureOptions(),
        )

    def add(self, count: int, task: str = "", **changes: Any) -> None:
        """More trials of a task, each faster than the one before."""
        task = task or self._profile.tasks[0].task
        first = sum(item.task == task for item in self.points)
        for number in range(first, first + count):
            cursor = len(self.points) + 1
            values = {"task": task, "number": number, "origin": "baseline" if number == 0 else "search"} | changes
            self.points.append(point(cursor, 1000.0 / (1 + number), **values))

    def search(self, count: int, *, seed: int = 0) -> None:
        """Trials as a search makes them: the tasks in rounds of 16, ever fewer that are better, one in ten failed."""
        random = np.random.default_rng(seed + len(self.points))
        tasks = [task for task in self._profile.tasks if not task.untunable]
        for _ in range(count):
            cursor = len(self.points) + 1
            task = tasks[(cursor // 16) % len(tasks)].task
            course = self._courses.setdefault(task, Course())
            failed = course.trials > 0 and random.random() < 0.1
            status = str(random.choice([BUILD_ERROR, RUN_TIMEOUT, WRONG_RESULT])) if failed else OK
            floor = 1000.0 * (0.15 + 0.85 / (1 + 0.08 * course.trials))
            time_us = None if failed else floor * float(random.lognormal(0.25, 0.3)) if course.trials else 1000.0
            origin = "search" if course.trials else "baseline"
            at = 1000.0 + cursor * 0.2
            self.points.append(point(cursor, time_us, task=task, number=course.trials, status=status, origin=origin, measured_at=at))
            course.take(status, time_us)
        self.tasks = tuple(self._progress(place, task) for place, task in enumerate(tasks) if task.task in self._courses)

    def _progress(self, place: int, task: Task) -> TaskProgress:
        course = self._courses[task.task]
        final = None
        if place == 0:
            final = Final(3, 1000.0, 5.0, course.best_us, 2.0, 3, 11, FASTER, f"{1000.0 / course.best_us:.2f}x +- 0.02 as fast")
        state = (FINISHED, "its trials are used up") if final else ("searching", "")
        return TaskProgress(
            *(task.task, task.name, task.weight, *state, 10_000, course.trials),
            errors=dict(course.errors),
            first_errors={status: f"Traceback (most recent call last):\n  File, line 3\n{status} {HOSTILE}" for status in course.errors},
            baseline_us=1000.0,
            best=3,
            best_us=course.best_us,
            final=final,
        )


def session_of(feed: FakeFeed, path: Path) -> SessionDirectory:
    """A session directory with the trials of a feed."""
    profile, directory = feed.profile(), SessionDirectory.create(path)
    hashes = {row.kernel: f"hash of {row.kernel}" for row in profile.rows if row.kernel is not None}
    request = ProfileRequest(ModelSource(kind="workload", name="net", workload="matmul"), target="cpu", threads=2)
    entry = {"request": feed.request.to_dict(), "conditions": "here", "started_at": "2026-11-30T00:00:00+00:00"}
    tasks = {task.task: task for task in feed.tasks}
    with directory.store() as store:
        manifest = {"state": "ready", "profile_id": "1", "request": request.to_dict(), "search": entry, "machine": read_machine().to_dict()}
        store.write_profile(profile, hashes, manifest)
        store.write_selection(feed.selection)
        for item in feed.points:
            trial = feed.trial(item.task, item.number)
            if trial is not None:
                store.trials.add(replace(trial, measured_at=item.measured_at), "[[], []]" if trial.times_us else "", tasks[item.task])
    return directory


class Recorded:
    """What was asked of a search, in order; ``stop`` cannot be done."""

    def __init__(self) -> None:
        self.requests: list[Request] = []

    def __call__(self, request: Request, /) -> None:
        self.requests.append(request)
        if request.kind == "stop":
            raise SessionError("The search is just ending.", "Start it again with --resume.")
