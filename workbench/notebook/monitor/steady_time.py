"""The time of day as a view counts it: nobody sets it, and it stands still while the machine sleeps, as the budgets of a search do."""

from __future__ import annotations

import time
from collections.abc import Callable


class SteadyTime:
    """Unix time when it was made, and from then on by a clock of its own.

    Args:
        wall: Unix time.
        clock: Seconds; monotonic.
    """

    def __init__(self, *, wall: Callable[[], float] = time.time, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._offset = wall() - clock()

    def __call__(self) -> float:
        """The time."""
        return self._clock() + self._offset
