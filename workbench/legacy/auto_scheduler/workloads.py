"""The workloads of an auto_scheduler log: its records by what they are of, the fastest first."""

from __future__ import annotations

import statistics
from collections.abc import Iterable
from dataclasses import dataclass

from workbench.legacy.auto_scheduler.log import AutoSchedulerRecord
from workbench.records.trial import OK


@dataclass(frozen=True)
class LoggedRecord:
    """A record that was right.

    Attributes:
        record: The record.
        time_us: Its time, as the log has it.
    """

    record: AutoSchedulerRecord
    time_us: float


@dataclass(frozen=True)
class LoggedWorkload:
    """All records of one workload for one target.

    Attributes:
        key: The workload key.
        target: Target string of old TVM.
        records: Those that were right, fastest first.
        failed: How many were not.
    """

    key: str
    target: str
    records: tuple[LoggedRecord, ...]
    failed: int

    @property
    def kind(self) -> str:
        """Kind of the target: ``llvm``."""
        return self.target.split(maxsplit=1)[0] if self.target.split() else ""


def logged_workloads(records: Iterable[AutoSchedulerRecord]) -> tuple[LoggedWorkload, ...]:
    """The workloads in the order of the log."""
    members: dict[tuple[str, str], list[AutoSchedulerRecord]] = {}
    for record in records:
        members.setdefault((record.workload_key, record.target), []).append(record)
    return tuple(_workload(key, target, found) for (key, target), found in members.items())


def _workload(key: str, target: str, found: list[AutoSchedulerRecord]) -> LoggedWorkload:
    right = [LoggedRecord(record, 1e6 * statistics.fmean(record.result.times_s)) for record in found if record.result.status == OK]
    return LoggedWorkload(key, target, tuple(sorted(right, key=lambda item: item.time_us)), len(found) - len(right))
