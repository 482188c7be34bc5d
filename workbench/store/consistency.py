"""Whether what is stored makes sense: rows and tasks that fit together, and trials that a search can have written."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from workbench.records.profile import Profile
from workbench.records.trial import FAILURES, OK, UNMEASURED, Trial
from workbench.records.tuning import ENDED, FASTER, NOT_FASTER, SEARCHING, WAITING, TaskProgress

_LARGEST = 2**63 - 1
_STATUSES = (OK, UNMEASURED, *FAILURES)
_STATES = (WAITING, SEARCHING, *ENDED)
_VERDICTS = (FASTER, NOT_FASTER)


def check_links(profile: Profile) -> None:
    """Raise ValueError unless rows and tasks name each other as readers rely on."""
    kernel_rows = profile.kernel_rows
    named_by_tasks = [(row, task.task) for task in profile.tasks for row in task.rows]
    problems: tuple[tuple[str, Callable[[], bool]], ...] = (
        ("the rows are not numbered from 0", lambda: [row.row for row in profile.rows] == list(range(len(profile.rows)))),
        ("a row without a kernel stands between others", lambda: all(row.kernel is not None for row in profile.rows[: len(kernel_rows)])),
        ("a row without a kernel names a task", lambda: all(row.task is None for row in profile.rows[len(kernel_rows) :])),
        ("rows and tasks do not name each other", lambda: sorted(named_by_tasks) == [(row.row, row.task) for row in kernel_rows]),
        ("two tasks share an identifier", lambda: len({task.task for task in profile.tasks}) == len(profile.tasks)),
        ("the weight of a task is not the number of its rows", lambda: all(task.weight == len(task.rows) for task in profile.tasks)),
    )
    for problem, holds in problems:
        if not holds():
            raise ValueError(problem)


def check_trial(trial: Trial, *, task: object, number: object) -> None:
    """Raise ValueError unless a search can have written a trial in the place where it was found.

    Args:
        trial: The trial.
        task: The task that its place says.
        number: The number that its place says.
    """
    if (trial.task, trial.number) != (task, number):
        raise ValueError("a trial says another task or number of itself than its place does")
    if trial.status not in _STATUSES:
        raise ValueError(f"a trial has the unknown status {trial.status}")
    if trial.status == OK and not trial.times_us:
        raise ValueError("a trial that is ok has no times")
    _check_times([*trial.times_us, trial.best_us])
    _check_counts(trial)


def check_progress(progress: TaskProgress, *, task: object) -> None:
    """Raise ValueError unless a search can have written how far a task is, for the task that its place says."""
    if progress.task != task:
        raise ValueError("the progress of a task says another task than its place does")
    if progress.state not in _STATES:
        raise ValueError(f"a task has the unknown state {progress.state}")
    final = progress.final
    if final is not None and final.verdict not in _VERDICTS:
        raise ValueError(f"a task has the unknown verdict {final.verdict}")
    _check_times([progress.baseline_us, progress.best_us, *(() if final is None else (final.baseline_us, final.winner_us))])
    _check_counts(dataclasses.replace(progress, space_size=None))  # of which there may be more than 64 bits tell


def _check_times(times_us: Iterable[float | None]) -> None:
    if any(time_us is not None and time_us <= 0 for time_us in times_us):
        raise ValueError("a time is 0 or less")


def _check_counts(record: Any) -> None:
    """Raise ValueError if a number is below 0, or a whole one beyond what 64 bits hold."""
    if any(number < 0 or (isinstance(number, int) and number > _LARGEST) for number in _numbers(vars(record).values())):
        raise ValueError("a number is below 0 or beyond 64 bits")


def _numbers(values: Iterable[Any]) -> Iterator[int | float]:
    """All numbers in the values of a record."""
    for value in values:
        if isinstance(value, int | float) and not isinstance(value, bool):
            yield value
        elif dataclasses.is_dataclass(value):
            yield from _numbers(vars(value).values())
        elif isinstance(value, dict):
            yield from _numbers(value.values())
        elif isinstance(value, tuple | list):
            yield from _numbers(value)
