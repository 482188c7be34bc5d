"""JSON as the store keeps it: finite numbers only, in both directions."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def dumps(value: Any) -> str:
    """A value as JSON text; raises ValueError for a number that is not finite."""
    return json.dumps(value, allow_nan=False)


def loads(text: Any) -> Any:
    """A value from JSON text; raises ValueError for anything that `dumps` does not write."""
    return json.loads(text, parse_constant=_refuse_constant)


def loads_or_none(text: Any) -> Any:
    """As `loads`, with None for an empty column."""
    return None if text is None else loads(text)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is no JSON value")
