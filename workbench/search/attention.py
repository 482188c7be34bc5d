"""Waits for other threads without missing what fronts ask for: commands are answered, and a cancelled search ends, whatever is under way."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Protocol, TypeVar

from workbench.errors import EnvironmentFault, Interrupted
from workbench.records.command import Command
from workbench.search.agenda import Agenda
from workbench.search.commands import obey, obey_at_the_end
from workbench.search.control import Control

POLL_S = 0.03
_POLL_WHILE_MEASURING_S = 0.1
"""On a processor that measures, who looks for commands is a guest."""

_COURTESY_S = 2.0
"""So long measurements wait for one piece of side work that would disturb them."""

_PATIENCE_S = 1.0
"""After so much of a measurement, side work begins although it disturbs."""

_SIDE_POLL_S = 0.01

Result = TypeVar("Result")


class SideWork(Protocol):
    """What is looked after while a search runs, in processes of its own; used by the thread of the search alone."""

    def look(self, *, may_begin: bool) -> bool:
        """Begin what waits, if that is allowed and nothing is under way, and end what is done; does not wait. True while something is under way."""
        ...

    def abandon(self) -> None:
        """Give up what is under way: nobody looks after it any more."""
        ...


class Attention:
    """Belongs to the thread of the search; has a thread of its own in which the device is used.

    Args:
        control: Where commands come from.
        agenda: What they change.
        exclusive: True if looking for commands disturbs what is measured.
        on_progress: Told of a pause.
        side_work: What else is looked after; None for nothing. It does not run while something is measured that it would disturb, unless that
            takes long.
    """

    def __init__(
        self,
        control: Control,
        agenda: Agenda,
        *,
        exclusive: bool,
        on_progress: Callable[[str, float], None],
        side_work: SideWork | None = None,
    ) -> None:
        self._control = control
        self._agenda = agenda
        self._exclusive = exclusive
        self._side_work = side_work
        self._measuring_since: float | None = None
        self._waited_s = 0.0
        self._poll_s = _POLL_WHILE_MEASURING_S if exclusive else POLL_S
        self._on_progress = on_progress
        self._device = ThreadPoolExecutor(1, thread_name_prefix="device")
        self._is_ending = False

    def take_commands(self) -> None:
        """Do what fronts asked for; raises Interrupted if the search was cancelled."""
        for command in self._control.commands():
            self._control.answer(command, self._obey)
        self._look_aside()
        if self._control.cancelled:
            raise Interrupted("The search was stopped.", "What was measured is saved: go on with --resume.")

    def wait_for_leave(self) -> None:
        """The same; while the search is paused, wait for more."""
        self.take_commands()
        if self._is_paused():
            self._on_progress("paused", 0.0)
        while self._is_paused():
            time.sleep(POLL_S)
            self.take_commands()

    def wait_for(self, work: Future[Any]) -> None:
        """Wait for the end of something, but not for long."""
        wait([work], POLL_S)
        self.take_commands()

    def wait_s(self, seconds: float) -> None:
        """Wait for something outside to mend itself; commands are answered meanwhile, and a search that is stopped waits no longer."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and not self._agenda.stopping:
            time.sleep(POLL_S)
            self.take_commands()

    def on_device(self, work: Callable[[], Result]) -> Result:
        """Use the device, in its own thread; a command is taken meanwhile, and does not disturb it."""
        self._let_side_work_end()
        self._measuring_since = time.monotonic()
        try:
            future = self._device.submit(work)
            while wait([future], self._poll_s).not_done:
                self.take_commands()
            return future.result()
        finally:
            self._measuring_since = None

    def begin_end(self) -> None:
        """From now on, commands come too late."""
        self._is_ending = True

    def refuse_rest(self) -> None:
        """Answer what was not done."""
        with contextlib.suppress(EnvironmentFault):  # a session that cannot be written is what is being reported
            if self._side_work is not None:
                self._side_work.abandon()
            self._control.refuse_rest()

    def close(self) -> None:
        """Wait for the end of what the device does."""
        self._device.shutdown(wait=True, cancel_futures=True)

    def _look_aside(self) -> bool:
        """Look after the side work; True while some is under way."""
        if self._side_work is None:
            return False
        since = self._measuring_since
        disturbs = self._exclusive and since is not None and time.monotonic() - since < _PATIENCE_S
        return self._side_work.look(may_begin=not disturbs)

    def _let_side_work_end(self) -> None:
        """Wait for side work that would disturb a measurement, but not for long, and not again before each measurement."""
        if not self._exclusive:
            return
        while self._look_aside():
            if self._waited_s >= _COURTESY_S:
                return
            time.sleep(_SIDE_POLL_S)
            self._waited_s += _SIDE_POLL_S
        self._waited_s = 0.0

    def _obey(self, command: Command) -> None:
        if self._is_ending:
            obey_at_the_end(command)
        else:
            obey(self._agenda, command)

    def _is_paused(self) -> bool:
        return self._agenda.paused and not self._agenda.stopping
