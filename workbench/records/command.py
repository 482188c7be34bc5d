"""What passes between a front and a worker through the store: commands down, events and answers up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.records.decode import decode

PENDING = "pending"
RUNNING = "running"
DONE = "done"
FAILED = "failed"
CANCELLED = "cancelled"
ABANDONED = "abandoned"
FINAL_STATES = (DONE, FAILED, CANCELLED, ABANDONED)

HELD_UP = "waiting"
"""Kind of the event that tells a front what its command waits for."""


@dataclass(frozen=True)
class Failure:
    """Why a command failed.

    Attributes:
        kind: Class of the error, one of `workbench.errors`, or ``InternalError``.
        message: What happened.
        remedy: What the user can do.
        detail: Full text with the traceback, for ``-v``.
    """

    kind: str
    message: str
    remedy: str = ""
    detail: str = ""

    def to_dict(self) -> dict[str, str]:
        """The record as JSON-ready values."""
        return {"kind": self.kind, "message": self.message, "remedy": self.remedy, "detail": self.detail}

    @classmethod
    def from_dict(cls, values: dict[str, str]) -> Failure:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


@dataclass(frozen=True)
class Command:
    """One command row.

    Attributes:
        command: Number, in order of arrival.
        kind: What to do: ``profile``, ``outputs``.
        arguments: What it needs.
        state: ``pending``, ``running``, ``done``, ``failed``, ``cancelled``, or ``abandoned``: never begun, since the
            worker that took over the session does not know who asked.
        cancelled: True once a front asked for its end.
        result: The worker's answer, if it is done.
        failure: Why it failed, if it did.
    """

    command: int
    kind: str
    arguments: dict[str, Any]
    state: str
    cancelled: bool
    result: dict[str, Any] | None
    failure: Failure | None


@dataclass(frozen=True)
class Event:
    """Something that happened in the worker.

    Attributes:
        event: Number, in order; 0 for what a front finds out itself.
        time_s: Unix time.
        kind: ``progress``, or ``waiting`` while the worker does something else first; a reader passes over kinds that it does not know.
        data: What happened: number of the command, then phase, and share of the phase that is done; or ``behind``, the kind of the other command,
            empty when that has ended.
    """

    event: int
    time_s: float
    kind: str
    data: dict[str, Any]


@dataclass(frozen=True)
class WorkerState:
    """What the worker said last of itself; whether it still lives is told by its lock.

    Attributes:
        pid: Its process.
        phase: ``starting`` or ``ready``.
    """

    pid: int
    phase: str
