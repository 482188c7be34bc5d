"""Tasks that old tuners printed, and which of the program's functions they are of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.importing.artifacts import AUTO_SCHEDULER_TASKS, AUTOTVM_TASKS, Artifact
from workbench.importing.workload_fit import fitting_described, fitting_template
from workbench.legacy.auto_scheduler.task_list import AutoSchedulerTask, parse_auto_scheduler_tasks
from workbench.legacy.autotvm_log import AutoTvmTask, parse_autotvm_tasks
from workbench.matching.names import bare_name
from workbench.matching.structure import Structure
from workbench.records.old_search import AUTO_SCHEDULER, AUTOTVM, ListedTask


@dataclass(frozen=True)
class TaskLists:
    """All printed tasks.

    Attributes:
        of_function: Those of each function, by its place in the program.
        unmatched: Those of no function, or of several where it can be one alone.
    """

    of_function: Mapping[int, tuple[ListedTask, ...]]
    unmatched: tuple[ListedTask, ...]


def listed_workloads(artifact: Artifact) -> tuple[AutoSchedulerTask, ...]:
    """The tasks of auto_scheduler in a file; none if it is no such list."""
    return parse_auto_scheduler_tasks(artifact.text).entries if artifact.kind == AUTO_SCHEDULER_TASKS else ()


def listed_templates(artifact: Artifact) -> tuple[AutoTvmTask, ...]:
    """The tasks of AutoTVM in a file; none if it is no such list."""
    return parse_autotvm_tasks(artifact.text).entries if artifact.kind == AUTOTVM_TASKS else ()


def tie_task_lists(artifacts: Sequence[Artifact], program: Sequence[Structure], symbols: Mapping[int, Sequence[str]]) -> TaskLists:
    """Tie printed tasks to functions.

    A task of auto_scheduler is a whole function: of several that it could be, it is the one whose compiled function has its name. A template of
    AutoTVM is of one operator, and so of every function around such an operator.

    Args:
        artifacts: The lists.
        program: The functions.
        symbols: Names of the compiled functions by the function's place.
    """
    found: dict[int, list[ListedTask]] = {}
    unmatched: list[ListedTask] = []
    for artifact in artifacts:
        for task in listed_workloads(artifact):
            listed = ListedTask(AUTO_SCHEDULER, task.description, task.workload_key, weight=task.weight)
            fits = fitting_described(task, program)
            if len(fits) > 1:
                name = bare_name(task.description)
                fits = [place for place in fits if name in {bare_name(symbol) for symbol in symbols.get(place, ())}]
            _enter(listed, fits if len(fits) == 1 else [], found, unmatched)
        for template in listed_templates(artifact):
            listed = ListedTask(AUTOTVM, template.name, template.arguments, space_size=template.space_size)
            _enter(listed, fitting_template(template.name, template.arguments, program), found, unmatched)
    return TaskLists({place: tuple(dict.fromkeys(tasks)) for place, tasks in found.items()}, tuple(dict.fromkeys(unmatched)))


def _enter(task: ListedTask, fits: Sequence[int], found: dict[int, list[ListedTask]], unmatched: list[ListedTask]) -> None:
    for place in fits:
        found.setdefault(place, []).append(task)
    if not fits:
        unmatched.append(task)
