"""Owns what a profile is to the table's view: columns of plain values, and how far each task is; it sends nothing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from workbench.escaping import plain
from workbench.links import difference_note, resolution_note
from workbench.records.match import RowMatch
from workbench.records.profile import Profile, Row
from workbench.records.tuning import FASTER, TaskProgress

_LONGEST_NAME = 200
_LONGEST_LIST = 600
_LONGEST_NOTE = 400
_ELIMINATED_SHOWN = 12

TaskState = dict[str, Any]


def snapshot(profile: Profile, limit_percent: Mapping[int, float], matches: Mapping[int, RowMatch] | None = None) -> dict[str, Any]:
    """Everything about a profile that does not change while a search runs, one list a column.

    Args:
        profile: What to show.
        limit_percent: How close a row comes to what the machine could do, in percent, by row number; rows may be missing.
        matches: How surely rows of an imported session are tied to the program; empty for any other.
    """
    rows, matches = profile.rows, matches or {}
    places = {task.task: place for place, task in enumerate(profile.tasks)}
    columns: dict[str, list[Any]] = {
        "row": [row.row for row in rows],
        "node_name": [_name(row.node_name) for row in rows],
        "ops": [_list(row.ops) for row in rows],
        "time_us": [finite(row.time_us) for row in rows],
        "time_us_iqr": [finite(row.time_us_iqr) for row in rows],
        "time_percent": [finite(row.time_percent) for row in rows],
        "shape": [plain(row.shape, _LONGEST_LIST) for row in rows],
        "dtype": [plain(row.dtype) for row in rows],
        "inputs": [row.inputs for row in rows],
        "outputs": [row.outputs for row in rows],
        "origins": [_list([str(origin) for origin in row.origins]) for row in rows],
        "flop": [row.flop for row in rows],
        "gflops": [finite(row.gflops) for row in rows],
        "limit_percent": [finite(limit_percent.get(row.row)) for row in rows],
        "kernel": [None if row.kernel is None else _name(row.kernel) for row in rows],
        "task": [None if row.task is None else places.get(row.task) for row in rows],
        "nan_count": [row.nan_count for row in rows],
        "inf_count": [row.inf_count for row in rows],
        "untunable": [plain(_untunable(row), _LONGEST_NOTE) for row in rows],
        "match": [100 * matches[row.row].confidence if row.row in matches else None for row in rows],
        "ambiguous": [row.row in matches and matches[row.row].is_ambiguous for row in rows],
        "evidence": [plain(matches[row.row].words, _LONGEST_LIST) if row.row in matches else None for row in rows],
    }
    return {
        "columns": columns,
        "tasks": [{"name": _name(task.task), "rows": list(task.rows), "untunable": plain(task.untunable, _LONGEST_NOTE)} for task in profile.tasks],
        "header": {
            "model": plain(profile.model, 80),
            "target": plain(profile.target, 80),
            "total_us": finite(profile.total_us),
            "total_us_iqr": finite(profile.total_us_iqr),
            "rows_us": finite(profile.rows_us),
            "repeats": profile.repeats,
            "threads": profile.threads,
            "unmeasured": plain(profile.unmeasured, _LONGEST_NOTE),
            "notes": list(_notes(profile)),
        },
    }


def task_state(progress: TaskProgress | None, place: int) -> TaskState:
    """How far the search of one task is, as the view shows it.

    Args:
        progress: Its search; None if there was none.
        place: Its place in the profile's list of tasks.
    """
    if progress is None:
        return {"place": place, "state": "", "note": "", "baseline_us": None, "best_us": None, "gain": None, "trials": 0, "errors": 0}
    before_us, now_us = progress.before_and_now_us
    note = progress.stopped_because if progress.final is None else progress.final.why
    verdict = "" if progress.final is None else progress.final.verdict
    return {
        "place": place,
        "state": verdict or plain(progress.state, 40),
        "note": plain(note, _LONGEST_NOTE),
        "baseline_us": finite(before_us),
        "best_us": finite(now_us),
        "gain": gain(before_us, now_us),
        "trials": progress.trials,
        "errors": sum(progress.errors.values()),
        "faster": verdict == FASTER,
    }


def gain(before_us: float | None, now_us: float | None) -> float | None:
    """How many times faster a task is now; None while that is unknown."""
    if before_us is None or now_us is None or not (math.isfinite(before_us) and math.isfinite(now_us) and now_us > 0):
        return None
    return before_us / now_us


def finite(value: float | None) -> float | None:
    """The value, or None where it is no number: JSON has neither NaN nor infinity."""
    return None if value is None or not math.isfinite(value) else value


def _name(text: str) -> str:
    return plain(text, _LONGEST_NAME)


def _list(names: Sequence[str]) -> str:
    return plain(", ".join(names), _LONGEST_LIST)


def _untunable(row: Row) -> str:
    """Why a row cannot be ticked; empty if it can."""
    return row.untunable or ("" if row.task is not None else "no task")


def _notes(profile: Profile) -> Iterable[str]:
    """What a reader of the table must know, one sentence each."""
    for note in filter(None, (*profile.notes, resolution_note(profile), difference_note(profile))):
        yield plain(note, _LONGEST_NOTE)
    if profile.eliminated:
        shown = ", ".join(profile.eliminated[:_ELIMINATED_SHOWN])
        more = len(profile.eliminated) - _ELIMINATED_SHOWN
        count = len(profile.eliminated)
        operators = "operator of the model needs" if count == 1 else "operators of the model need"
        yield plain(f"{count:,} {operators} no run: {shown}{f' and {more:,} more' if more > 0 else ''}", _LONGEST_NOTE)
