"""Owns the selection's file: writing it, and reading one that anybody may have edited; it chooses nothing itself."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NoReturn

from workbench import strict_json
from workbench.errors import SelectionError
from workbench.escaping import plain
from workbench.records.profile import Profile, Task
from workbench.records.selection import SELECTION_FORMAT, SELECTION_VERSION, SelectedTask, Selection
from workbench.selection.heat import Heat
from workbench.selection.rules import RULE_LIMIT
from workbench.spelling import near_misses

MOST_BYTES = 1_000_000
MOST_TRIALS = 1_000_000_000
MOST_SECONDS = 1e9

_KEYS = frozenset({"format", "version", "model", "target", "rule", "notes", "rows", "tasks"})
_TASK_KEYS = frozenset({"task", "name", "trials", "seconds"})
_EXPORT = "Export one with `workbench select --export FILE`."


def write_selection(selection: Selection) -> str:
    """The selection as the text of its file: the same selection always gives the same text."""
    return json.dumps(selection.to_dict(), indent=2, allow_nan=False) + "\n"


def read_selection(text: str, profile: Profile) -> Selection:
    """The selection in a file, tied to this profile's tasks.

    A task that the profile does not know by its identifier is looked up by its kernel's name. A file made for another model or target
    is welcome if all its tasks are found; `Selection.rule` says so. The notes are this profile's; those of the file tell its readers.

    Raises:
        SelectionError: The file is too large, is no selection, was written by a newer version, holds a wrong value (the message says
            where), or ticks a task that the profile does not have or that cannot be tuned.
    """
    values = _object(_parse(text), where="the file", keys=_KEYS)
    _check_version(values)
    model, target, rule = (_string(values.get(key, ""), where=key) for key in ("model", "target", "rule"))
    _check_rows(values.get("rows", []))
    _check_notes(values.get("notes", []))
    items = values.get("tasks")
    if not isinstance(items, list):
        _refuse(f"tasks must be a list, not {_shown(items)}")
    if not items:
        raise SelectionError("The selection file ticks no task.", _EXPORT)
    entries = [_entry(item, where=f"tasks[{index}]") for index, item in enumerate(items)]
    tasks, renamed = _match(entries, profile)
    order = {task.task: place for place, task in enumerate(Heat.from_profile(profile).ranked(profile.tasks))}
    rules = [rule] if rule else []
    if (model, target) != (profile.model, profile.target):
        rules.append(f"made for {plain(model) or 'an unknown model'} on {plain(target) or 'an unknown target'}")
    if renamed:
        rules.append(f"{renamed} matched by kernel name")
    return Selection(
        model=profile.model,
        target=profile.target,
        tasks=tuple(
            sorted(
                (replace(entry, task=task.task, name=task.name) for entry, task in zip(entries, tasks, strict=True)),
                key=lambda item: order[item.task],
            )
        ),
        rows=tuple(sorted(row for task in tasks for row in task.rows)),
        rule=plain("; ".join(rules), RULE_LIMIT),
        notes=profile.notes,
    )


def _parse(text: str) -> object:
    if len(text) > MOST_BYTES or len(text.encode("utf-8", "surrogatepass")) > MOST_BYTES:
        raise SelectionError(f"The selection file is larger than {MOST_BYTES:,} bytes.", _EXPORT)
    try:
        return strict_json.loads(text, unique_keys=True)
    except (ValueError, RecursionError) as error:
        reason = "it is nested too deeply" if isinstance(error, RecursionError) else plain(str(error), 120)
        raise SelectionError(f"The selection file is not valid JSON: {reason}.", _EXPORT) from error


def _check_version(values: dict[str, object]) -> None:
    if values.get("format") != SELECTION_FORMAT:
        raise SelectionError(f'The file is no selection: its format is {_shown(values.get("format"))}, not "{SELECTION_FORMAT}".', _EXPORT)
    version = values.get("version")
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        _refuse(f"version must be a positive whole number, not {_shown(version)}")
    if version > SELECTION_VERSION:
        raise SelectionError(
            f"The selection file has version {_shown(version)}; this workbench reads up to {SELECTION_VERSION}.",
            "Update the workbench, or select again with this one.",
        )


def _check_rows(rows: object) -> None:
    """The rows of the file only tell readers what was ticked; the tasks decide. They must be row numbers all the same."""
    if not isinstance(rows, list):
        _refuse(f"rows must be a list, not {_shown(rows)}")
    for index, row in enumerate(rows):
        if isinstance(row, bool) or not isinstance(row, int) or row < 0:
            _refuse(f"rows[{index}] must be a whole number from 0, not {_shown(row)}")


def _check_notes(notes: object) -> None:
    """The notes of the file only tell readers what the selection was made from; they must be texts all the same."""
    if not isinstance(notes, list):
        _refuse(f"notes must be a list, not {_shown(notes)}")
    for index, note in enumerate(notes):
        _string(note, where=f"notes[{index}]")


def _entry(item: object, *, where: str) -> SelectedTask:
    values = _object(item, where=where, keys=_TASK_KEYS)
    task = _string(values.get("task"), where=f"{where}.task")
    name = _string(values.get("name", ""), where=f"{where}.name")
    if not task and not name:
        _refuse(f"{where} has neither a task nor a name")
    trials, seconds = values.get("trials"), values.get("seconds")
    if trials is not None and (isinstance(trials, bool) or not isinstance(trials, int) or not 0 < trials <= MOST_TRIALS):
        _refuse(f"{where}.trials must be a whole number from 1 to {MOST_TRIALS:,} or null, not {_shown(trials)}")
    if seconds is None:
        return SelectedTask(task=task, name=name, trials=trials)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not 0 < seconds <= MOST_SECONDS or not math.isfinite(seconds):
        _refuse(f"{where}.seconds must be a number above 0 and at most {MOST_SECONDS:,.0f} or null, not {_shown(seconds)}")
    return SelectedTask(task=task, name=name, trials=trials, seconds=float(seconds))


def _match(entries: Sequence[SelectedTask], profile: Profile) -> tuple[list[Task], int]:
    """The profile's task of each entry, and how many of them were found by name only."""
    by_id = {task.task: task for task in profile.tasks}
    by_name = {name: task for task in profile.tasks for name in task.kernels}
    found = [by_id.get(entry.task) or by_name.get(entry.name) for entry in entries]
    unknown = [entry.name or entry.task for entry, task in zip(entries, found, strict=True) if task is None]
    tasks = [task for task in found if task is not None]
    where = f"{plain(profile.model)} on {plain(profile.target)}"
    if unknown:
        raise SelectionError(
            f"{len(unknown)} of {len(entries)} tasks in the selection file are not in {where}: {_some(unknown)}.",
            near_misses(unknown[0], {*by_id, *by_name}) or "Select again from this profile, or open the session it was made in.",
        )
    if len({task.task for task in tasks}) != len(tasks):
        _refuse("two of its entries tick the same task")
    untunable = [f"{task.name} ({task.untunable})" for task in tasks if task.untunable]
    if untunable:
        raise SelectionError(f"The selection file ticks what cannot be tuned in {where}: {_some(untunable)}.", "Take it out of the file.")
    return tasks, sum(entry.task not in by_id for entry in entries)


def _object(value: object, *, where: str, keys: frozenset[str]) -> dict[str, object]:
    if not isinstance(value, dict):
        _refuse(f"{where} must be a JSON object, not {_shown(value)}")
    strange = next((key for key in value if key not in keys), None)
    if strange is not None:
        _refuse(f'{where} has the unknown key "{plain(strange)}" ({near_misses(strange, keys) or "known: " + ", ".join(sorted(keys))})')
    return value


def _string(value: object, *, where: str) -> str:
    if not isinstance(value, str):
        _refuse(f"{where} must be a text, not {_shown(value)}")
    return value


def _refuse(problem: str) -> NoReturn:
    raise SelectionError(f"The selection file cannot be used: {problem}.", f"Mend the file, or start from a new one. {_EXPORT}")


def _shown(value: object) -> str:
    """A value from the file for a message."""
    if isinstance(value, list | dict):
        return "a list" if isinstance(value, list) else "an object"
    return "nothing" if value is None else plain(json.dumps(value, ensure_ascii=False), 40)


def _some(names: Sequence[str], most: int = 8) -> str:
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(plain(name, 80) for name in names[:most]) + more
