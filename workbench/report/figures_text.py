"""Numbers in a report's sentences and tables."""

from __future__ import annotations

NONE = "-"


def microseconds(value: float | None) -> str:
    """A time with the digits that count: ``1,204``, ``12.35``, ``0.4312``."""
    if value is None:
        return NONE
    digits = 0 if value >= 1000 else 1 if value >= 100 else 2 if value >= 10 else 3 if value >= 1 else 4
    return f"{value:,.{digits}f}"


def milliseconds(value_us: float | None) -> str:
    """A time of the whole model in milliseconds."""
    return NONE if value_us is None else f"{value_us / 1e3:,.2f} ms"


def times(before: float | None, after: float | None) -> str:
    """How many times as fast."""
    return NONE if not before or not after else f"{before / after:.2f}x"


def percent(value: float | None) -> str:
    """A share of a hundred."""
    return NONE if value is None else f"{value:.1f} %"


def plural(number: int, word: str) -> str:
    """A number with its word."""
    return f"{number:,} {word}" if number == 1 else f"{number:,} {word}s"
