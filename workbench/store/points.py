"""Trials as points of a chart, checked as they are read; by hand, because a session may have a hundred thousand of them."""

from __future__ import annotations

import math
from typing import Any

from workbench.records.trial import FAILURES, OK, UNMEASURED
from workbench.records.trial_point import TrialPoint

STATUSES = frozenset((OK, UNMEASURED, *FAILURES))


def point(cursor: Any, task: Any, number: Any, record: Any) -> TrialPoint:
    """A point of what the store holds.

    Args:
        cursor: Place of the trial in the session.
        task: Its task.
        number: Its number within the task.
        record: ``[status, origin, conditions, measured_at, times_us]``.

    Raises:
        ValueError: A value is of another type.
    """
    status, origin, conditions, measured_at, times = record
    if not all(type(text) is str for text in (task, status, origin, conditions)):
        raise ValueError("a trial's status, origin or conditions is no text")
    if status not in STATUSES:
        raise ValueError("a trial has an unknown status")
    if not isinstance(number, int) or not _is_number(measured_at) or not isinstance(times, list):
        raise ValueError("a trial's number or time is no number")
    return TrialPoint(cursor, task, number, status, origin, conditions, float(measured_at), _median(times) if status == OK and times else None)


def _median(times: list[Any]) -> float:
    if not all(_is_number(time) and time > 0 for time in times):
        raise ValueError("a measured time is no number above 0")
    if len(times) == 1:
        return float(times[0])
    ordered = sorted(times)
    middle = len(ordered) // 2
    return float(ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2)


def _is_number(value: Any) -> bool:
    """True for a finite number, which a truth value is not."""
    return (type(value) is float and math.isfinite(value)) or (type(value) is int and abs(value) < 2**63)
