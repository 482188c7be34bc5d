"""Numbers as a Python user gives them - plain ones and those of NumPy and pandas, but neither texts nor True - and times as all readers see them."""

from __future__ import annotations

import math
import numbers
import operator
from typing import Any

_MOST_DECIMALS = 8
_LARGEST_PLAIN = 1e12


def whole(value: Any) -> int | None:
    """The value as a whole number; None if it is none."""
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def real(value: object) -> float | None:
    """The value as a number, which may be infinite or NaN; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floats
        return None


def microseconds(value: float, *, decimals: int = 2) -> str:
    """A time with separators and so many decimals; a short one with as many as two digits of it need: ``1,234.57``, ``0.0042``."""
    if 0 < abs(value) < 10.0 ** (1 - decimals):
        needed = 1 - math.floor(math.log10(abs(value)))
        return f"{value:.{needed}f}" if needed <= _MOST_DECIMALS else f"{value:.1e}"
    return f"{value:,.{decimals}f}" if abs(value) < _LARGEST_PLAIN else f"{value:.3e}"
