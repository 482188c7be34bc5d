"""Numbers as a Python user gives them: plain ones and those of NumPy and pandas, but neither texts nor True."""

from __future__ import annotations

import numbers


def whole(value: object) -> int | None:
    """The value as a whole number; None if it is none."""
    return None if isinstance(value, bool) or not isinstance(value, numbers.Integral) else int(value)


def real(value: object) -> float | None:
    """The value as a number, which may be infinite or NaN; None if it is none."""
    if isinstance(value, bool) or not isinstance(value, numbers.Real):
        return None
    try:
        return float(value)
    except OverflowError:  # a whole number beyond all floats
        return None
