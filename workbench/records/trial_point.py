"""A trial as a chart needs it: where and when it was measured, and what came out; thousands of them are read in one go."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TrialPoint:
    """One trial without its texts.

    Attributes:
        cursor: Its place in the session; grows with every trial that is stored.
        task: The task.
        number: Number within the task.
        status: As `workbench.records.trial.Trial.status`.
        origin: As `workbench.records.trial.Trial.origin`.
        conditions: Digest of what makes times comparable.
        measured_at: Unix time.
        time_us: Median of its times; None if it has none or failed.
    """

    cursor: int
    task: str
    number: int
    status: str
    origin: str
    conditions: str
    measured_at: float
    time_us: float | None
