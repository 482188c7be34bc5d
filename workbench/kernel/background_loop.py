"""A thread with an asyncio loop of its own, for libraries that want one: nothing in it waits for the thread that a notebook's cells run in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable
from concurrent.futures import Future
from typing import TypeVar

Result = TypeVar("Result")


class BackgroundLoop:
    """A running loop; it ends with the process, or when it is closed."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def call(self, work: Awaitable[Result], timeout_s: float) -> Result:
        """Have the loop do something and wait for it; raises TimeoutError, and what the work raises."""
        future = self.begin(work)
        try:
            return future.result(timeout_s)
        except TimeoutError:
            future.cancel()
            raise

    def begin(self, work: Awaitable[Result]) -> Future[Result]:
        """Have the loop do something; the future may be cancelled."""
        return asyncio.run_coroutine_threadsafe(_awaited(work), self._loop)

    def close(self) -> None:
        """End the loop and what it still does."""
        if self._loop.is_running():
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
            rest = asyncio.all_tasks(self._loop)
            for task in rest:
                task.cancel()
            self._loop.run_until_complete(asyncio.gather(*rest, return_exceptions=True))
        finally:
            self._loop.close()


async def _awaited(work: Awaitable[Result]) -> Result:
    return await work
