"""Owns what a misspelt word probably means."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

from workbench.escaping import plain

_SHOWN = 3
_LONGEST = 200
_LIKENESS = 0.5


def near_misses(word: str, known: Iterable[str]) -> str:
    """``Did you mean …?``, or nothing if nothing is near."""
    in_lower_case = {name.lower(): name for name in sorted(known)}
    near = difflib.get_close_matches(word[:_LONGEST].lower(), in_lower_case, n=_SHOWN, cutoff=_LIKENESS)
    return f"Did you mean {' or '.join(plain(in_lower_case[name]) for name in near)}?" if near else ""
