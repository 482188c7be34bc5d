"""The tasks of an imported session: the distinct functions of its rows, and the workloads of logs that belong to none of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from workbench.importing.logs import LogTask, task_identifier
from workbench.matching.structure import Structure
from workbench.records.old_search import ListedTask
from workbench.records.profile import Row, Task

UNTUNABLE = "imported: profile the model itself to tune it"


def row_tasks(
    rows: Sequence[Row], counts: Mapping[int, int], functions: Mapping[str, Structure], listed: Mapping[str, Sequence[ListedTask]]
) -> tuple[Task, ...]:
    """The tasks in order of their first rows.

    Args:
        rows: All rows.
        counts: How many calls each row stands for, by its number.
        functions: The program's functions by their identifiers, which are the tasks of matched rows.
        listed: What old tuners called them.
    """
    members: dict[str, list[Row]] = {}
    for row in rows:
        members.setdefault(str(row.task), []).append(row)
    return tuple(_task(task, group, counts, functions.get(task), tuple(listed.get(task, ()))) for task, group in members.items())


def log_owners(logs: Iterable[LogTask], functions: Sequence[Structure], tasks: Iterable[Task]) -> list[Task]:
    """For each workload of the logs its task: a row's if it is surely that one and no other log has it, else one of its own, without rows."""
    by_identifier = {task.task: task for task in tasks}
    taken: set[str] = set()
    owners = []
    for log in logs:
        task = by_identifier.get(functions[log.structure].identifier) if log.structure is not None else None
        if task is None or task.task in taken:
            task = _log_task(log)
        taken.add(task.task)
        owners.append(task)
    return owners


def _task(task: str, rows: Sequence[Row], counts: Mapping[int, int], function: Structure | None, listed: tuple[ListedTask, ...]) -> Task:
    timed = [row.time_us for row in rows if row.time_us is not None]
    percents = [row.time_percent for row in rows if row.time_percent is not None]
    return Task(
        task=task,
        name=str(rows[0].kernel),
        ops=rows[0].ops,
        kernels=tuple(dict.fromkeys(str(row.kernel) for row in rows)),
        weight=sum(counts[row.row] for row in rows),
        rows=tuple(row.row for row in rows),
        time_us=math.fsum(timed) if timed else None,
        time_percent=math.fsum(percents) if percents else None,
        flop=None if function is None else function.flop,
        space_size=None,
        shapes=(rows[0].shape,),
        untunable=UNTUNABLE,
        spaces={item.name: item.space_size for item in listed if item.space_size is not None},
        listed=listed,
    )


def _log_task(log: LogTask) -> Task:
    return Task(
        task=task_identifier(log.key, log.target),
        name=log.key,
        ops=(),
        kernels=(log.key,),
        weight=0,
        rows=(),
        time_us=None,
        time_percent=None,
        flop=None,
        space_size=None,
        shapes=(),
        untunable=UNTUNABLE,
    )
