"""Whether anybody still wants what a worker does: the pipe of one front, or a lease that any front may hold."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol

from workbench.session import SessionDirectory

_IDLE_S = 600.0
_LOOK_S = 0.2

LEASE_S = 8 * 3600.0
"""How long a search goes on after the last front has gone."""

ALONE_S = 30.0
"""How long a worker without work waits for a front to come back: a notebook's kernel that restarts takes some seconds."""

ATTENDED_S = 2 * 3600.0
"""How long a worker without work stays warm for a front that is there."""


class Presence(Protocol):
    """Tells a worker when to end; asked from the worker's thread alone."""

    def is_gone(self) -> bool:
        """True once nobody may want the result of a search any more, so that it ends."""
        ...

    def why_gone(self) -> str:
        """Why the search of a worker that nobody wants was ended, for whoever comes next; empty where nobody comes."""
        ...

    def is_time_to_end(self, idle_s: float) -> bool:
        """True if a worker that had nothing to do for so long should end."""
        ...

    def wait(self, seconds: float) -> None:
        """Wait, or less if the front goes."""
        ...


class PipedFront:
    """The one front that started the worker and holds a pipe open: a worker ends with it.

    Args:
        gone: Set when the pipe has closed.
    """

    def __init__(self, gone: threading.Event) -> None:
        self._gone = gone

    def is_gone(self) -> bool:
        """True once the pipe has closed."""
        return self._gone.is_set()

    def why_gone(self) -> str:
        """Nothing: the search is given back to whoever asked for it."""
        return ""

    def is_time_to_end(self, idle_s: float) -> bool:
        """True when the front has gone, or asked for nothing for a while."""
        return self._gone.is_set() or idle_s > _IDLE_S

    def wait(self, seconds: float) -> None:
        """Wait, or less if the front goes."""
        self._gone.wait(seconds)


class LeasedFronts:
    """Whoever attends the session (`SessionDirectory.attend`): a search outlives its front by the lease, an idle worker by some seconds.

    Time is counted by a clock that stands still while the machine sleeps and that nobody sets, so that neither ends anything.

    Args:
        directory: The session.
        lease_s: How long a search goes on alone.
        alone_s: How long a worker without work waits for a front.
        attended_s: How long a worker without work waits for a front that is there.
        clock: Seconds; monotonic.
    """

    def __init__(
        self,
        directory: SessionDirectory,
        *,
        lease_s: float = LEASE_S,
        alone_s: float = ALONE_S,
        attended_s: float = ATTENDED_S,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._directory = directory
        self._lease_s = lease_s
        self._alone_s = alone_s
        self._attended_s = attended_s
        self._clock = clock
        self._attended_at = self._looked_at = clock()
        self._is_attended = True
        self._is_dismissed = False

    def dismiss(self) -> None:
        """Have a worker that nobody attends end as soon as it has nothing to do; may be called by a signal handler."""
        self._is_dismissed = True

    def is_gone(self) -> bool:
        """True once nobody has attended the session for the time of the lease."""
        return self._alone_for_s() > self._lease_s

    def why_gone(self) -> str:
        """Why the search was ended."""
        return f"nobody looked at it for {self._lease_s / 3600:.3g} h"

    def is_time_to_end(self, idle_s: float) -> bool:
        """True if nobody is there for whom to stay warm."""
        alone_s = self._alone_for_s()
        if self._is_attended:
            return idle_s > self._attended_s
        return self._is_dismissed or min(idle_s, alone_s) > self._alone_s

    def wait(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def _alone_for_s(self) -> float:
        """Seconds since a front was there."""
        now = self._clock()
        if now - self._looked_at >= _LOOK_S or self._is_dismissed:
            self._looked_at = now
            self._is_attended = self._directory.is_attended()
        if self._is_attended:
            self._attended_at, self._is_dismissed = now, False
        return now - self._attended_at
