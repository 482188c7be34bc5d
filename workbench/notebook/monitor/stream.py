"""What a monitor tells its page: a snapshot when a view opens, then what is new since, with the place where it begins."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from workbench.charts.buckets import View
from workbench.charts.columns import TrialColumns
from workbench.charts.figures import first_best_line, forecast_figure, latency_figure, latency_increment, pace_steps
from workbench.charts.forecast import Forecast, Pace, forecast, old_course, pace
from workbench.charts.latency import MOST_POINTS, BestLine, Latency, latency, reduced
from workbench.charts.palette import FAILURE_MARKS, template
from workbench.escaping import plain
from workbench.notebook.monitor.feed import MOST_AT_ONCE, Feed, Standing
from workbench.notebook.monitor.packing import Message, message
from workbench.notebook.monitor.steady_time import SteadyTime
from workbench.notebook.monitor.summary import summary
from workbench.notebook.monitor.task_lines import Line, changed, errors, task_lines, ticked_tasks
from workbench.records.old_search import LatencyPoint
from workbench.records.profile import Profile

MOST_APPENDED = MOST_POINTS
"""Points that are added to a snapshot before another one, with fewer points, takes its place."""

_SUMMARY_S = 1.0
_MOST_DECISIONS = 40


@dataclass
class _Sent:
    """What the page has.

    Attributes:
        end: Trials that it knows of.
        epoch: Meaning of the earlier points when they were sent.
        shape: What the traces of the latency chart are: the classes of failure and the tasks with a line.
        best: Points of each best line.
        events: Points of the forecast.
        appended: Points added since the snapshot.
        lines: Lines of the tasks.
        errors: Failures by class.
        summary: How the search stands, and when that was told.
    """

    end: int = 0
    epoch: int = 0
    shape: tuple[tuple[str, ...], tuple[int, ...]] = ((), ())
    best: list[int] = field(default_factory=list)
    events: int = 0
    appended: int = 0
    lines: dict[str, Line] = field(default_factory=dict)
    errors: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    summary_at: float = 0.0


class Stream:
    """Reads a feed and makes messages; used by one thread at a time.

    Attributes:
        task: The task that the latency chart shows; empty for all.
        view: The part of its axis that is looked at; None for all of it.

    Args:
        feed: Where trials come from.
        clock: Unix time; none takes one that no jump of the machine's clock reaches.
    """

    def __init__(self, feed: Feed, *, clock: Callable[[], float] | None = None) -> None:
        self._feed = feed
        self._clock = clock or SteadyTime()
        self._columns = TrialColumns()
        self._cursor = 0
        self._generation = 0
        self._profile: Profile | None = None
        self._old_curve: tuple[LatencyPoint, ...] = ()
        self._standing: Standing | None = None
        self._sent: _Sent | None = None
        self.task = ""
        self.view: View | None = None

    @property
    def standing(self) -> Standing | None:
        """How the search stood when it was last read; None before."""
        return self._standing

    def ticked(self) -> list[str]:
        """The tasks that are searched, or selected while no search runs, the hottest first."""
        profile, standing = self._known()
        chosen = ticked_tasks(standing)
        return [task.task for task in sorted(profile.tasks, key=lambda task: -(task.time_us or 0.0)) if task.task in chosen]

    def read(self) -> None:
        """Take in what is new.

        Raises:
            WorkbenchError: The session cannot be read now.
        """
        if self._profile is None:
            self._old_curve, self._profile = self._feed.old_curve(), self._feed.profile()
        self._standing = self._feed.standing()  # before the trials: none that it counts is missing
        while points := self._feed.since(self._cursor):
            self._columns.extend(points)
            self._cursor = points[-1].cursor
            if len(points) < MOST_AT_ONCE:
                break

    def snapshot(self) -> Message:
        """All that a view shows; updates that were sent before mean nothing any more."""
        profile, standing = self._known()
        data = reduced(self._latency(0), view=self.view)
        shape = self._shape(data)
        names = {code: self._name(task) for code, task in enumerate(self._columns.tasks)}
        course, speed = self._course(profile), pace(self._columns)
        self._generation += 1
        self._sent = _Sent(
            end=len(self._columns),
            epoch=self._columns.epoch,
            shape=shape,
            best=[len(line.x) for line in data.best],
            events=len(course.model_us),
            lines=task_lines(profile, standing, self._columns),
            errors=errors(standing.tasks),
            summary=self._summary(speed),
            summary_at=self._clock(),
        )
        return message(
            "snapshot",
            {
                "generation": self._generation,
                "end": self._sent.end,
                "task": self.task,
                "latency": latency_figure(data, classes=shape[0], names=names),
                "forecast": forecast_figure(course, speed),
                "templates": {"light": template(dark=False), "dark": template(dark=True)},
                "lines": list(self._sent.lines.values()),
                "errors": self._sent.errors,
                "summary": self._sent.summary,
            },
        )

    def update(self) -> Message | None:
        """What is new since the last message; a snapshot if that is not only more points, or is the first; None if there is nothing."""
        sent = self._sent
        if sent is None:
            return self.snapshot()
        profile, standing = self._known()
        new = self._latency(sent.end)
        end = len(self._columns)
        if self._columns.epoch != sent.epoch or self._shape(new) != sent.shape or sent.appended + end - sent.end > MOST_APPENDED:
            return self.snapshot()
        course, speed = self._course(profile), pace(self._columns)
        content: dict[str, Any] = {}
        if end > sent.end:
            content = {"latency": _latency_part(new, sent), "forecast": _forecast_part(course, speed, sent)}
            sent.appended += end - sent.end
        lines = task_lines(profile, standing, self._columns)
        if found := changed(sent.lines, lines):
            content["lines"], sent.lines = found, lines
        if (found_errors := errors(standing.tasks)) != sent.errors:
            content["errors"] = sent.errors = found_errors
        told, now = self._summary(speed), self._clock()
        if told != sent.summary and (content or told["state"] != sent.summary["state"] or now - sent.summary_at >= _SUMMARY_S):
            content["summary"] = sent.summary = told
            sent.summary_at = now
        if not content:
            return None
        start, sent.end = sent.end, end
        return message("update", {"generation": self._generation, "start": start, "end": end, **content})

    def place(self, x: int) -> tuple[str, int] | None:
        """Task and number of the trial at a place of the latency chart's axis; None if there is none."""
        if self.task:
            return self.task, x
        return self._columns.place(x - 1) if 0 < x <= len(self._columns) else None

    def detail(self, x: int) -> Message:
        """What is told of a trial under the pointer."""
        place = self.place(x)
        trial = None if place is None else self._feed.trial(*place)
        if trial is None:
            return message("detail", {"x": x, "title": "", "facts": [], "decisions": []})
        facts = [plain(trial.status, 20), plain(trial.origin, 20)]
        if trial.error:
            facts.append(plain(trial.error.strip().splitlines()[-1] if trial.error.strip() else "", 200))
        decisions = [plain(text, 60) for text in trial.decisions[:_MOST_DECISIONS]]
        return message(
            "detail",
            {"x": x, "title": f"{self._name(trial.task)} #{trial.number}", "time_us": trial.time_us, "facts": facts, "decisions": decisions},
        )

    def _known(self) -> tuple[Profile, Standing]:
        if self._profile is None or self._standing is None:
            self.read()
        assert self._profile is not None  # noqa: S101 - `read` raises or sets both
        assert self._standing is not None  # noqa: S101 - the same
        return self._profile, self._standing

    def _course(self, profile: Profile) -> Forecast:
        """The model's latency over the search: of an imported one as its tuner told it, else the forecast."""
        told = old_course(self._old_curve)
        return told if len(told.model_us) else forecast(self._columns, profile)

    def _latency(self, start: int) -> Latency:
        return latency(self._columns, self.task or None, start=start)

    def _shape(self, data: Latency) -> tuple[tuple[str, ...], tuple[int, ...]]:
        """Which traces the latency chart has."""
        return tuple(name for name in FAILURE_MARKS if name in self._columns.statuses), tuple(line.task for line in data.best)

    def _name(self, task: str) -> str:
        """Name of a task's kernel."""
        tasks = () if self._profile is None else self._profile.tasks
        return plain(next((item.name for item in tasks if item.task == task), task), 60)

    def _summary(self, speed: Pace) -> dict[str, Any]:
        profile, standing = self._known()
        return summary(standing, profile, rate=speed.recent_per_s, now=self._clock())


def _latency_part(data: Latency, sent: _Sent) -> dict[str, Any]:
    """What comes to the latency chart."""
    first = first_best_line(data, classes=sent.shape[0])
    steps = {}
    for place, line in enumerate(data.best):
        if len(line.x) > sent.best[place]:
            steps[first + place] = _tail(line, sent.best[place])
            sent.best[place] = len(line.x)
    ends = {first + place: line.end for place, line in enumerate(data.best)}
    return {"append": latency_increment(data, classes=sent.shape[0]), "steps": steps, "ends": ends}


def _tail(line: BestLine, start: int) -> dict[str, Any]:
    return {"x": line.x[start:], "y": line.y[start:]}


def _forecast_part(course: Forecast, speed: Pace, sent: _Sent) -> dict[str, Any]:
    """What comes to the forecast; the pace is short and changes altogether."""
    steps = {0: {"x": course.elapsed_s[sent.events :], "y": course.model_us[sent.events :] / 1e3}} if len(course.model_us) > sent.events else {}
    sent.events = len(course.model_us)
    return {"steps": steps, "ends": {0: course.end_s}, "replace": {1: pace_steps(speed)}}
