"""Each kernel's time in one run of the model, before and now: measured where the winners were applied, else forecast from the search."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from workbench.analysis.forecast import TunedPart, forecast_us
from workbench.records.comparison import Comparison
from workbench.records.profile import Profile
from workbench.records.tuning import TaskProgress


@dataclass(frozen=True)
class KernelTime:
    """One task in one run of the model.

    Attributes:
        task: The task.
        name: Name of its kernel.
        weight: Rows that call it.
        before_us: Time of all its calls, untuned.
        after_us: The same now, or as it is forecast.
        text: What is known of the difference, in a sentence.
    """

    task: str
    name: str
    weight: int
    before_us: float
    after_us: float
    text: str


def searched(profile: Profile, progress: Iterable[TaskProgress]) -> tuple[KernelTime, ...]:
    """The tasks that were searched, as the search forecasts them, the hottest first."""
    tasks, found = {task.task: task for task in profile.tasks}, []
    if profile.total_us is None or profile.rows_us is None:
        return ()
    for item in progress:
        task, (before, now) = tasks.get(item.task), item.before_and_now_us
        if task is None or task.time_us is None or not before or not now:
            continue
        part = TunedPart(task.time_us, task.weight, before, now)
        after = task.time_us - (profile.total_us - forecast_us(profile.total_us, profile.rows_us, [part]))
        text = item.final.why if item.final is not None else "the search named no winner yet"
        found.append(KernelTime(task.task, task.name, task.weight, task.time_us, after, text=text))
    return tuple(sorted(found, key=lambda kernel: -kernel.before_us))


def applied(comparison: Comparison) -> tuple[KernelTime, ...]:
    """The kernels that have another schedule in the applied model, as they were measured there, the hottest first."""
    found = [
        KernelTime(item.task, item.kernel, item.weight, item.baseline_us * item.weight, item.tuned_us * item.weight, text=item.text)
        for item in comparison.used_records
        if item.baseline_us is not None and item.tuned_us is not None
    ]
    return tuple(sorted(found, key=lambda kernel: -kernel.before_us))
