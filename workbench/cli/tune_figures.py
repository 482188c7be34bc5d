"""Owns what a search brought to one kernel in figures, and the first line of an error; it draws nothing."""

from __future__ import annotations

from workbench.escaping import plain
from workbench.records.tuning import TaskProgress

_TRACEBACK = "Traceback (most recent call last)"
_STACK_FRAME = "[bt]"  # XGBoost writes those below its message


def gain(task: TaskProgress) -> float | None:
    """How many times as fast the kernel is now; None while that is unknown."""
    before_us, now_us = task.before_and_now_us
    return before_us / now_us if before_us and now_us else None


def first_line(text: str) -> str:
    """The first line of a text that says something, of a traceback the last one; safe to show."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(_STACK_FRAME)]
    if not lines:
        return "no text"
    return plain(lines[-1] if any(_TRACEBACK in line for line in lines) else lines[0], 160)
