"""Where a kernel came from in the user's own model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.records.decode import decode


@dataclass(frozen=True)
class Origin:
    """One operator of the source model.

    Attributes:
        op: Operator type in the source's own words: ``Conv`` (ONNX), ``nn.conv2d`` (Relay), ``matmul`` (Relax), a TE stage.
        name: ONNX node name (its first output where the node has none, or shares it with another), Relay variable, Relax binding, TE tensor.
        location: Where it stands in a text, e.g. ``line 12``; empty where the source has no text.
    """

    op: str
    name: str
    location: str = ""

    def __str__(self) -> str:
        place = f" ({self.location})" if self.location else ""
        return f"{self.op} {self.name}{place}"

    def to_dict(self) -> dict[str, str]:
        """The record as JSON-ready values."""
        return {"op": self.op, "name": self.name, "location": self.location}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Origin:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)
