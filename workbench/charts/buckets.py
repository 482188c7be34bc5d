"""Which of many points a chart draws: those that matter, so that no best and no outlier is lost."""

from __future__ import annotations

import numpy as np

from workbench.charts.columns import Floats, Integers

View = tuple[float, float]
_SHARE_OUTSIDE = 4


def extremes(y: Floats, most: int) -> Integers:
    """Places of the smallest, the largest and the last value of each of so many equal stretches that at most `most` places remain."""
    count = len(y)
    if count <= most:
        return np.arange(count)
    buckets = max(most // 3, 1)
    width = -(-count // buckets)
    buckets = -(-count // width)
    padded = np.pad(y, (0, buckets * width - count), mode="edge").reshape(buckets, width)
    starts = np.arange(buckets) * width
    last = np.minimum(starts + width, count) - 1
    places = np.concatenate([starts + padded.argmin(axis=1), starts + padded.argmax(axis=1), last])
    return np.unique(np.minimum(places, count - 1))


def occupied(x: Floats, most: int) -> Integers:
    """Places of the first point of each of `most` equal stretches of the axis that has any: where all points look alike."""
    if len(x) <= most:
        return np.arange(len(x))
    low, high = float(x[0]), float(x[-1])
    stretch = np.floor((x - low) / max(high - low, 1e-12) * most)
    return np.unique(np.concatenate([np.unique(stretch, return_index=True)[1], [len(x) - 1]]))


def in_view(x: Floats, y: Floats, most: int, view: View | None) -> Integers:
    """As `extremes` for points in the order of `x`, finer within the part of the axis that is looked at.

    Args:
        x: Rising.
        y: Of the same length.
        most: Most places that remain of what is looked at; half as many again remain of the rest.
        view: Both ends of the part that is looked at; None for all.
    """
    if view is None:
        return extremes(y, most)
    first, last = int(np.searchsorted(x, view[0])), int(np.searchsorted(x, view[1])) + 1
    last = min(max(last, first), len(x))
    around = max(most // _SHARE_OUTSIDE, 3)
    parts = [
        extremes(y[:first], around),
        extremes(y[first:last], most) + first,
        extremes(y[last:], around) + last,
    ]
    return np.concatenate(parts).astype(np.int64)
