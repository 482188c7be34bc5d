"""Owns finding the tasks that a user names by row, by task or by operator, and saying which name is wrong."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from workbench.errors import SelectionError
from workbench.escaping import plain, plain_value
from workbench.records.number import whole
from workbench.records.profile import Profile, Row, Task
from workbench.selection.rows import format_rows
from workbench.spelling import near_misses

_SHOWN = 3
_LISTED = 12


@dataclass(frozen=True)
class Named:
    """The tasks that one rule names, and the rule in words."""

    tasks: frozenset[str]
    words: str


def by_rows(profile: Profile, rows: Iterable[int]) -> Named:
    """The tasks of the given rows.

    Raises:
        SelectionError: A row does not exist or cannot be tuned, or there are none.
    """
    given: set[int] = set()
    for value in rows:
        row = _row_number(value)
        if not 0 <= row < len(profile.rows):
            raise SelectionError(f"There is no row {plain_value(row, 24)}.", f"The rows are 0 to {len(profile.rows) - 1}.")
        given.add(row)
    if not given:
        raise SelectionError("No rows are given.", f"The rows are 0 to {len(profile.rows) - 1}.")
    bad = [profile.rows[row] for row in sorted(given) if profile.rows[row].untunable or profile.rows[row].task is None]
    if bad:
        raise _untunable_rows(bad, rest=given.difference(row.row for row in bad))
    tasks = frozenset(task for row in given if (task := profile.rows[row].task) is not None)
    word = "row" if len(given) == 1 else "rows"
    return Named(tasks=tasks, words=f"{word} {format_rows(given, limit=80)}{_also_selected(profile, given, tasks)}")


def by_tasks(profile: Profile, names: Sequence[str]) -> Named:
    """The tasks with the given identifiers, unique beginnings or ends of identifiers, or kernel names.

    Raises:
        SelectionError: A name fits no task or several, or its task cannot be tuned, or there are none.
    """
    given = _words(names, what="tasks")
    by_name = {name: task for task in profile.tasks for name in task.kernels} | {task.task: task for task in profile.tasks}
    found = [by_name.get(name) or _by_prefix(profile, name, known=by_name) for name in given]
    for task in found:
        if task.untunable:
            raise SelectionError(f"The task {plain(task.task)} cannot be tuned: {plain(task.untunable, 120)}.", "Leave it out.")
    return Named(
        tasks=frozenset(task.task for task in found),
        words=f"{'task' if len(given) == 1 else 'tasks'} {_listed(task.task for task in found)}",
    )


def by_ops(profile: Profile, ops: Sequence[str]) -> Named:
    """The tunable tasks whose kernels hold one of the operators, in their own words or in the source model's.

    Raises:
        SelectionError: No kernel has an operator, or none that has it can be tuned, or there are none.
    """
    given = _words(ops, what="operators")
    of_kernels, of_source = _tasks_by_op(profile)
    tasks = {task.task: task for task in profile.tasks}
    chosen: set[str] = set()
    for op in given:
        found = of_kernels.get(op, set()) | of_source.get(op.lower(), set())
        if not found:
            raise _unknown_op(profile, op, known=of_kernels)
        reasons = sorted({tasks[task].untunable for task in found if tasks[task].untunable})
        tunable = {task for task in found if not tasks[task].untunable}
        if not tunable:
            raise SelectionError(f'No kernel with the operator "{plain(op)}" can be tuned: {_listed(reasons)}.', "Choose other operators.")
        chosen |= tunable
    return Named(tasks=frozenset(chosen), words=f"{'operator' if len(given) == 1 else 'operators'} {_listed(given)}")


def _row_number(value: object) -> int:
    """The value as a whole number; the integers of NumPy and pandas are welcome, True and 1.5 are not."""
    number = whole(value)
    if number is None:
        raise SelectionError(f"{plain_value(value)} is not a row number.", "Give whole numbers.")
    return number


def _untunable_rows(bad: Sequence[Row], *, rest: set[int]) -> SelectionError:
    reasons = sorted({row.untunable for row in bad})
    word, them = ("Row", "it") if len(bad) == 1 else ("Rows", "them")
    return SelectionError(
        f"{word} {format_rows((row.row for row in bad), limit=60)} cannot be tuned: {_listed(reasons)}.",
        f"Leave {them} out: {format_rows(rest)}." if rest else "Choose other rows.",
    )


def _also_selected(profile: Profile, given: set[int], tasks: frozenset[str]) -> str:
    """Which other rows come along because they call the same kernel."""
    notes = []
    for task in profile.tasks:
        others = [row for row in task.rows if row not in given] if task.task in tasks else []
        if others:
            mine = [row for row in task.rows if row in given]
            verb = "row {} also selects" if len(mine) == 1 else "rows {} also select"
            noun = "row" if len(others) == 1 else "rows"
            notes.append(f"{verb.format(format_rows(mine, limit=40))} {noun} {format_rows(others, limit=40)}")
    more = f"; and {len(notes) - _SHOWN} more such tasks" if len(notes) > _SHOWN else ""
    return f" ({'; '.join(notes[:_SHOWN])}{more})" if notes else ""


def _by_prefix(profile: Profile, name: str, *, known: Iterable[str]) -> Task:
    matches = [task for task in profile.tasks if task.task.startswith(name) or task.task.endswith(f"-{name}")]
    if len(matches) > 1:
        raise SelectionError(f'"{plain(name)}" fits {len(matches)} tasks.', f"Say which: {_listed(task.task for task in matches)}.")
    if not matches:
        raise SelectionError(f'There is no task or kernel "{plain(name)}".', near_misses(name, known) or "List them with `workbench tasks`.")
    return matches[0]


def _tasks_by_op(profile: Profile) -> tuple[dict[str, set[str]], dict[str, set[str]]]:
    """Tasks by the kernels' operators, and by the source's operators in lower case; `runtime` belongs to no task."""
    of_kernels: dict[str, set[str]] = {}
    of_source: dict[str, set[str]] = {}
    for row in profile.rows:
        if row.task is not None:
            for op in row.ops:
                of_kernels.setdefault(op, set()).add(row.task)
            for origin in row.origins:
                of_source.setdefault(origin.op.lower(), set()).add(row.task)
    return of_kernels, of_source


def _unknown_op(profile: Profile, op: str, *, known: Iterable[str]) -> SelectionError:
    sources = {origin.op for row in profile.rows for origin in row.origins if row.task is not None}
    outside = {origin.op.lower() for row in profile.rows for origin in row.origins if row.task is None}
    if op.lower() in outside:
        return SelectionError(f'The operator "{plain(op)}" runs as VM builtins, not as a kernel, so it cannot be tuned.', "Leave it out.")
    hint = near_misses(op, {*known, *sources}) or f"The kernels' operators are {_listed(sorted(known), most=_LISTED)}."
    return SelectionError(f'No kernel has the operator "{plain(op)}".', hint)


def _words(values: Sequence[str], *, what: str) -> list[str]:
    """The given names, each once; a single string counts as one name."""
    words = [values] if isinstance(values, str) else list(dict.fromkeys(values))
    if not words:
        raise SelectionError(f"No {what} are given.", "Name at least one.")
    for word in words:
        if not isinstance(word, str) or not word.strip():
            raise SelectionError(f'"{plain(str(word))}" is no name.', f"Give the {what} by name.")
    return words


def _listed(names: Iterable[str], *, most: int = 4) -> str:
    """A short list for a sentence."""
    shown = [plain(name, 80) for name in names]
    more = f" and {len(shown) - most} more" if len(shown) > most else ""
    return ", ".join(shown[:most]) + more
