"""A command on its way: what a front knows of it, and what becomes of the worker's answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench import errors
from workbench.errors import InternalError, Interrupted, WorkbenchError
from workbench.records.command import CANCELLED, DONE, HELD_UP, Command, Event, Failure
from workbench.store import Store

OnEvent = Callable[[Event], None]
_NOT_STORED = 0
_LOOKS = 5
"""A worker that takes over a session leaves old commands running for a moment: that is no work to wait for."""


@dataclass
class Pending:
    """A command that was given and has no answer yet.

    Attributes:
        kind: Kind of the command.
        arguments: What it needs.
        number: Its number in the store.
        last_event: The newest event that was told.
        starts: How often a worker was started for it.
        abandoned: How often it had to be given again.
        stops: How often this front had ended its worker before.
        behind: The command that it waits for; 0 if there is none.
        waits: How often in a row the worker was seen to be at that.
    """

    kind: str
    arguments: dict[str, Any]
    number: int = 0
    last_event: int = 0
    starts: int = 0
    abandoned: int = 0
    stops: int = 0
    behind: int = 0
    waits: int = 0

    def tell(self, store: Store, on_event: OnEvent | None) -> None:
        """Tell what has happened since the last time."""
        if on_event is None:
            return
        for event in store.events_since(self.last_event):
            self.last_event = event.event
            if event.data.get("command") == self.number:
                on_event(event)

    def tell_of_waiting(self, store: Store, on_event: OnEvent | None) -> None:
        """Tell what the worker does before it can begin this command, but not for a moment's sake; and when that has ended."""
        if on_event is None:
            return
        running = store.running_beside(self.number)
        behind = 0 if running is None else running.command
        if behind != self.behind:
            if self.waits >= _LOOKS and running is None:
                on_event(self._held_up_by(""))
            self.behind, self.waits = behind, 0
        self.waits += running is not None
        if running is not None and self.waits == _LOOKS:
            on_event(self._held_up_by(running.kind))

    def _held_up_by(self, kind: str) -> Event:
        return Event(_NOT_STORED, time.time(), HELD_UP, {"command": self.number, "behind": kind})


def answer_of(command: Command) -> dict[str, Any]:
    """What the worker answered to a command that has ended.

    Raises:
        WorkbenchError: What the worker raised.
        Interrupted: The command was cancelled.
    """
    if command.state == DONE:
        return command.result or {}
    if command.state == CANCELLED:
        raise Interrupted("Stopped.", "What was finished before is saved.")
    raise _raised(command.failure or Failure(kind="InternalError", message="The worker gave no reason."))


def _raised(failure: Failure) -> WorkbenchError:
    """The error that the worker raised, of the same class, with its full text as a note."""
    kind = getattr(errors, failure.kind, InternalError)
    if not (isinstance(kind, type) and issubclass(kind, WorkbenchError)):
        kind = InternalError
    error: WorkbenchError = kind(failure.message, failure.remedy)
    if failure.detail:
        error.add_note(failure.detail)
    return error
