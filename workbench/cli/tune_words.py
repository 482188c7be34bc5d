"""Says in words how a running search stands: what both a live table and plain lines tell; it keeps no figures and prints nothing."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.cli import formats
from workbench.cli.tune_figures import gain
from workbench.cli.tune_state import Snapshot
from workbench.records.tuning import ENDED, WAITING, TaskProgress
from workbench.report.figures_text import plural

_LINE_S = 5.0
_LINE_WHILE_WAITING_S = 30.0
_SHORT = {
    "build_error": "build",
    "build_timeout": "build timeout",
    "run_error": "run",
    "run_timeout": "run timeout",
    "wrong_result": "wrong",
    "rejected": "rejected",
    "device_lost": "device lost",
}


def standing(snapshot: Snapshot) -> list[str]:
    """Where the whole search stands, in a few sentences."""
    if snapshot.waits_for:
        return [f"waiting for {snapshot.waits_for} to end, {duration(snapshot.seconds)} so far"]
    if not snapshot.is_begun:
        return [f"{snapshot.doing or 'starting the worker'}; {duration(snapshot.seconds)} spent"]
    trials = plural(snapshot.trials, "trial") if snapshot.trials_limit is None else f"{snapshot.trials:,} of {plural(snapshot.trials_limit, 'trial')}"
    rate = "" if snapshot.rate is None else f", {snapshot.rate:.2g} a second"
    unknown = "estimating the time left" if snapshot.is_estimating else "time left unknown"
    left = unknown if snapshot.left_s is None else f"{duration(snapshot.left_s)} left"
    sentences = [f"{trials}{rate}; {duration(snapshot.seconds)} spent, {left}"]
    doing = snapshot.doing or "starting the worker"
    sentences.append(doing if snapshot.silent_s is None else f"no trial for {duration(snapshot.silent_s)}: {doing}")
    if snapshot.model_us is not None and snapshot.forecast_us is not None and snapshot.forecast_us > 0:
        speedup = snapshot.model_us / snapshot.forecast_us
        sentences.append(
            f"forecast of the model: {formats.microseconds(snapshot.model_us)} to {formats.microseconds(snapshot.forecast_us)} us ({speedup:.2f}x)"
        )
    return sentences


class PlainLines:
    """What to say of a search where nothing can be drawn: each task's start and end, failed first batches, and how it stands now and then."""

    def __init__(self) -> None:
        self._states: dict[str, str] = {}
        self._waited_for = ""
        self._told_batches = 0
        self._last_s = 0.0

    def of(self, snapshot: Snapshot) -> list[str]:
        """The lines to say now."""
        lines = []
        for task in snapshot.tasks:
            before = self._states.get(task.task, WAITING)
            if task.state not in (before, WAITING):
                if before == WAITING:
                    lines.append(f"{task.name}: begins")
                if task.state in ENDED:
                    lines.append(_end(task))
            self._states[task.task] = task.state
        lines += snapshot.failed_batches[self._told_batches :]
        self._told_batches = len(snapshot.failed_batches)
        if snapshot.waits_for != self._waited_for:  # and the time begins anew when the wait is over
            self._waited_for, self._last_s = snapshot.waits_for, 0.0
            lines += standing(snapshot) if snapshot.waits_for else []
        if not lines and snapshot.seconds - self._last_s >= (_LINE_WHILE_WAITING_S if snapshot.waits_for else _LINE_S):
            lines.append("; ".join(standing(snapshot)))
        if lines:
            self._last_s = snapshot.seconds
        return lines


def duration(seconds: float) -> str:
    """A time in whole seconds, or minutes and hours: ``34 s``, ``2 min 05 s``, ``3 h 10 min``."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    return f"{whole // 60} min {whole % 60:02} s" if whole < 3600 else f"{whole // 3600} h {whole % 3600 // 60:02} min"


def short_errors(errors: Mapping[str, int]) -> str:
    """Failed trials by class: ``12 build, 1 wrong``."""
    return ", ".join(f"{number} {_SHORT.get(name, name)}" for name, number in sorted(errors.items(), key=lambda item: -item[1]))


def _end(task: TaskProgress) -> str:
    before_us, now_us = task.before_and_now_us
    faster = gain(task) if task.dry_run is None else None  # the times are those of earlier searches then
    errors = task.errors if task.dry_run is None else task.dry_run.failures
    course = f", {formats.microseconds(before_us)} to {formats.microseconds(now_us)} us ({faster:.2f}x)" if faster is not None else ""
    failed = f", failed: {short_errors(errors)}" if errors else ""
    return f"{task.name}: {task.state} after {plural(task.trials, 'trial')}{course}{failed}: {task.stopped_because}"
