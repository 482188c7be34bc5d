"""Values as the store keeps them: JSON with finite numbers only, in both directions, and text that SQLite can hold."""

from __future__ import annotations

import json
from typing import Any

from workbench import strict_json


def dumps(value: Any) -> str:
    """A value as JSON text; raises ValueError for a number that is not finite."""
    return json.dumps(value, allow_nan=False)


def loads(text: Any) -> Any:
    """A value from JSON text; raises ValueError for anything that `dumps` does not write."""
    return strict_json.loads(text)


def loads_or_none(text: Any) -> Any:
    """As `loads`, with None for an empty column."""
    return None if text is None else loads(text)


def column(text: str | None) -> str | None:
    """A text that SQLite can hold in a column of its own: a name may have half a character in it, which no UTF-8 has."""
    return None if text is None else text.encode("utf-8", "backslashreplace").decode("utf-8")
