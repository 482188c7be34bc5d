"""What makes measured times comparable: times of other conditions are kept, and never compared."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from workbench.escaping import plain
from workbench.records.decode import decode
from workbench.records.trial import MeasureOptions

_CPU = "llvm"


@dataclass(frozen=True)
class Conditions:
    """Under what a search measures.

    Attributes:
        engine: Name of the engine.
        versions: Versions of TVM and of what it depends on.
        target: TVM's target dict as JSON text with sorted keys.
        kind: TVM's target kind.
        threads: Threads that run the kernels on a CPU.
        devices: Names of the processors that kernels may run on: one for a CPU, that of each device for a GPU.
        device: Index of the one that they run on.
        cold: True if the caches are flushed before each measured time.
    """

    engine: str
    versions: Mapping[str, str]
    target: str
    kind: str
    threads: int
    devices: tuple[str, ...]
    device: int
    cold: bool

    @property
    def digest(self) -> str:
        """What trials are marked with: equal digests, comparable times."""
        devices = self.devices[0] if self.kind == _CPU and self.devices else list(self.devices)
        facts = [self.engine, dict(self.versions), self.target, self.threads, devices, self.device, self.cold]
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def differences(self, other: Conditions) -> tuple[str, ...]:
        """In what other conditions differ from these, in words."""
        found = list(self.differences_of_options(device=other.device, cold=other.cold))
        if other.threads != self.threads:
            found.append(f"{_threads(other.threads)} instead of {self.threads}")
        if other.devices != self.devices:
            found.append(f"{_names(other.devices)} instead of {_names(self.devices)}")
        names = sorted({*self.versions, *other.versions})
        found += [
            f"{plain(name)} {plain(other.versions.get(name, 'unknown'))} instead of {plain(self.versions.get(name, 'unknown'))}"
            for name in names
            if other.versions.get(name) != self.versions.get(name)
        ]
        if other.engine != self.engine:
            found.append(f"engine {plain(other.engine)} instead of {plain(self.engine)}")
        if other.target != self.target:
            found.append("another target")
        return tuple(found)

    def differences_of_options(self, *, device: int, cold: bool) -> tuple[str, ...]:
        """In what measure options alone differ from these conditions, in words."""
        found = []
        if cold != self.cold:
            found.append("cold caches instead of warm ones" if cold else "warm caches instead of cold ones")
        if device != self.device:
            found.append(f"device {device} instead of {self.device}")
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {**vars(self), "versions": dict(self.versions), "devices": list(self.devices)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Conditions:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


Differences = Callable[[str, MeasureOptions], tuple[str, ...]]
"""In what the conditions of a trial, by its digest and its options, differ from the present ones, in words; empty if that is not known."""


def unknown_differences(digest: str, options: MeasureOptions) -> tuple[str, ...]:
    """`Differences` where nothing is known of any conditions."""
    del digest, options
    return ()


@dataclass(frozen=True)
class KnownConditions:
    """The conditions of a search, and those that the session's earlier ones are known to have had.

    Attributes:
        present: Those of the search.
        earlier: Others, by their digests.
    """

    present: Conditions
    earlier: Mapping[str, Conditions]

    def differences(self, digest: str, options: MeasureOptions) -> tuple[str, ...]:
        """See `Differences`: what the options say is known of every trial, the rest of those whose conditions the session has noted."""
        earlier = self.earlier.get(digest)
        if earlier is None:
            return self.present.differences_of_options(device=options.device, cold=options.cache_flush)
        return self.present.differences(earlier)


def _threads(count: int) -> str:
    return f"{count} thread{'' if count == 1 else 's'}"


def _names(devices: tuple[str, ...]) -> str:
    return ", ".join(map(plain, devices)) or "no device"
