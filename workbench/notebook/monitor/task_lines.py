"""The lines of the tasks in a monitor: what each one shows, and which of them changed."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from workbench.charts.columns import TrialColumns
from workbench.charts.palette import task_colour
from workbench.escaping import plain
from workbench.notebook.monitor.feed import IDLE, Standing
from workbench.records.profile import Profile, Task
from workbench.records.tuning import DROPPED, SEARCHING, WAITING, TaskProgress

_SAMPLES = 24
_MOST_NAME = 80
_MOST_TEXT = 300

Line = dict[str, Any]


def task_lines(profile: Profile, standing: Standing, columns: TrialColumns) -> dict[str, Line]:
    """One line for each task that can be tuned, by its identifier, the hottest first."""
    progress = {task.task: task for task in standing.tasks}
    per_task = None if standing.request is None else standing.request.budget.per_task
    budgets = {} if standing.selection is None else {item.task: item.trials for item in standing.selection.tasks}
    ticked = ticked_tasks(standing)
    tasks = sorted((task for task in profile.tasks if not task.untunable), key=lambda task: -(task.time_us or 0.0))
    return {
        task.task: {"ticked": task.task in ticked, **_line(task, progress.get(task.task), columns, per_task=per_task, budget=budgets.get(task.task))}
        for task in tasks
    }


def ticked_tasks(standing: Standing) -> set[str]:
    """The tasks that are searched, or that are selected while no search runs."""
    selected = set() if standing.selection is None else {item.task for item in standing.selection.tasks}
    if standing.state == IDLE or standing.request is None:
        return selected
    asked = {item.task for item in standing.request.tasks}
    states = {task.task: task.state for task in standing.tasks}
    return {task for task in asked | set(states) if states.get(task, WAITING) in (WAITING, SEARCHING) or (task in asked and states[task] != DROPPED)}


def changed(before: Mapping[str, Line], now: Mapping[str, Line]) -> list[Line]:
    """The lines that are new or other than before."""
    return [line for task, line in now.items() if before.get(task) != line]


def errors(tasks: Iterable[TaskProgress]) -> list[dict[str, Any]]:
    """Failures by class over all tasks, the most frequent first, with the first full text of each."""
    found: dict[str, dict[str, Any]] = {}
    for task in tasks:
        for name in [*task.errors, *task.first_errors]:
            entry = found.setdefault(name, {"class": plain(name, 40), "count": 0, "task": "", "text": ""})
            if not entry["text"]:
                entry.update(task=plain(task.name, _MOST_NAME), text=_lines(task.first_errors.get(name, "")))
        for name, number in task.errors.items():
            found[name]["count"] += number
    return sorted(found.values(), key=lambda entry: -entry["count"])


def _line(task: Task, progress: TaskProgress | None, columns: TrialColumns, *, per_task: int | None, budget: int | None) -> Line:
    line: Line = {
        "task": task.task,
        "name": plain(task.name, _MOST_NAME),
        "ops": plain(", ".join(task.ops), _MOST_NAME),
        "share": None if task.time_percent is None else round(task.time_percent, 2),
        "state": "",
        "colour": None if (code := columns.code(task.task)) is None else task_colour(code),
        "trials": 0,
        "budget": budget,
        "limit": budget if budget is not None else per_task,
    }
    if progress is None:
        return line
    before, now = progress.before_and_now_us
    own = progress.budget_trials
    return {
        **line,
        "state": plain(progress.state, 20),
        "why": plain(progress.stopped_because, _MOST_TEXT),
        "verdict": "" if progress.final is None else plain(progress.final.why, _MOST_TEXT),
        "before_us": before,
        "now_us": now,
        "gain": None if not before or not now else round(before / now, 4),
        "trials": progress.trials,
        "failed": sum(progress.errors.values()),
        "budget": own if own is not None else budget,
        "limit": own if own is not None else per_task,
        "spark": _spark(columns, task.task),
    }


def _spark(columns: TrialColumns, task: str) -> list[int]:
    """The best time so far at equal steps of the trials, on a log scale from 0 (the best) to 100 (the baseline); empty without a course."""
    code = columns.code(task)
    course = None if code is None else columns.courses[code]
    if course is None or not course.rows:
        return []
    numbers = columns.column("number")
    places = np.linspace(numbers[course.rows[0]], numbers[course.last], _SAMPLES)
    steps = np.searchsorted(numbers[course.rows], places, side="right") - 1
    logs = np.log(np.array(course.best_us))[np.maximum(steps, 0)]
    top, bottom = max(math.log(course.reference_us or 1.0), float(logs.max())), float(logs.min())
    return [round(100 * (value - bottom) / (top - bottom)) if top > bottom else 100 for value in logs]


def _lines(text: str) -> str:
    """A text of many lines that is safe to show."""
    return "\n".join(plain(line.expandtabs(), 2000) for line in text.splitlines()[:400])
