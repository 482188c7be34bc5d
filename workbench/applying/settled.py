"""What an earlier apply of the very same records has measured: which of them stay, and which were slower in the model.

A measurement differs from run to run, and a kernel near the limit would be used by one apply and not by the next. So what was measured once
for a choice of records holds until the choice is another one, or the user has it measured anew.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from workbench.applying.choice import Choice
from workbench.records.comparison import RECORD, Comparison

LEAST_ROUNDS = 3
"""A comparison of fewer rounds knows no noise, and settles nothing."""

_EARLIER = " (measured by an earlier apply of the same records)"


@dataclass(frozen=True)
class Settled:
    """What need not be decided again.

    Attributes:
        kept: Tasks whose record stays, whatever its time is now.
        slower: Tasks whose record was slower in the model, and why, in words.
    """

    kept: frozenset[str] = frozenset()
    slower: Mapping[str, str] = field(default_factory=dict)


NOTHING_SETTLED = Settled()


def settled(choices: Sequence[Choice], previous: Comparison | None) -> Settled:
    """What the last comparison settles.

    Args:
        choices: What is to be applied now.
        previous: The last comparison of the same profile; None if there is none.
    """
    if previous is None or not previous.applied or previous.rounds < LEAST_ROUNDS:
        return NOTHING_SETTLED
    then = {kernel.task: (kernel.considered, kernel.considered_fingerprint) for kernel in previous.kernels}
    now = {choice.task.task: (choice.trial, "" if choice.schedule is None else choice.schedule.fingerprint) for choice in choices}
    if then != now:
        return NOTHING_SETTLED
    kept = frozenset(kernel.task for kernel in previous.kernels if kernel.used == RECORD)
    slower = [kernel for kernel in previous.kernels if kernel.was_slower and kernel.considered_fingerprint]
    return Settled(kept, {kernel.task: kernel.why.removesuffix(_EARLIER) + _EARLIER for kernel in slower})
