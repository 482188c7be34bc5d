"""Forecasts the time of a whole model from what its kernels gained; pure functions, the same for every front and every report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.records.profile import Profile
from workbench.records.tuning import TaskProgress


@dataclass(frozen=True)
class TunedPart:
    """The calls of one kernel within a model.

    Attributes:
        rows_us: What all its rows take in the profile.
        calls: Number of these rows.
        before_us: One call of the untuned kernel, measured alone.
        now_us: One call of what is to be used, measured alone in the same way.
    """

    rows_us: float
    calls: int
    before_us: float
    now_us: float


def forecast_us(total_us: float, rows_us: float, parts: Iterable[TunedPart]) -> float:
    """Time of a model whose kernels got faster: Amdahl's law.

    If the share f of a program's time gets s times as fast, the whole takes (1 - f) + f / s of its time, and the rest, 1 - f, stays (G. Amdahl,
    "Validity of the single processor approach to achieving large scale computing capabilities", AFIPS 1967). In times, with one part for each
    kernel: total - sum over the kernels of part * (1 - now / before).

    The part of a kernel in the whole is what its calls take alone, ``calls * before_us``, so that it saves ``calls * (before_us - now_us)``; but no
    more than its rows in the profile, and of these no more than their share of the whole, since rows that are timed one by one may sum to more
    than a whole run. So all parts together fit into the whole, the forecast never falls below the rest, and the model never gains more than
    its best kernel: a model of one kernel at most what the kernel does.

    Args:
        total_us: The whole model, end to end, untuned.
        rows_us: All rows of its profile together.
        parts: The kernels that were tuned; one that got no faster changes nothing.
    """
    scale = min(1.0, total_us / rows_us) if rows_us > 0 else 0.0
    saved_us = 0.0
    for part in parts:
        if 0 < part.now_us < part.before_us:
            saved_us += min(part.calls * part.before_us, part.rows_us * scale) * (1.0 - part.now_us / part.before_us)
    return total_us - saved_us


def model_forecast_us(profile: Profile, tasks: Iterable[TaskProgress]) -> float | None:
    """Time of the profiled model with what searches found for some of its tasks; None where the model was not measured.

    Args:
        profile: The untuned model.
        tasks: How far the searches are; what is no task of the profile changes nothing.
    """
    if profile.total_us is None or profile.rows_us is None:
        return None
    known = {task.task: task for task in profile.tasks}
    parts = [
        TunedPart(known[task.task].time_us or 0.0, known[task.task].weight, before_us, now_us)
        for task in tasks
        for before_us, now_us in [task.before_and_now_us]
        if task.task in known and before_us and now_us
    ]
    return forecast_us(profile.total_us, profile.rows_us, parts)
