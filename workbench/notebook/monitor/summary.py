"""How a search stands, in figures: trials, rate, time left, and what the whole model gains."""

from __future__ import annotations

from typing import Any

from workbench.analysis.forecast import model_forecast_us
from workbench.notebook.monitor.feed import IDLE, Standing
from workbench.records.profile import Profile
from workbench.records.tuning import ENDED, TaskProgress, TuneRequest


def summary(standing: Standing, profile: Profile, *, rate: float | None, now: float) -> dict[str, Any]:
    """What the bar of a monitor says.

    Args:
        standing: How the search stands.
        profile: The profile that it is about.
        rate: Trials a second in the last minute.
        now: Unix time.
    """
    runs = standing.state != IDLE
    spent = standing.searched_s(now) if runs else None
    request = standing.request
    return {
        "state": standing.state,
        "doing": standing.doing,
        "trials": sum(task.trials for task in standing.tasks),
        "limit": None if request is None else request.budget.trials,
        "failed": sum(number for task in standing.tasks for number in task.errors.values()),
        "per_s": None if rate is None else round(rate, 2),
        "spent_s": None if spent is None else round(spent),
        "left_s": None if not runs or request is None else _left(standing.tasks, request, rate=rate, spent_s=spent or 0.0),
        "total_us": profile.total_us,
        "model_us": model_forecast_us(profile, standing.tasks),
    }


def _left(tasks: tuple[TaskProgress, ...], request: TuneRequest, *, rate: float | None, spent_s: float) -> int | None:
    """Seconds left by the budget of time or, at the present rate, of trials, whichever ends first; None if nothing says."""
    budget, asked = request.budget, {item.task for item in request.tasks}
    left_s = [] if budget.seconds is None else [max(budget.seconds - spent_s, 0.0)]
    left = [] if budget.trials is None else [budget.trials - sum(task.trials for task in tasks)]
    running = [task for task in tasks if task.state not in ENDED and task.task in asked]
    owed = [limit - task.trials for task in running if (limit := _limit(task, request)) is not None]
    if running and len(owed) == len(running):
        left.append(sum(max(number, 0) for number in owed))
    if rate and left:
        left_s.append(max(min(left), 0) / rate)
    return round(min(left_s)) if left_s else None


def _limit(task: TaskProgress, request: TuneRequest) -> int | None:
    return request.budget.per_task if task.budget_trials is None else task.budget_trials
