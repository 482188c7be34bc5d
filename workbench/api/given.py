"""What a Python user gives as a plain value, NumPy's numbers included, or an error that names it and says what to give instead."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

from workbench.errors import InputError, SelectionError
from workbench.escaping import plain_value
from workbench.records.number import real, whole
from workbench.selection import parse_rows

LARGEST_WHOLE = 2**63 - 1
_ROWS = 'Give row numbers, as in rows=[0, 2] or rows="0,2,5-9".'


def whole_number(name: str, value: object, *, least: int, most: int = LARGEST_WHOLE) -> int:
    """A whole number from `least` to `most`; raises InputError for anything else."""
    number = whole(value)
    if number is None or not least <= number <= most:
        raise InputError(f"{name} is {plain_value(value)}.", f"Give a whole number from {least} to {most}.")
    return number


def duration(name: str, value: object) -> float | None:
    """Seconds, none or more; None stays. Raises InputError for anything else."""
    if value is None:
        return None
    number = real(value)
    if number is None or not math.isfinite(number) or number < 0:
        raise InputError(f"{name} is {plain_value(value)}.", "Give seconds from 0, or None for no limit.")
    return number


def switch(name: str, value: object) -> bool:
    """True or False; raises InputError for anything else."""
    if not isinstance(value, bool):
        raise InputError(f"{name} is {plain_value(value)}.", "Give True or False.")
    return value


def text(name: str, value: object) -> str:
    """A text; raises InputError for anything else."""
    if not isinstance(value, str):
        raise InputError(f"{name} is {plain_value(value)}.", "Give a text.")
    return value


def names(rule: str, values: object) -> tuple[str, ...] | None:
    """Names from a lone one or from any iterable; None stays.

    Raises:
        SelectionError: They are none.
    """
    if values is None:
        return None
    given = (values,) if isinstance(values, str) else tuple(values) if isinstance(values, Iterable) else (None,)
    if not all(isinstance(name, str) for name in given):
        raise SelectionError(f"{rule} is {plain_value(values)}.", f'Give a name or a list of names, as in {rule}=["conv2d"].')
    return given


def row_numbers(values: object, count: int) -> tuple[int, ...]:
    """Row numbers from a lone one, from any iterable, or from a text such as ``0,2,5-9``.

    Args:
        values: What was given.
        count: Number of rows that a text may name.

    Raises:
        SelectionError: They are none.
    """
    if isinstance(values, str):
        return parse_rows(values, count)
    alone = whole(values)
    given: Iterable[Any] = (alone,) if alone is not None else tuple(values) if isinstance(values, Iterable) else (values,)
    numbers = []
    for value in given:
        number = whole(value)
        if number is None:
            raise SelectionError(f"{plain_value(value)} is no row number.", _ROWS)
        numbers.append(number)
    return tuple(numbers)


def plain_number(value: Any, *, is_whole: bool) -> Any:
    """A number as Python's own; anything else stays, to be refused by whoever knows its limits."""
    number = whole(value) if is_whole else real(value)
    return value if number is None else number
