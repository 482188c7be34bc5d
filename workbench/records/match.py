"""How surely an imported row is what it is said to be, and why."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.records.decode import decode


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

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {"confidence": self.confidence, "evidence": list(self.evidence), "alternatives": list(self.alternatives)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> RowMatch:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)
