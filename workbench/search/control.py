"""What fronts ask of a running search, read from the command rows of the store."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from workbench.errors import InputError, SessionError
from workbench.records.command import Command, Failure
from workbench.store import Store

CONTROL_COMMANDS = ("add", "drop", "budget", "pause", "resume", "stop")
ADDRESSEE = "search"
"""Argument of each of them: the number of the command of the search that it is meant for, so that no other search obeys it."""

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
        """Do what a command asks for and tell its front; why it cannot be done is its answer, also that it is meant for another search."""
        try:
            act(self._mine(command))
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

    def _mine(self, command: Command) -> Command:
        """The command without its addressee.

        Raises:
            SessionError: It is meant for another search, or does not say for which.
        """
        meant = command.arguments.get(ADDRESSEE)
        if not isinstance(meant, int) or isinstance(meant, bool):
            raise SessionError("The command does not say which search it is meant for.", "Steer a search with what session.tune() returned.")
        if meant < self._command:
            raise SessionError("The search that this is meant for has ended; another one runs.", "Steer that one with what started it.")
        if meant > self._command:
            raise SessionError("The search that this is meant for has not begun; another one runs.", "Wait until that one has ended, or stop it.")
        return replace(command, arguments={name: value for name, value in command.arguments.items() if name != ADDRESSEE})

    def _look(self) -> None:
        now = time.monotonic()
        if now - self._checked < _POLL_S:
            return
        self._checked = now
        self.cancelled = self.cancelled or self._front_gone() or self._store.command(self._command).cancelled
        while (command := self._store.take_command(CONTROL_COMMANDS)) is not None:
            self._waiting.append(command)
