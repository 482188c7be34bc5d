"""What a device can do at most, as measured: arithmetic and memory."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.records.decode import decode

_STEADY = 0.9


@dataclass(frozen=True)
class Rate:
    """A measured rate with its spread.

    Attributes:
        best: The highest of the repeats: what disturbs a measurement only slows it down.
        median: The usual one.
        iqr: Distance between the quartiles.
        repeats: Number of repeats.
    """

    best: float
    median: float
    iqr: float
    repeats: int


@dataclass(frozen=True)
class Bandwidth:
    """A measured rate of reading and writing memory.

    Attributes:
        bytes_per_s: The rate, each byte that the kernel names counted once.
        working_set_bytes: Size of all arrays together.
        place: Where they lie: ``L2``, ``L3``, ``memory``.
    """

    bytes_per_s: Rate
    working_set_bytes: int
    place: str


@dataclass(frozen=True)
class Peaks:
    """The limits of one device.

    Attributes:
        device: What it is, for people.
        key: Digest of what the figures depend on; equal keys have equal limits.
        threads: Threads that ran the kernels; 0 on a GPU.
        flop_per_s: Fused multiply-adds of 32-bit floats, each two operations; None if not measured.
        bandwidths: By size of the working set, smallest first; empty if not measured.
        method: How it was measured, in one sentence.
        measured_at: Unix time.
        unmeasured: Why there are no figures; empty if there are.
    """

    device: str
    key: str
    threads: int
    flop_per_s: Rate | None
    bandwidths: tuple[Bandwidth, ...]
    method: str
    measured_at: float
    unmeasured: str = ""

    @property
    def steady(self) -> bool:
        """True if half of the repeats came near the best one: a machine that was busy has figures of the moment alone."""
        return self.flop_per_s is not None and self.flop_per_s.median >= _STEADY * self.flop_per_s.best

    @property
    def known(self) -> bool:
        """True if there are figures."""
        return self.flop_per_s is not None and bool(self.bandwidths)

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self) | {"bandwidths": [asdict(bandwidth) for bandwidth in self.bandwidths]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Peaks:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)
