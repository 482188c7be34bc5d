"""Which trial of a task is the one to use, from how far its search is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from workbench.errors import InputError, SelectionError
from workbench.escaping import plain, plain_value
from workbench.records.number import whole
from workbench.records.trial import BASELINE
from workbench.records.tuning import TaskProgress

_LARGEST = 2**63 - 1  # what a database can hold
_NOT_CONFIRMED = "the search ended before its best trials were measured again beside the baseline"


@dataclass(frozen=True)
class Winner:
    """The trial to use.

    Attributes:
        number: Its number; that of the baseline if nothing is faster.
        time_us: Its time.
        baseline_us: Time of the untuned kernel; None if it has none.
        verdict: ``faster`` or ``not faster``; None if the search ended before it could say.
        why: The verdict in a sentence.
    """

    number: int
    time_us: float
    baseline_us: float | None
    verdict: str | None
    why: str


def winner(progress: Sequence[TaskProgress], task: str) -> Winner:
    """The trial of a task to use: what the last measurement said, or else the best so far.

    Args:
        progress: How far each task of the session is.
        task: The task, or the name of its kernel.

    Raises:
        SelectionError: The task was never searched, or none of its trials was measured.
    """
    known = next((item for item in progress if item.task == task), None) or next((item for item in progress if item.name == task), None)
    if known is None:
        raise SelectionError(f"Task {plain(str(task), 120)} was not searched yet.", "Tune it first, or name a trial: trial=0 is the untuned kernel.")
    final = known.final
    if final is not None:
        return Winner(final.winner, final.used_us, final.baseline_us, final.verdict, final.why)
    if known.best is None and known.elsewhere:
        raise SelectionError(
            f"Task {plain(str(task), 120)} has no time under the present conditions: it was {plain(known.elsewhere, 300)}.",
            "Go on with resume=True (--resume), which measures it again, or name a trial, for example trial=1.",
        )
    if known.best is None or known.best_us is None:
        why = known.stopped_because or "none was measured yet"
        raise SelectionError(f"Task {plain(str(task), 120)} has no measured trial: {plain(why, 300)}.", "Name a trial, for example trial=1.")
    return Winner(known.best, known.best_us, known.baseline_us, None, _NOT_CONFIRMED)


def trial_number(value: object) -> int:
    """The value as the number of a trial.

    Raises:
        InputError: It is none.
    """
    number = whole(value)
    if number is None or not BASELINE <= number <= _LARGEST:
        raise InputError(f"{plain_value(value)} is no number of a trial.", "Give a whole number; 0 is the untuned kernel.")
    return number
