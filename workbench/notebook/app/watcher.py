"""A thread that looks at a session's store and tells what it sees: changes alone, and no more often than a page can show."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from workbench.errors import WorkbenchError
from workbench.notebook.app.session_view import SessionView, read_view, with_worker
from workbench.notebook.app.state import Problem
from workbench.session import SessionDirectory
from workbench.store import Store

INTERVAL_S = 0.1
_TROUBLED_S = 1.0
_LOG = logging.getLogger(__name__)


class Watcher:
    """Looks at a session until it is closed.

    The store tells by a number whether anything was written since; only then it is read. The worker's lock is looked at each time, so that the
    death of a worker is seen at once. A store that is locked or cannot be read is no end: it is looked at again.

    Args:
        directory: The session.
        on_view: Told each new view; by the watcher's thread.
        on_trouble: Told why the session cannot be read, and None when it can be again.
        interval_s: Time between two looks.
    """

    def __init__(
        self,
        directory: SessionDirectory,
        *,
        on_view: Callable[[SessionView], None],
        on_trouble: Callable[[Problem | None], None],
        interval_s: float = INTERVAL_S,
    ) -> None:
        self._directory = directory
        self._on_view = on_view
        self._on_trouble = on_trouble
        self._interval_s = interval_s
        self._store: Store | None = None
        self._version = -1
        self._view: SessionView | None = None
        self._is_troubled = False
        self._looking = threading.Lock()
        self._wake = threading.Event()
        self._is_closed = threading.Event()
        self._thread = threading.Thread(target=self._run, name="workbench-watcher", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def wake(self) -> None:
        """Look now: something was written."""
        self._wake.set()

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Have nothing looked at meanwhile: who writes, and shows it, is not contradicted by what was read before."""
        with self._looking:
            yield

    def close(self) -> None:
        """End; waits for a look that is under way, unless it is that look which closes."""
        self._is_closed.set()
        self._wake.set()
        if threading.current_thread() is not self._thread and self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        try:
            while not self._is_closed.is_set():
                self._wake.clear()
                with self._looking:
                    self._look()
                self._wake.wait(_TROUBLED_S if self._is_troubled else self._interval_s)
        finally:
            self._forget_store()

    def _look(self) -> None:
        try:
            view = self._new_view()
            if view is not None and not self._is_closed.is_set():
                self._view = view
                self._on_view(view)
        except Exception as error:  # noqa: BLE001 - a watcher that gave up would leave a page that looks alive
            if not isinstance(error, WorkbenchError):
                _LOG.exception("The session could not be shown.")
            self._forget_store()
            self._is_troubled = True
            self._on_trouble(Problem.of(error))
            return
        if self._is_troubled:
            self._is_troubled = False
            self._on_trouble(None)

    def _new_view(self) -> SessionView | None:
        """What is seen, if it is new."""
        if self._store is None:
            self._store, self._version = self._directory.store(), -1
        is_served = self._directory.is_served()  # before the version: what a worker wrote last is seen no later than that it is gone
        version, before = self._store.version(), self._view
        if before is None or version != self._version:
            view = read_view(self._directory, self._store, before)
            self._version = version  # of before the reading: what was written meanwhile is seen next time
            return view
        view = with_worker(before, is_served=is_served)
        return view if view is not before else None

    def _forget_store(self) -> None:
        store, self._store = self._store, None
        if store is not None:
            store.close()
