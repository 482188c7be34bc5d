"""What kernels are built for: TVM's target as plain JSON, with a name for directories and one for people."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.records.decode import decode


@dataclass(frozen=True)
class TargetSpec:
    """One resolved target.

    Attributes:
        kind: TVM's target kind: ``llvm``, ``cuda`` or another.
        config: TVM's target dict as JSON text with sorted keys, so that equal targets are equal text.
        label: Short and safe as a directory name: ``cpu``, ``llvm-skylake-avx512``, ``cuda-sm_90``.
        description: For headers: ``llvm znver5, 2 threads``, ``cuda sm_90``.
        remarks: What was dropped or assumed on the way from the user's text; empty in most cases.
    """

    kind: str
    config: str
    label: str
    description: str
    remarks: tuple[str, ...] = ()

    @property
    def options(self) -> dict[str, Any]:
        """TVM's target dict, a fresh copy each time."""
        return dict(json.loads(self.config))

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values; the config as an object, not as text."""
        return {
            "kind": self.kind,
            "config": self.options,
            "label": self.label,
            "description": self.description,
            "remarks": list(self.remarks),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TargetSpec:
        """The inverse of `to_dict`; raises DecodeError."""
        stored = decode(_Stored, values)
        return cls(stored.kind, json.dumps(stored.config, sort_keys=True), stored.label, stored.description, stored.remarks)


@dataclass(frozen=True)
class _Stored:
    """A target as `TargetSpec.to_dict` writes it."""

    kind: str
    config: dict[str, Any]
    label: str
    description: str
    remarks: tuple[str, ...] = ()
