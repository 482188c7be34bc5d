"""What fronts ask of a running search, read from the command rows of the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

from workbench.errors import InputError
from workbench.records.command import Command, Failure
from workbench.store import Store

CONTROL_COMMANDS = ("add", "drop", "budget", "pause", "resume", "stop")
_POLL_S = 0.03


class Control:
    """Takes the commands of a running search.

    Args:
        store: Where they come from.
        command: The command that the search itself answers; when it is cancelled, the search has to end at once.
        front_gone: Tells that the process that wanted the search has ended.
    """

    def __init__(self, store: Store, command: int, *, front_gone: Callable[[], bool]) -> None:
        self._store = store
        self._command = command
        self._front_gone = front_gone
        self._checked = -_POLL_S
        self._waiting: list[Command] = []
        self.cancelled = False

    def commands(self) -> Iterator[Command]:
        """The waiting commands; each has to be answered. Sees a cancellation too; asks the store some thirty times a second at most."""
        self._look()
        while self._waiting:
            yield self._waiting.pop(0)

    def answer(self, command: Command, act: Callable[[Command], None]) -> None:
        """Do what a command asks for and tell its front; why it cannot be done is its answer."""
        try:
            act(command)
        except InputError as error:
            self._store.finish_command(command.command, failure=Failure(type(error).__name__, error.message, error.remedy))
        else:
            self._store.finish_command(command.command, result={})

    def refuse_rest(self) -> None:
        """Answer what was taken and not done: its front waits."""
        for command in self._waiting:
            self._store.finish_command(
                command.command, failure=Failure("SessionError", "The search has just ended.", "Start it again with --resume.")
            )
        self._waiting.clear()

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._checked < _POLL_S:
            return
        self._checked = now
        self.cancelled = self.cancelled or self._front_gone() or self._store.command(self._command).cancelled
        while (command := self._store.take_command(CONTROL_COMMANDS)) is not None:
            self._waiting.append(command)
