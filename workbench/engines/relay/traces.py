"""Schedules as this engine keeps them: one line of an old log without its result; read as data, by our own parsers, before any TVM sees them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from typing import Any

from workbench.errors import InputError
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.autotvm_log import parse_autotvm_log

_RESULT: list[Any] = [[1.0], 0, 1.0, 0]
_READABLE_AUTOTVM = 0.2  # older lines hold pickles


def is_auto_scheduler(trace: str) -> bool:
    """True for a line of auto_scheduler's log, False for one of AutoTVM's; raises InputError if it is none of both."""
    return "i" in _checked(trace)[0]


def decisions(trace: str) -> tuple[str, ...]:
    """The steps or knobs of a schedule in words; raises InputError if it is damaged."""
    return _checked(trace)[1]


def fingerprint(trace: str) -> str:
    """Digest of a schedule: equal ones of a kernel have equal ones, whatever else stands in the line; raises InputError if it is damaged."""
    values = _checked(trace)[0]
    what = [values["i"][0][0], values["i"][1]] if "i" in values else [values["input"][1:], values["config"]["entity"]]
    return hashlib.sha256(json.dumps(what, separators=(",", ":")).encode()).hexdigest()[:16]


def line_with(trace: str, times_s: Sequence[float], measured_at: float) -> str:
    """The line of the log, with its result; raises InputError if the schedule is damaged."""
    values = _checked(trace)[0]
    result = [list(times_s), 0, sum(times_s), int(measured_at)]
    return json.dumps({**values, "r": result} if "i" in values else {**values, "result": result}, separators=(",", ":"))


def without_result(line: str) -> str:
    """The schedule of a line of a log, in the same form; raises InputError if it is damaged."""
    values = _object(line)
    return json.dumps({name: value for name, value in values.items() if name not in {"r", "result"}}, sort_keys=True, separators=(",", ":"))


def _checked(trace: str) -> tuple[dict[str, Any], tuple[str, ...]]:
    """The values of a line, and its decisions."""
    values = _object(trace)
    parsed: Any
    if "i" in values:
        parsed = parse_auto_scheduler_log(json.dumps({**values, "r": _RESULT}))
    elif values.get("version") == _READABLE_AUTOTVM:
        parsed = parse_autotvm_log(json.dumps({**values, "result": _RESULT}))
    else:
        raise InputError("A recorded schedule is neither auto_scheduler's nor AutoTVM's.", "Search the task again.")
    if len(parsed.entries) != 1:
        reason = parsed.bad[0].reason if parsed.bad else "it is empty"
        raise InputError(f"A recorded schedule is damaged: {reason}.", "Search the task again.")
    return values, parsed.entries[0].decisions


def _object(text: str) -> dict[str, Any]:
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError("A recorded schedule is no JSON.", "Search the task again.") from error
    if not isinstance(values, dict):
        raise InputError("A recorded schedule is no object of JSON.", "Search the task again.")
    return values
