"""What the user asks for: a model, how to lower it, how to measure it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workbench.records.decode import NOT_STORED, decode

RELAX, RELAY = "relax", "relay"
ENGINES = (RELAX, RELAY)
"""Names of the engines: today's TVM, and TVM 0.8 to 0.18."""

IMPORTED = "imported"
"""Kind of a source that is not here: a session of old artifacts shows what they say and can run nothing."""

MOST_THREADS = 1024
"""More would only make TVM's thread pool fail."""
MOST_ROUNDS = 2**31 - 1
"""Most measured rounds of a profile."""


@dataclass(frozen=True)
class ModelSource:
    """Where a model comes from.

    Attributes:
        kind: ``onnx``, ``relay`` (a text), ``relax`` (a TVMScript file), ``relay_json`` (a Relay module as older TVM's
            ``tvm.ir.save_json`` writes it), ``ir_json`` (an IRModule that the user's own process hands over), ``torch`` (a ``torch.export``
            archive), ``workload`` (a named TE workload), ``function`` (a TE function that the user's own process hands over), or `IMPORTED`.
        name: What the user calls it, for tables and directory names.
        path: The file; empty for workloads.
        workload: Bundled name or ``module:function``; empty for files.
        args: Arguments of the workload, plain JSON values; None takes the workload's own defaults.
        shapes: Numbers for inputs with dynamic dimensions.
        trust: True if the user allowed the model's own code to run; never stored, and never read from what is stored.
        stamp: Tells one content from another: size and time of change of a file, digest of a function or of an IRModule.
    """

    kind: str
    name: str
    path: str = ""
    workload: str = ""
    args: tuple[Any, ...] | None = None
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    trust: bool = field(default=False, metadata=NOT_STORED)
    stamp: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {
            "kind": self.kind,
            "name": self.name,
            "path": self.path,
            "workload": self.workload,
            "args": None if self.args is None else list(self.args),
            "shapes": {name: list(shape) for name, shape in self.shapes.items()},
            "stamp": self.stamp,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelSource:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


@dataclass(frozen=True)
class ProfileRequest:
    """Everything that decides what a profile shows.

    Attributes:
        source: The model.
        target: Target as the user wrote it: ``auto``, ``cpu``, ``cuda:sm_90``, a tag, JSON, or TVM's old string form.
        layout: Data layout; ``keep`` leaves the model's own.
        fusion: False keeps one kernel per operator.
        repeat: Measured runs; None lets the time a run takes decide.
        threads: Threads that run the kernels on a CPU.
        seed: Seed of the random inputs, and of random weights.
        engine: The generation of TVM that does the work: one of `ENGINES`.
    """

    source: ModelSource
    target: str = "auto"
    layout: str = "keep"
    fusion: bool = True
    repeat: int | None = None
    threads: int = 1
    seed: int = 0
    engine: str = RELAX

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {
            "source": self.source.to_dict(),
            "target": self.target,
            "layout": self.layout,
            "fusion": self.fusion,
            "repeat": self.repeat,
            "threads": self.threads,
            "seed": self.seed,
            "engine": self.engine,
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ProfileRequest:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)

    def asks_the_same(self, other: ProfileRequest) -> bool:
        """True if a profile made for the one answers the other: everything is equal but the name, the trust and the number of runs."""
        return self._essence() == other._essence()

    def _essence(self) -> ProfileRequest:
        return replace(self, repeat=None, source=replace(self.source, name="", trust=False))
