"""How surely an imported row is what it is said to be, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.records.decode import decode

MATCHES_DOCUMENT = "matches"
"""Name of the store's document that holds `RowMatches`."""

SURE = 0.9
"""A row that is matched less surely is ambiguous."""


@dataclass(frozen=True)
class RowMatch:
    """What ties an imported row to operators and a task of the program.

    Attributes:
        confidence: From 0 (nothing does) to 1 (nothing else can be meant).
        evidence: What speaks for it, in words.
        alternatives: Other tasks that it could be.
    """

    confidence: float
    evidence: tuple[str, ...]
    alternatives: tuple[str, ...] = ()

    @property
    def is_ambiguous(self) -> bool:
        """True if it is tied to something, and could be something else."""
        return 0 < self.confidence < SURE

    @property
    def words(self) -> str:
        """The evidence as a sentence; what is ambiguous says so, and what else it could be."""
        told = "; ".join(self.evidence)
        if not self.is_ambiguous:
            return told
        return f"ambiguous: {told}" + (f"; it could be {', '.join(self.alternatives)}" if self.alternatives else "")

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {"confidence": self.confidence, "evidence": list(self.evidence), "alternatives": list(self.alternatives)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RowMatch:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


@dataclass(frozen=True)
class RowMatches:
    """The matches of all rows.

    Attributes:
        rows: By the row's number, as a text.
    """

    rows: Mapping[str, RowMatch]

    @property
    def by_row(self) -> dict[int, RowMatch]:
        """By the row's number."""
        return {int(row): match for row, match in self.rows.items() if row.isdecimal()}

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {"rows": {row: match.to_dict() for row, match in self.rows.items()}}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RowMatches:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)
