"""Whether the rows and tasks of a stored profile fit together, which each of them alone cannot say."""

from __future__ import annotations

from collections.abc import Callable

from workbench.records.profile import Profile


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
