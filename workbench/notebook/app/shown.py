"""What the shell of the app shows of a state: JSON-ready values with all names made safe; pure functions."""

from __future__ import annotations

from typing import Any

from workbench.escaping import plain
from workbench.notebook.app import ticks
from workbench.notebook.app.state import AppState, Problem
from workbench.records.profile import Profile
from workbench.records.selection import Selection
from workbench.selection.heat import Heat

_NAME_LIMIT = 120
_MOST_TASKS = 500
_DETAIL_LIMIT = 8000


def shown(state: AppState) -> dict[str, Any]:
    """A state for the page."""
    return {
        "phase": state.phase,
        "model": plain(state.model, _NAME_LIMIT),
        "target": plain(state.target, _NAME_LIMIT),
        "engine": plain(state.engine, _NAME_LIMIT),
        "place": plain(state.place, 200),
        "worker": {"state": state.worker.state, "words": state.worker.words, "pid": state.worker.pid},
        "steps": [{"name": step.name, "seconds": round(step.seconds, 2), "share": step.share, "done": step.is_done} for step in state.steps],
        "doing": state.doing,
        "problem": _problem(state.problem),
        "trouble": _problem(state.trouble),
        "next": state.next_step,
        "actions": sorted(state.actions),
        "profiled": state.profile is not None,
        "selection": None if state.profile is None else _selection(state, state.profile),
        "suggested": ticks.suggested_trials(state.progress, state.selection),
        "has_trials": any(task.trials for task in state.progress),
        "has_comparison": bool(state.comparison_id),
    }


def _selection(state: AppState, profile: Profile) -> dict[str, Any]:
    """What is ticked, with shares, budgets and what it promises."""
    selection, heat = state.selection, Heat.from_profile(profile)
    done = {task.task: task.trials for task in state.progress}
    items = () if selection is None else selection.tasks[:_MOST_TASKS]
    weights = {task.task: task.weight for task in profile.tasks}
    return {
        "count": 0 if selection is None else len(selection.tasks),
        "tasks": [
            {
                "task": item.task,
                "name": plain(item.name, _NAME_LIMIT),
                "share": heat.of[item.task] / heat.total if heat.total > 0 and item.task in heat.of else None,
                "weight": weights.get(item.task, 0),
                "trials": item.trials,
                "seconds": item.seconds,
                "done": done.get(item.task, 0),
            }
            for item in items
        ],
        "share": ticks.share_of(profile, selection),
        "measured": heat.measured,
        "forecasts": [list(pair) for pair in ticks.forecasts(profile, selection)],
        "rule": plain(_rule(selection), 300),
    }


def _rule(selection: Selection | None) -> str:
    return "" if selection is None else selection.rule


def _problem(problem: Problem | None) -> dict[str, str] | None:
    if problem is None:
        return None
    return {"message": problem.message, "remedy": problem.remedy, "detail": problem.detail[-_DETAIL_LIMIT:]}
