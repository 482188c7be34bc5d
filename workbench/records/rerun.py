"""A recorded trial, lowered and measured again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.records.decode import decode
from workbench.records.trial import OK, Check


@dataclass(frozen=True)
class Rerun:
    """How far a trial is from its record now; times are of one call, in microseconds.

    Attributes:
        task: The task.
        kernel: Name of its first kernel, which was run.
        trial: Number of the trial; 0 is the untuned kernel.
        status: ``ok``, or what went wrong: one of `workbench.records.trial.FAILURES`.
        error: Full text of what went wrong; empty if nothing did.
        recorded_us: Median in the record; None if it has none.
        recorded_us_iqr: Its spread.
        recorded_status: Status in the record.
        measured_us: Median now; None if it was not measured.
        measured_us_iqr: Its spread.
        distance_percent: How much more time it takes now than in the record; negative if it is less.
        distance: The same in a sentence.
        baseline_us: Median of the untuned kernel now, measured by turns with the trial.
        baseline_us_iqr: Its spread.
        gain: The trial beside the untuned kernel now, in a sentence.
        same_conditions: True if versions, target, threads, device and caches are those of the record.
        check: Its output beside the untuned kernel's; None for the untuned kernel.
    """

    task: str
    kernel: str
    trial: int
    status: str
    error: str = ""
    recorded_us: float | None = None
    recorded_us_iqr: float | None = None
    recorded_status: str = ""
    measured_us: float | None = None
    measured_us_iqr: float | None = None
    distance_percent: float | None = None
    distance: str = ""
    baseline_us: float | None = None
    baseline_us_iqr: float | None = None
    gain: str = ""
    same_conditions: bool = False
    check: Check | None = None

    @property
    def passed(self) -> bool:
        """True if it ran and its output is right."""
        return self.status == OK

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Rerun:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)
