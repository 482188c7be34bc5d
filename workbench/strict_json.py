"""JSON as its standard has it, of which Python's own reader takes more than there is."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def loads(text: Any, *, unique_keys: bool = False) -> Any:
    """A value from JSON text.

    Args:
        text: The text.
        unique_keys: True refuses an object that has a key twice.

    Raises:
        ValueError: It is no JSON: ``NaN`` and infinities are none.
        RecursionError: It is nested too deeply.
    """
    return json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_without_repeats if unique_keys else None)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a JSON value")


def _without_repeats(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise ValueError("a key stands twice in one object")
    return values
