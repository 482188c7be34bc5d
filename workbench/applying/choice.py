"""Which recorded schedule each task of a profile is to get, from what the store holds alone: the same store gives the same choice."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from workbench.engines.apply_protocol import RecordedSchedule
from workbench.errors import InputError
from workbench.escaping import plain
from workbench.records.conditions import KnownConditions
from workbench.records.profile import Profile, Task
from workbench.records.trial import BASELINE, OK, WRONG_RESULT, MeasureOptions, Trial
from workbench.records.tuning import FASTER, TaskProgress

_FINAL = "final"  # in ``first_errors``: why no winner could be named
_REASON = 300

NEVER_SEARCHED = "never searched"


class Records(Protocol):
    """What a store knows of trials; damaged content is a SessionError."""

    def progress_of(self, task: str) -> TaskProgress | None:
        """How far a task is; None if it was never searched."""
        ...

    def trial(self, task: str, number: int) -> Trial | None:
        """One trial; None if there is none of that number."""
        ...

    def trace(self, task: str, number: int) -> str | None:
        """Its trace as JSON text."""
        ...


@dataclass(frozen=True)
class Choice:
    """What one task is to get.

    Attributes:
        task: The task.
        schedule: The winner's schedule; None keeps the baseline.
        why: Why, in a sentence.
        trial: Number of the trial that was looked at; None if the search named none.
        time_us: Time of the winner in its last measurement; 0 without one.
        options: How the trial was measured.
    """

    task: Task
    schedule: RecordedSchedule | None
    why: str
    trial: int | None = None
    time_us: float = 0.0
    options: MeasureOptions | None = None


def choose(profile: Profile, records: Records, conditions: Callable[[MeasureOptions], KnownConditions]) -> tuple[Choice, ...]:
    """A choice for each task of a profile, in its order.

    Args:
        profile: The profile.
        records: What is known of trials.
        conditions: What makes times comparable here and now, for a trial that is measured so.
    """
    return tuple(_chosen(task, records, conditions) for task in profile.tasks)


def is_untouched(choices: tuple[Choice, ...]) -> bool:
    """True if no task was ever searched."""
    return all(choice.why == NEVER_SEARCHED or choice.task.untunable for choice in choices)


def _chosen(task: Task, records: Records, conditions: Callable[[MeasureOptions], KnownConditions]) -> Choice:
    try:
        progress = records.progress_of(task.task)
    except InputError as error:
        return Choice(task, None, f"damaged record: how far its search is cannot be read ({plain(error.message, _REASON)})")
    if progress is None:
        return Choice(task, None, f"cannot be tuned: {plain(task.untunable, _REASON)}" if task.untunable else NEVER_SEARCHED)
    final = progress.final
    if final is None:
        reason = progress.first_errors.get(_FINAL) or progress.stopped_because or "its search has not ended"
        return Choice(task, None, f"no winner was named: {plain(reason, _REASON)}")
    if final.verdict != FASTER or final.winner == BASELINE:
        return Choice(task, None, f"not faster: {plain(final.why, _REASON)}")
    if not 0.0 < final.winner_us < final.baseline_us:
        why = f"not faster: trial {final.winner} is named the winner, but took {final.winner_us:,.1f} us and the baseline {final.baseline_us:,.1f} us"
        return Choice(task, None, why, final.winner)
    return _of_trial(task, progress, records, conditions)


def _of_trial(task: Task, progress: TaskProgress, records: Records, conditions: Callable[[MeasureOptions], KnownConditions]) -> Choice:
    """The winner's schedule, if its record is what it should be."""
    final = progress.final
    if final is None:
        raise ValueError("the task has no winner")
    number = final.winner
    try:
        trial, trace = records.trial(task.task, number), records.trace(task.task, number)
    except InputError as error:
        return Choice(task, None, f"damaged record: trial {number} cannot be read ({plain(error.message, _REASON)})", number)
    if trial is None or trace is None:
        return Choice(task, None, f"damaged record: trial {number}, the winner, is not in the session", number)
    fault = _fault(trial, trace, progress, conditions)
    if fault:
        return Choice(task, None, fault, number)
    schedule = RecordedSchedule(trace, trial.fingerprint, final.winner_us)
    return Choice(task, schedule, f"trial {number}: {plain(final.why, _REASON)}", number, final.winner_us, trial.options)


def _fault(trial: Trial, trace: str, progress: TaskProgress, conditions: Callable[[MeasureOptions], KnownConditions]) -> str:
    """Why a trial's record may not be used; empty if nothing speaks against it."""
    name = f"trial {trial.number}"
    if trial.status == WRONG_RESULT or (trial.check is not None and not trial.check.passed):
        return f"wrong: the output of {name} differs from the untuned kernel's"
    if trial.status != OK or trial.time_us is None:
        return f"not measured: {name} is recorded as {plain(trial.status, 60)}"
    if trial.check is None:
        return f"wrong: the output of {name} was never compared with the untuned kernel's"
    if not trace:
        return f"damaged record: {name} has no recorded schedule"
    if not trial.fingerprint.isalnum():
        return f"damaged record: the fingerprint of {name} is none"
    try:
        if not _is_trace(json.loads(trace)):
            return f"damaged record: the schedule of {name} is no trace"
    except (ValueError, RecursionError):
        return f"damaged record: the schedule of {name} is no JSON"
    now = conditions(trial.options)
    if trial.conditions == progress.conditions == now.present.digest:
        return ""
    known = now.differences(trial.conditions, trial.options)
    differs = ", ".join(known) or "for another target, with another version of TVM, on another machine, or with another number of threads"
    return f"other conditions: {name} was measured {'with ' if known else ''}{differs}"


def _is_trace(values: object) -> bool:
    """True for what may be a schedule: MetaSchedule's list, or a line of auto_scheduler's or AutoTVM's log."""
    return isinstance(values, list) or (isinstance(values, dict) and ("i" in values or "input" in values))
