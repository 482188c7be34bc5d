"""What is left of a search that an old tuner did: what it called the tasks, and how the latency of the whole model fell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.records.decode import decode

OLD_SEARCH_DOCUMENT = "old_search"
"""Name of the store's document that holds an `OldSearch`."""

AUTO_SCHEDULER, AUTOTVM = "auto_scheduler", "AutoTVM"


@dataclass(frozen=True)
class ListedTask:
    """A task as an old tuner listed it.

    Attributes:
        tuner: ``auto_scheduler`` or ``AutoTVM``.
        name: Its description, e.g. ``vm_mod_fused_nn_dense_add``, or its template, e.g. ``conv2d_NCHWc.x86``.
        key: Its workload key, or the template's arguments, as JSON text.
        weight: How often the list says that the network calls it; None where it does not.
        space_size: Size of the template's space; None where the list does not say it.
    """

    tuner: str
    name: str
    key: str
    weight: int | None = None
    space_size: int | None = None

    def __str__(self) -> str:
        if self.tuner == AUTO_SCHEDULER:
            return f"weight {self.weight} desc {self.name} key {self.key}"
        return f"{self.name} {self.key}"


@dataclass(frozen=True)
class LatencyPoint:
    """The whole model at one time of a search: seconds since its start, estimated latency (None before every task has a valid trial), trials."""

    elapsed_s: float
    latency_us: float | None
    trials: int


@dataclass(frozen=True)
class OldSearch:
    """What belongs to the whole model, or to none of its rows.

    Attributes:
        curve: The estimated latency over the search.
        unmatched: Listed tasks that no row, or more than one kind of them, can be.
    """

    curve: tuple[LatencyPoint, ...] = ()
    unmatched: tuple[ListedTask, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {"curve": [vars(point).copy() for point in self.curve], "unmatched": [vars(task).copy() for task in self.unmatched]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> OldSearch:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)
