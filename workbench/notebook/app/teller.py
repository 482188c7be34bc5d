"""Tells states to whoever draws them, in a thread of its own: the newest one, each once, and no more than a page can take."""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable

from workbench.notebook.app.state import AppState, is_progress_alone

_PAUSE_S = 0.05
_PROGRESS_S = 0.3  # each of table, graph, inspector and head tells its page of it, and all together may send twenty messages a second
_LOG = logging.getLogger(__name__)


class Teller:
    """Calls `on_state` with each new state; who asks for that never waits. What is new in progress alone is told about three times a second.

    Args:
        state: The present state.
        on_state: Told it; what it raises is logged, and the next state is told all the same.
    """

    def __init__(self, state: Callable[[], AppState], on_state: Callable[[AppState], None]) -> None:
        self._state = state
        self._on_state = on_state
        self._told = AppState()
        self._told_at = -math.inf
        self._is_due = threading.Event()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="workbench-teller", daemon=True)
        self._thread.start()

    def tell(self) -> None:
        """Have the present state told soon."""
        self._is_due.set()

    def close(self) -> None:
        """Tell nothing more; waits until what is being told is told."""
        self._is_closed.set()
        self._is_due.set()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _run(self) -> None:
        while True:
            self._is_due.wait()
            self._is_due.clear()
            if self._is_closed.is_set():
                return
            present = self._state()
            rest_s = self._told_at + _PROGRESS_S - time.monotonic()
            if rest_s > 0 and is_progress_alone(self._told, present):
                self._is_due.wait(rest_s)
                self._is_due.set()
            elif present != self._told:
                self._tell(present)
            self._is_closed.wait(_PAUSE_S)

    def _tell(self, present: AppState) -> None:
        self._told, self._told_at = present, time.monotonic()
        try:
            self._on_state(present)
        except Exception:  # noqa: BLE001 - whatever a view does wrong, the app goes on
            _LOG.exception("A state of the workbench could not be shown.")
