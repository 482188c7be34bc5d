"""Which task the next trials go to: the one that is expected to save the model most time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

_WINDOW = 32
_OPTIMISM = 0.5
"""Share of a kernel's time that a search is hoped to save while nothing is known of it; the hope fades as trials are spent."""

_FADE = 24.0


@dataclass(frozen=True)
class Prospect:
    """What is known of a task when the next trials are given away.

    Attributes:
        weight: Rows that call the kernel.
        best_us: Present time of one call: the best trial's, or the baseline's if that is less.
        history_us: Best time after each trial, oldest first.
    """

    weight: int
    best_us: float
    history_us: Sequence[float]


def expected_gain(prospect: Prospect) -> float:
    """Microseconds of the whole model that the next trial is expected to save.

    The larger of two: the best time going on to fall at the rate of the last trials, as a factor a trial, and a hope that fades with the number of
    trials. The first trial, the untuned kernel, is no part of the rate: the fall from it to the first schedule comes once, and often
    is a hundred times what any later trial can save.
    """
    history = prospect.history_us
    window = history[1:][-_WINDOW:]
    steps = len(window) - 1
    rate = 1.0 - (window[-1] / window[0]) ** (1.0 / steps) if steps > 0 and window[0] > 0.0 else 0.0
    hope = _OPTIMISM / (len(history) + _FADE) * _FADE / (len(history) + _FADE)
    return prospect.weight * prospect.best_us * max(rate, hope)


def most_promising(prospects: Sequence[Prospect]) -> int:
    """Place of the task with the largest expected gain; the first one of equals."""
    gains = [expected_gain(prospect) for prospect in prospects]
    return max(range(len(gains)), key=lambda place: (gains[place], -place))


def is_flat(history_us: Sequence[float], *, after: int, gain: float) -> bool:
    """True if the last `after` trials improved the best by less than the share `gain`."""
    return len(history_us) > after and history_us[-1] > (1.0 - gain) * history_us[-1 - after]
