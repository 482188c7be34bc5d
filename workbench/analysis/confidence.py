"""Medians, their confidence, and verdicts that respect noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

_NOTCH = 1.57
"""Half-width of the notch of McGill, Tukey and Larsen (1978), in IQR / sqrt(n): about a 95 % interval of the median."""

_HOPELESS = 1.25
"""A candidate whose first time is so many times the best is not timed again."""

CONTENDER = 1.05
"""Up to so many times the best, a candidate is timed until its median is known well."""

CLEARLY = 3.0
"""So many times as fast needs no statistics: noise does not do that."""

_FEW = 3
_PRECISION = 0.01


@dataclass(frozen=True)
class Spread:
    """A median with its spread.

    Attributes:
        median: Of the values.
        iqr: Distance between the quartiles; 0 for one value.
        half_width: Half of the median's confidence interval; infinite for fewer than three values.
    """

    median: float
    iqr: float
    half_width: float


def spread(values: Sequence[float]) -> Spread:
    """Median, quartile distance and confidence of at least one value."""
    median = statistics.median(values)
    if len(values) < 2:
        return Spread(median, 0.0, math.inf)
    lower, _, upper = statistics.quantiles(values, n=4, method="inclusive")
    iqr = upper - lower
    return Spread(median, iqr, _NOTCH * iqr / math.sqrt(len(values)) if len(values) >= _FEW else math.inf)


def is_enough(times: Sequence[float], *, best: float | None, most: int) -> bool:
    """True if a candidate needs no more measured times: it is hopeless, clearly no contender, or known well.

    Args:
        times: What was measured so far.
        best: The best median so far; None if there is none.
        most: Most measured times.
    """
    if len(times) >= most:
        return True
    if not times:
        return False
    if is_hopeless(min(times), best=best):
        return True
    if len(times) < min(_FEW, most):
        return False
    if best is not None and min(times) > CONTENDER * best:
        return True
    known = spread(times)
    return known.half_width <= _PRECISION * known.median


def is_hopeless(time: float, *, best: float | None) -> bool:
    """True if one measured time is enough to know that a candidate will not win."""
    return best is not None and time > _HOPELESS * best


@dataclass(frozen=True)
class Verdict:
    """Two medians compared.

    Attributes:
        faster: True if the second is less than the first by more than the noise.
        ratio: The first divided by the second.
        ratio_error: Half-width of the ratio's confidence interval; None where no spread is known.
        text: The verdict in a sentence.
    """

    faster: bool
    ratio: float
    ratio_error: float | None
    text: str


def compare(before: Sequence[float], after: Sequence[float]) -> Verdict:
    """Say whether `after` is faster than `before`; both in microseconds, measured by turns, at least one value each."""
    first, second = spread(before), spread(after)
    ratio = first.median / second.median
    if math.isinf(first.half_width) and min(before) > CLEARLY * max(after):
        times = "once" if len(before) == 1 else f"{len(before)} times"
        text = f"{ratio:.2f}x as fast: {first.median:,.1f} to {second.median:,.1f} us, the slow one measured {times}"
        return Verdict(faster=True, ratio=ratio, ratio_error=None, text=text)
    if math.isinf(first.half_width) or math.isinf(second.half_width):
        text = f"{ratio:.2f}x as fast ({first.median:,.1f} to {second.median:,.1f} us), measured too few times to know the noise"
        return Verdict(faster=False, ratio=ratio, ratio_error=None, text=text)
    noise = math.hypot(first.half_width, second.half_width)
    error = ratio * math.hypot(first.half_width / first.median, second.half_width / second.median)
    figures = f"{first.median:,.1f} to {second.median:,.1f} us"
    if first.median - second.median > noise:
        return Verdict(faster=True, ratio=ratio, ratio_error=error, text=f"{ratio:.2f}x +- {error:.2f} as fast: {figures}")
    if second.median - first.median > noise:
        return Verdict(faster=False, ratio=ratio, ratio_error=error, text=f"slower: {figures}")
    return Verdict(faster=False, ratio=ratio, ratio_error=error, text=f"no difference beyond the noise: {figures}")
