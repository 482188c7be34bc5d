"""Calls of the command line within the process of a test, and what they gave."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """What a call of the command line gave."""

    code: int
    out: str
    err: str
