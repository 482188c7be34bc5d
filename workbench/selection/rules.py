"""Owns the rules that pick tasks out of a profile: by row, task, operator, share of time, or the hottest few.

``rows``, ``tasks`` and ``ops`` name candidates; given together they add up (a task is a candidate if any of them names it).
``share`` and ``top`` then pick the hottest of the candidates, or of all tunable tasks if no candidates were named; given together
both limits hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.errors import SelectionError
from workbench.escaping import plain, plain_value
from workbench.records.number import real, whole
from workbench.records.profile import Profile, Task
from workbench.records.selection import SelectedTask, Selection
from workbench.selection.heat import Heat
from workbench.selection.named import Named, by_ops, by_rows, by_tasks

RULE_LIMIT = 300

_REMEDY = "Give a share, a number of tasks, rows, task names or operators."
_SHOWN = 3
_SLACK = 1e-9
_MOST_TASKS = 2**63 - 1


def select(
    profile: Profile,
    *,
    share: float | None = None,
    top: int | None = None,
    rows: Iterable[int] | None = None,
    tasks: Sequence[str] | None = None,
    ops: Sequence[str] | None = None,
) -> Selection:
    """Tick the tasks that the rules choose; all rows of a ticked task are ticked with it.

    Args:
        profile: Rows and tasks to choose from.
        share: Hottest tasks until they cover this share of *all* rows' time, 0 < share <= 1; all of them if it cannot be reached.
        top: This many of the hottest tasks.
        rows: Row numbers.
        tasks: Task identifiers, unique beginnings of them, or kernel names.
        ops: Operators: a kernel's own (``conv2d``), or the source model's in any case (``Conv``, ``nn.conv2d``).

    Returns:
        Hottest tasks first; `Selection.rule` says in words what was chosen, and by FLOP if nothing was measured.

    Raises:
        SelectionError: A rule names what does not exist or cannot be tuned, or nothing is selected.
    """
    if all(rule is None for rule in (share, top, rows, tasks, ops)):
        raise SelectionError("No rule says what to select.", _REMEDY)
    tunable = _tunable(profile)
    named: list[Named] = []
    if rows is not None:
        named.append(by_rows(profile, rows))
    if tasks is not None:
        named.append(by_tasks(profile, tasks))
    if ops is not None:
        named.append(by_ops(profile, ops))
    heat = Heat.from_profile(profile)
    identifiers = {task for name in named for task in name.tasks}
    candidates = heat.ranked(tuple(task for task in tunable if not named or task.task in identifiers))
    phrases = [" or ".join(name.words for name in named)] if named else []
    if share is not None:
        candidates, words = _hottest_share(heat, candidates, share)
        phrases.append(words)
    if top is not None:
        candidates, words = _hottest_few(heat, candidates, top)
        phrases.append(words)
    return Selection(
        model=profile.model,
        target=profile.target,
        tasks=tuple(SelectedTask(task=task.task, name=task.name) for task in candidates),
        rows=tuple(sorted(row for task in candidates for row in task.rows)),
        rule=plain(", then ".join(phrases), RULE_LIMIT),
        notes=profile.notes,
    )


def _tunable(profile: Profile) -> tuple[Task, ...]:
    tunable = tuple(task for task in profile.tasks if not task.untunable and task.weight > 0)
    if not tunable:
        reasons = sorted({plain(task.untunable) for task in profile.tasks if task.untunable})
        raise SelectionError(
            f"No kernel of {plain(profile.model)} can be tuned{': ' if reasons else ''}{'; '.join(reasons[:_SHOWN])}.",
            "Choose another model or target.",
        )
    return tunable


def _hottest_share(heat: Heat, candidates: tuple[Task, ...], share: float) -> tuple[tuple[Task, ...], str]:
    """The fewest hottest candidates that cover the share, or all of them, and the rule in words."""
    given = real(share)
    if given is None or not 0 < given <= 1:
        raise SelectionError(f"The share {plain_value(share)} is not above 0 and at most 1.", "Write 0.8 for 80 %.")
    _check_yardstick(heat)
    words = f"share {given:g}{_by_flop(heat)}"
    covered = 0.0
    for count, task in enumerate(candidates, start=1):
        covered += heat.of[task.task]
        if covered >= given * heat.total * (1 - _SLACK):
            return candidates[:count], words
    which = f"all {len(candidates)} tasks" if len(candidates) > 1 else "the only task"
    return candidates, f"{words} (out of reach: {which} to choose from cover{'' if len(candidates) > 1 else 's'} {covered / heat.total:.3g})"


def _hottest_few(heat: Heat, candidates: tuple[Task, ...], top: int) -> tuple[tuple[Task, ...], str]:
    """The `top` hottest candidates, and the rule in words."""
    count = whole(top)
    if count is None or not 1 <= count <= _MOST_TASKS:
        raise SelectionError(f"The number of tasks {plain_value(top)} is not a positive whole number.", "Write 3 for the three hottest.")
    _check_yardstick(heat)
    few = f" (there are only {len(candidates)} to choose from)" if count > len(candidates) else ""
    return candidates[:count], f"top {count}{_by_flop(heat)}{few}"


def _by_flop(heat: Heat) -> str:
    return "" if heat.measured else " by FLOP: not measured"


def _check_yardstick(heat: Heat) -> None:
    if heat.total <= 0:
        lacking = "The rows take no measurable time" if heat.measured else "Nothing was measured and no FLOP are known"
        raise SelectionError(f"{lacking}, so there are no hottest tasks.", "Choose rows, tasks or operators by name.")
