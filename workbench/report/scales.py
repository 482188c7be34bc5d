"""Axes of the report's drawings: where a value lies, and which round values get a tick."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

_STEPS = (1.0, 2.0, 5.0, 10.0)


@dataclass(frozen=True)
class Scale:
    """One axis.

    Attributes:
        low: Value at the beginning.
        high: Value at the end; above `low`.
        start: Place of the beginning in the drawing.
        end: Place of the end.
        is_log: True for a logarithmic axis, whose values are above 0.
    """

    low: float
    high: float
    start: float
    end: float
    is_log: bool = False

    def place(self, value: float) -> float:
        """Where a value lies."""
        low, high, shown = (math.log(self.low), math.log(self.high), math.log(value)) if self.is_log else (self.low, self.high, value)
        return self.start + (shown - low) / (high - low) * (self.end - self.start)

    def ticks(self, most: int = 5) -> list[float]:
        """Round values within the axis, some of them at most."""
        return _log_ticks(self.low, self.high, most) if self.is_log else _linear_ticks(self.low, self.high, most)


def linear(values: Sequence[float], start: float, end: float, *, from_zero: bool = False) -> Scale:
    """A linear axis around some values."""
    low, high = (0.0 if from_zero else min(values, default=0.0)), max(values, default=1.0)
    return Scale(low, high if high > low else low + 1.0, start, end)


def logarithmic(values: Sequence[float], start: float, end: float) -> Scale:
    """A logarithmic axis around some values above 0, with a little room at both ends."""
    low, high = min(values, default=1.0), max(values, default=10.0)
    room = max((high / low) ** 0.06, 1.05)
    return Scale(low / room, high * room, start, end, is_log=True)


def number(value: float) -> str:
    """A tick's number: ``0.5``, ``20``, ``1,200``, ``2.5M``."""
    if value == 0:
        return "0"
    if abs(value) >= 1e6:
        return f"{value / 1e6:g}M"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    step = _round_up((high - low) / max(most, 1))
    first = math.ceil(low / step - 1e-9)
    return [place * step for place in range(first, math.floor(high / step + 1e-9) + 1)]


def _log_ticks(low: float, high: float, most: int) -> list[float]:
    """Powers of ten where there are enough of them, else 1, 2 and 5 of each, else as on a linear axis."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    for factors in ((1.0,), (1.0, 2.0, 5.0)):
        found = [factor * 10.0**power for power in powers for factor in factors if low <= factor * 10.0**power <= high]
        if len(found) >= 3:
            return found[:: -(-len(found) // most)]
    return [tick for tick in _linear_ticks(low, high, most) if tick > 0]


def _round_up(step: float) -> float:
    power = 10.0 ** math.floor(math.log10(step))
    return next(factor * power for factor in _STEPS if factor * power >= step * (1 - 1e-9))
