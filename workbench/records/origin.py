"""Where a kernel came from in the user's own model."""

from __future__ import annotations

from dataclasses import dataclass


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
    def from_dict(cls, values: dict[str, str]) -> Origin:
        """The inverse of `to_dict`."""
        return cls(op=values["op"], name=values["name"], location=values.get("location", ""))
