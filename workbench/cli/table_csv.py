"""Owns rows and tasks as CSV: the old debug runtime's columns first, safe to open in a spreadsheet."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable

from workbench.cli.formats import remarks
from workbench.escaping import cell
from workbench.records.profile import DEBUG_RUNTIME_COLUMNS, Profile, Row, Task

ROW_COLUMNS = (
    *DEBUG_RUNTIME_COLUMNS.values(),
    *("Row", "Dtype", "Time IQR(us)", "FLOP", "GFLOP/s", "Origins", "Kernel", "Task", "Untunable", "NaN", "Inf", "Notes"),
)
TASK_COLUMNS = (
    *("Task", "Name", "Ops", "Kernels", "Weight", "Rows", DEBUG_RUNTIME_COLUMNS["time_us"], DEBUG_RUNTIME_COLUMNS["time_percent"]),
    *("FLOP", "Space Size", "Shapes", "Untunable", "Notes"),
)

_Value = str | int | float | None


def profile_csv(profile: Profile) -> str:
    """All rows in execution order, each with the profile's notes; an unknown value is an empty cell."""
    return _csv(ROW_COLUMNS, (_row(row) for row in profile.rows), notes=remarks(profile))


def tasks_csv(profile: Profile) -> str:
    """All tasks in order of their first row, each with the profile's notes; an unknown value is an empty cell."""
    return _csv(TASK_COLUMNS, (_task(task) for task in profile.tasks), notes=remarks(profile))


def _csv(columns: tuple[str, ...], lines: Iterable[tuple[_Value, ...]], *, notes: list[str]) -> str:
    """A heading and the lines; the notes are the last cell of each line, so that any reader of CSV can read the rest."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    last = cell("; ".join(notes))
    writer.writerows([*(cell(value) if isinstance(value, str) else value for value in line), last] for line in lines)
    return text.getvalue()


def _row(row: Row) -> tuple[_Value, ...]:
    return (
        *(row.node_name, ", ".join(row.ops), row.time_us, row.time_percent, row.shape, row.inputs, row.outputs),
        *(row.row, row.dtype, row.time_us_iqr, row.flop, row.gflops, "; ".join(map(str, row.origins)), row.kernel, row.task),
        *(row.untunable, row.nan_count, row.inf_count),
    )


def _task(task: Task) -> tuple[_Value, ...]:
    return (
        *(task.task, task.name, ", ".join(task.ops), ", ".join(task.kernels), task.weight, ", ".join(map(str, task.rows))),
        *(task.time_us, task.time_percent, task.flop, task.space_size, "; ".join(task.shapes), task.untunable),
    )
