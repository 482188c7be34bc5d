"""Which task the next trials go to: the one that is expected to save the model most time."""

from __future__ import annotations

import bisect
import operator
from collections.abc import Sequence
from dataclasses import dataclass

_WINDOW = 32
_LEAST_STEPS = 15
"""Fewer trials than a round tell little: what they gained counts as gained by so many steps."""

_OPTIMISM = 0.5
"""Share of a kernel's time that a search is hoped to save while nothing is known of it; the hope fades as trials are spent."""

_FADE = 24.0


@dataclass(frozen=True)
class Prospect:
    """What is known of a task when the next trials are given away.

    Attributes:
        weight: Rows that call the kernel.
        best_us: Present time of one call: the best trial's, or the baseline's if that is less.
        history_us: Best time after each trial, oldest first; the first one is the untuned kernel's.
        pending: Candidates that are under way.
    """

    weight: int
    best_us: float
    history_us: Sequence[float]
    pending: int = 0


def expected_gain(prospect: Prospect) -> float:
    """Microseconds of the whole model that the next trial is expected to save.

    The larger of two: the best time going on to fall at the rate of the last trials, as a factor a trial, and a hope that fades with the number of
    trials. Candidates that are under way are taken to do what is expected of them. The fall from the untuned kernel to the first schedule that is
    faster is no part of the rate, whenever it came: it comes once, and often is a hundred times what any later trial can save.
    """
    history = prospect.history_us
    fallen = _first_below(history)
    window = history[max(fallen, len(history) - _WINDOW) :]
    rate = 1.0 - (window[-1] / window[0]) ** (1.0 / max(len(window) - 1, _LEAST_STEPS)) if window else 0.0
    spent = len(history) + prospect.pending + _FADE
    hope = _OPTIMISM / spent * _FADE / spent
    return prospect.weight * prospect.best_us * max(rate * (1.0 - rate) ** prospect.pending, hope)


def _first_below(history_us: Sequence[float]) -> int:
    """Place of the first time in a falling series that is below the one it begins with; its length if there is none."""
    return bisect.bisect_right(history_us, -history_us[0], key=operator.neg) if history_us else 0


def most_promising(prospects: Sequence[Prospect]) -> int:
    """Place of the task with the largest expected gain; the first one of equals."""
    gains = [expected_gain(prospect) for prospect in prospects]
    return max(range(len(gains)), key=lambda place: (gains[place], -place))


def is_flat(history_us: Sequence[float], *, after: int, gain: float) -> bool:
    """True if the last `after` trials improved the best by less than the share `gain`."""
    return len(history_us) > after and history_us[-1] > (1.0 - gain) * history_us[-1 - after]
