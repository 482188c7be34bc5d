"""What a tuning database holds, as plain data; it knows nothing of files."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

_LEAST_FAILURE_S = 1e9
"""Stock TVM writes 1e10 s where a measurement failed."""


@dataclass(frozen=True)
class Workload:
    """A kernel as it stands in the workload file.

    Attributes:
        structural_hash: TVM's structural hash, a decimal number as text; stock TVM computes it anew and never reads it.
        module: The IRModule in TVM's JSON form, in Base64.
    """

    structural_hash: str
    module: str


@dataclass(frozen=True)
class TuningRecord:
    """A schedule of a workload and how long it took; its parts that are JSON are kept as canonical text, so that equal parts are equal text.

    Attributes:
        workload: The kernel.
        trace_json: TVM's trace, ``[instructions, decisions]``.
        run_secs: Measured times in seconds as in the file; None if the file has null.
        target_json: TVM's target dict, or ``null``.
        args_info_json: Types and shapes of the arguments that were measured with, or ``null``.
        line: Line in the record file, from 1.
    """

    workload: Workload
    trace_json: str
    run_secs: tuple[float, ...] | None
    target_json: str
    args_info_json: str
    line: int

    @property
    def trace(self) -> Any:
        """The trace's JSON value, a fresh copy each time."""
        return json.loads(self.trace_json)

    @property
    def target(self) -> dict[str, Any] | None:
        """The target's dict, a fresh copy each time; None if the record names no target."""
        values: dict[str, Any] | None = json.loads(self.target_json)
        return values

    @property
    def args_info(self) -> Any:
        """The arguments' JSON value, a fresh copy each time."""
        return json.loads(self.args_info_json)

    @property
    def time_us(self) -> float | None:
        """Mean of the measured times, as stock TVM takes it; None where there is none, it failed, or a time is no time (0 s or less)."""
        if not self.run_secs or not all(second > 0 for second in self.run_secs):
            return None
        mean_s = sum(self.run_secs) / len(self.run_secs)
        return mean_s * 1e6 if mean_s < _LEAST_FAILURE_S else None

    @property
    def misleads_stock(self) -> bool:
        """Whether a time is 0 s or less: stock TVM would take such a record for the best."""
        return any(second <= 0 for second in self.run_secs or ())


@dataclass(frozen=True)
class BadLine:
    """A line that cannot be used.

    Attributes:
        file: Name of the file.
        line: Number of the line, from 1.
        reason: What is wrong with it; safe to show.
        text: How it begins; safe to show.
    """

    file: str
    line: int
    reason: str
    text: str


@dataclass(frozen=True)
class Database:
    """What could be used of a database, and what could not.

    Attributes:
        records: In the order of the file.
        bad_lines: First those of the workload file, then those of the record file.
        duplicates: Records left out because another has the same workload, trace and target and is at least as fast.
    """

    records: tuple[TuningRecord, ...] = ()
    bad_lines: tuple[BadLine, ...] = ()
    duplicates: int = 0
