"""Owns what a search brought in figures - before, now, gain, forecast of the model - and the first line of an error; it draws nothing."""

from __future__ import annotations

from collections.abc import Iterable

from workbench.escaping import plain
from workbench.records.profile import Profile
from workbench.records.tuning import TaskProgress

_TRACEBACK = "Traceback (most recent call last)"
_STACK_FRAME = "[bt]"  # XGBoost writes those below its message


def gain(task: TaskProgress) -> float | None:
    """How many times as fast the kernel is now; None while that is unknown."""
    before_us, now_us = task.before_and_now_us
    return before_us / now_us if before_us and now_us else None


def model_forecast_us(profile: Profile, tasks: Iterable[TaskProgress]) -> float | None:
    """Time of the whole model with what was found: its end-to-end time less what each call of the tuned kernels saves.

    A task saves no more than the same share of what its rows take in the profile: alone and within the model a kernel is not equally fast.
    None where the model was not measured.
    """
    if profile.total_us is None:
        return None
    rows_us = {task.task: task.time_us or 0.0 for task in profile.tasks}
    saved_us = 0.0
    for task in tasks:
        before_us, now_us = task.before_and_now_us
        if before_us and now_us is not None and now_us < before_us:
            saved_us += min(task.weight * (before_us - now_us), rows_us.get(task.task, 0.0) * (1.0 - now_us / before_us))
    return max(profile.total_us - saved_us, 0.0)


def first_line(text: str) -> str:
    """The first line of a text that says something, of a traceback the last one; safe to show."""
    lines = [line.strip() for line in text.splitlines() if line.strip() and not line.strip().startswith(_STACK_FRAME)]
    if not lines:
        return "no text"
    return plain(lines[-1] if any(_TRACEBACK in line for line in lines) else lines[0], 160)
