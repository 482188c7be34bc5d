"""Medians, their confidence, and verdicts that respect noise."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.records.number import microseconds

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

_RANKED = 5
"""From so many values of each on, the ranks of two samples say something."""

_SURELY = 3.09
"""Standard deviations of the rank statistic that chance exceeds once in a thousand times."""

_USUALLY = 1.96
"""Those that chance exceeds, in either direction, once in twenty times."""

_VAGUE = 0.5
"""With an error above this share of itself, a ratio is told by its lower bound alone."""

_RESTLESS = 0.5
"""Quartiles further apart than this share of the median are a busy machine's."""


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
        slower: True if it is more than the first by more than the noise.
        ratio: The first divided by the second.
        ratio_error: Half-width of the ratio's confidence interval; None where no spread is known.
        text: The verdict in a sentence.
    """

    faster: bool
    ratio: float
    ratio_error: float | None
    text: str
    slower: bool = False


def compare(before: Sequence[float], after: Sequence[float]) -> Verdict:
    """Say whether `after` is faster than `before`; both in microseconds, measured by turns, at least one value each.

    It is if the confidence intervals of the medians are apart, or if the ranks of all values leave no doubt (Mann and Whitney, 1947): single rounds
    that a busy machine spoilt widen the intervals without end, but change few ranks.
    """
    first, second = spread(before), spread(after)
    ratio = first.median / second.median
    figures = f"{microseconds(first.median, decimals=1)} to {microseconds(second.median, decimals=1)} us"
    if math.isinf(first.half_width) and min(before) > CLEARLY * max(after):
        times = "once" if len(before) == 1 else f"{len(before)} times"
        text = f"{ratio:.2f}x as fast: {figures}, the slow one measured {times}"
        return Verdict(faster=True, ratio=ratio, ratio_error=None, text=text)
    if math.isinf(first.half_width) or math.isinf(second.half_width):
        text = f"{ratio:.2f}x as fast ({figures}), measured too few times to know the noise"
        return Verdict(faster=False, ratio=ratio, ratio_error=None, text=text)
    noise = math.hypot(first.half_width, second.half_width)
    error = ratio * math.hypot(first.half_width / first.median, second.half_width / second.median)
    figures += _unrest(first, second)
    if first.median - second.median > noise or _ranks_below(before, after):
        least = _least_ratio(before, after)
        gain = f"{ratio:.2f}x +- {error:.2f}" if error <= _VAGUE * ratio or least is None else f"at least {least:.2f}x"
        return Verdict(faster=True, ratio=ratio, ratio_error=error, text=f"{gain} as fast: {figures}")
    if second.median - first.median > noise or _ranks_below(after, before):
        return Verdict(faster=False, ratio=ratio, ratio_error=error, text=f"slower: {figures}", slower=True)
    return Verdict(faster=False, ratio=ratio, ratio_error=error, text=f"no difference beyond the noise: {figures}")


def _ranks_below(high: Sequence[float], low: Sequence[float]) -> bool:
    """True if the values of `low` are below those of `high` far more often than chance makes them."""
    if min(len(high), len(low)) < _RANKED or statistics.median(low) >= statistics.median(high):
        return False
    below = sum((small < large) + 0.5 * (small == large) for small in low for large in high)
    return below - len(high) * len(low) / 2 > _SURELY * _rank_deviation(high, low)


def _least_ratio(before: Sequence[float], after: Sequence[float]) -> float | None:
    """Lower end of the confidence interval of the ratio that goes with the ranks (Hodges and Lehmann, 1963); None for few values."""
    if min(len(before), len(after)) < _RANKED:
        return None
    ratios = sorted(slow / fast for slow in before for fast in after)
    return ratios[max(0, math.floor(len(ratios) / 2 - _USUALLY * _rank_deviation(before, after)))]


def _rank_deviation(first: Sequence[float], second: Sequence[float]) -> float:
    """Standard deviation of the number of pairs in which one sample is below the other, if both come from one distribution."""
    return math.sqrt(len(first) * len(second) * (len(first) + len(second) + 1) / 12)


def _unrest(first: Spread, second: Spread) -> str:
    worst = max(first.iqr / first.median, second.iqr / second.median)
    return f", on a busy machine: its times vary by {worst:.0%}" if worst > _RESTLESS else ""
