"""Threads that do what would hold up a page; a process that ends does not wait for them."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable

Work = Callable[[], None]


class Lane:
    """Does pieces of work one after the other, or a few at a time, in the order in which they were given.

    Unlike a ThreadPoolExecutor's, its threads are daemons: a notebook's kernel that is shut down in the middle of a search just ends.

    Args:
        name: Name of the threads.
        width: How many pieces of work may be under way at once.
    """

    def __init__(self, name: str, *, width: int = 1) -> None:
        self._queue: queue.SimpleQueue[Work | None] = queue.SimpleQueue()
        self._is_closed = False
        self._threads = [threading.Thread(target=self._run, name=f"{name}-{number}", daemon=True) for number in range(width)]
        for thread in self._threads:
            thread.start()

    def do(self, work: Work) -> None:
        """Do something soon; it must not raise. What comes after the end is not done."""
        if not self._is_closed:
            self._queue.put(work)

    def close(self) -> None:
        """Begin nothing more; what is under way goes on."""
        self._is_closed = True
        for _ in self._threads:
            self._queue.put(None)

    def wait(self, timeout_s: float) -> None:
        """Wait for the end of what is under way, after `close`, but not longer than this."""
        deadline = time.monotonic() + timeout_s
        for thread in self._threads:
            if thread is not threading.current_thread():
                thread.join(max(deadline - time.monotonic(), 0.0))

    def _run(self) -> None:
        while (work := self._queue.get()) is not None:
            if not self._is_closed:
                work()
