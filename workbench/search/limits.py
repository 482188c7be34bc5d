"""What the values of a request and of a command may be; whoever gives others is told which one, before anything is done."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from workbench.errors import InputError
from workbench.escaping import plain, plain_value
from workbench.records.trial import MeasureOptions
from workbench.records.tuning import SearchBudget, TuneRequest

_MOST_TRIALS = 1_000_000_000
_LONGEST_S = 10 * 365 * 86_400.0
_LARGEST_SEED = 2**63 - 1


@dataclass(frozen=True)
class _Whole:
    """Whole numbers from `least` to `most`."""

    least: int
    most: int

    def holds(self, value: object) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and self.least <= value <= self.most

    def __str__(self) -> str:
        return f"a whole number from {self.least:,} to {self.most:,}"


@dataclass(frozen=True)
class _Real:
    """Finite numbers from `least`, or above it if it is `excluded`, to `most`."""

    least: float
    most: float
    excluded: bool = False

    def holds(self, value: object) -> bool:
        if not isinstance(value, int | float) or isinstance(value, bool):
            return False
        return (self.least < value if self.excluded else self.least <= value) and value <= self.most  # no NaN is

    def __str__(self) -> str:
        return f"a number {'above' if self.excluded else 'from'} {self.least:g} to {self.most:,g}"


_TRIALS = _Whole(1, _MOST_TRIALS)
_SECONDS = _Real(0.0, _LONGEST_S, excluded=True)
_BUDGET: Mapping[str, _Whole | _Real] = {
    "trials": _TRIALS,
    "seconds": _SECONDS,
    "per_task": _TRIALS,
    "flat_after": _TRIALS,
    "flat_gain": _Real(0.0, 0.99, excluded=True),
}
_TASK_BUDGET: Mapping[str, _Whole | _Real] = {"trials": _TRIALS, "seconds": _SECONDS}
_REQUEST: Mapping[str, _Whole | _Real] = {
    "seed": _Whole(0, _LARGEST_SEED),
    "dry_run": _Whole(1, 1_000_000),
    "builders": _Whole(1, 1024),
    "batch": _Whole(1, 4096),
    "finalists": _Whole(1, 64),
}
_MEASURE: Mapping[str, _Whole | _Real] = {
    "number": _Whole(1, 1_000_000_000),
    "repeat": _Whole(1, 10_000),
    "min_repeat_ms": _Real(0.0, 60_000.0),
    "timeout_s": _Real(0.0, 86_400.0, excluded=True),
    "build_timeout_s": _Real(0.0, 86_400.0, excluded=True),
    "cooldown_ms": _Real(0.0, 3_600_000.0),
    "device": _Whole(0, 1023),
}
_MAY_BE_LEFT_OUT = frozenset({"trials", "seconds", "per_task", "flat_after", "dry_run", "builders", "number"})


def check_request(request: TuneRequest) -> None:
    """Raise InputError unless every value of a request can be worked with."""
    if not request.tasks:
        raise InputError("There is no task to search.", "Select some: workbench select --share 0.8.")
    for item in request.tasks:
        _check(vars(item), _TASK_BUDGET, f" of task {plain(item.task, 120)}")
    _check(vars(request.budget), _BUDGET, " of the budget")
    _check(vars(request), _REQUEST, "")
    check_measure(request.measure)


def check_measure(options: MeasureOptions) -> None:
    """Raise InputError unless trials can be measured so."""
    _check(vars(options), _MEASURE, " of the measuring")


def changed_budget(budget: SearchBudget, limits: Mapping[str, Any]) -> SearchBudget:
    """A budget with some limits changed; raises InputError if one is none."""
    _check_names(limits, _BUDGET)
    _check(limits, _BUDGET, " of the budget")
    return SearchBudget(**{**{field.name: getattr(budget, field.name) for field in fields(budget)}, **limits})


def task_budget(limits: Mapping[str, Any]) -> Mapping[str, Any]:
    """Limits of one task: ``trials`` and ``seconds``, where they are given; raises InputError if one is none."""
    _check_names(limits, _TASK_BUDGET)
    _check(limits, _TASK_BUDGET, " of the task")
    return limits


def task_identifier(arguments: Mapping[str, Any]) -> str:
    """The task that a command is about; raises InputError if it names none."""
    task = arguments.get("task")
    if not isinstance(task, str) or not task:
        raise InputError("The command names no task.", "Give the identifier of one: workbench tasks.")
    return task


def _check_names(values: Mapping[str, Any], known: Mapping[str, object]) -> None:
    strange = [name for name in values if name not in known]
    if strange:
        raise InputError(f"There is no limit {plain(strange[0], 60)}.", f"There are: {', '.join(known)}.")


def _check(values: Mapping[str, Any], rules: Mapping[str, _Whole | _Real], where: str) -> None:
    for name, rule in rules.items():
        if name not in values or (values[name] is None and name in _MAY_BE_LEFT_OUT):
            continue
        if not rule.holds(values[name]):
            none = ", or None for no limit" if name in _BUDGET and name in _MAY_BE_LEFT_OUT else ""
            raise InputError(f"{name}{where} is {plain_value(values[name])}.", f"Give {rule}{none}.")
