"""Trials: measured or failed candidate schedules, how they were measured, and whether their output was right."""

from __future__ import annotations

import statistics
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from workbench.records.decode import decode

OK = "ok"
UNMEASURED = "unmeasured"
BUILD_ERROR = "build_error"
BUILD_TIMEOUT = "build_timeout"
RUN_ERROR = "run_error"
RUN_TIMEOUT = "run_timeout"
WRONG_RESULT = "wrong_result"
REJECTED = "rejected"
DEVICE_LOST = "device_lost"

FAILURES = (BUILD_ERROR, BUILD_TIMEOUT, RUN_ERROR, RUN_TIMEOUT, WRONG_RESULT, REJECTED, DEVICE_LOST)

BASELINE = 0
"""Number of the trial that is the untuned kernel (on a GPU: with dlight's default schedule)."""


@dataclass(frozen=True)
class MeasureOptions:
    """How candidates are measured; stored with each trial.

    Attributes:
        number: Runs that one measured time is the mean of; None lets the kernel's own time and `min_repeat_ms` decide.
        repeat: Most measured times of one trial; a trial gets fewer once its median is known well enough, or is clearly hopeless.
        min_repeat_ms: Least duration of the runs behind one measured time.
        timeout_s: Longest time that a trial may run altogether.
        build_timeout_s: Longest time that building a trial may take.
        cooldown_ms: Pause before each trial.
        cache_flush: True runs with cold caches: they are flushed before each measured time, and `number` is 1.
        device: Index of the device.
    """

    number: int | None = None
    repeat: int = 10
    min_repeat_ms: float = 10.0
    timeout_s: float = 10.0
    build_timeout_s: float = 30.0
    cooldown_ms: float = 0.0
    cache_flush: bool = False
    device: int = 0

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> MeasureOptions:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


@dataclass(frozen=True)
class Check:
    """A candidate's output beside the untuned kernel's on the same random inputs.

    Attributes:
        max_abs: Largest absolute difference; None if it is no number (NaN in one of the two).
        max_rel: Largest difference relative to the untuned kernel's value; None as above.
        mismatches: Elements that differ by more than the tolerance.
        elements: Elements compared.
        abs_tolerance: Difference that is allowed everywhere.
        rel_tolerance: Difference that is allowed in addition, relative to the untuned kernel's value.
    """

    max_abs: float | None
    max_rel: float | None
    mismatches: int
    elements: int
    abs_tolerance: float
    rel_tolerance: float

    @property
    def passed(self) -> bool:
        """True if nothing differs by more than the tolerance."""
        return self.mismatches == 0

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self)


@dataclass(frozen=True)
class Trial:
    """One candidate schedule of one task, measured or failed.

    Attributes:
        task: The task.
        number: Number within the task, in order of measurement; 0 is the baseline.
        status: ``ok``, ``unmeasured`` (built and checked only), or one of `FAILURES`.
        error: Full text of what went wrong, or why the output of one that is unmeasured could not be checked; empty otherwise.
        fingerprint: Structural hash of the scheduled module in hexadecimal: equal schedules are one candidate.
        origin: Where the candidate is from: ``baseline``, ``search``, ``transfer`` (a record of another search) or ``user`` (a schedule function).
        conditions: Digest of what makes times comparable: engine and versions, target, threads, device and its index, cold or warm caches.
        times_us: Every measured time, each the mean of `runs` runs; empty if there is none.
        runs: Runs behind each measured time.
        search_s: Its share of the seconds that generating candidates took.
        build_s: Seconds that building took.
        run_s: Seconds in the measuring process, check and warm-up included.
        check: Its output beside the untuned kernel's; None if it was not compared, as the baseline is.
        best_us: Lowest median of the task's trials so far, this one included; None while there is none.
        measured_at: Unix time.
        decisions: Sampling decisions of the schedule in order, e.g. ``("tile 1 4 7 2", "unroll 64")``.
        options: How it was measured.
    """

    task: str
    number: int
    status: str
    error: str
    fingerprint: str
    origin: str
    conditions: str
    times_us: tuple[float, ...]
    runs: int
    search_s: float
    build_s: float
    run_s: float
    check: Check | None
    best_us: float | None
    measured_at: float
    decisions: tuple[str, ...] = ()
    options: MeasureOptions = field(default_factory=MeasureOptions)

    @property
    def time_us(self) -> float | None:
        """Median of the measured times of a trial that is ok; None otherwise."""
        return statistics.median(self.times_us) if self.status == OK and self.times_us else None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values, without the trace."""
        values = asdict(self)
        values["times_us"] = list(self.times_us)
        values["decisions"] = list(self.decisions)
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Trial:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)
