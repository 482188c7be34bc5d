"""Runs coroutines away from the kernel's main thread: one daemon thread with an event loop, shared by all widgets of a process."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

Answer = TypeVar("Answer")

_starting = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def background_loop() -> asyncio.AbstractEventLoop:
    """The loop; its thread starts with the first call and ends with the process."""
    global _loop  # noqa: PLW0603 - one thread a process, whatever asks first
    with _starting:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(target=_loop.run_forever, name="workbench-widgets", daemon=True).start()
        return _loop


class Requests:
    """The questions of one widget that are being answered; one that is asked anew replaces the one before.

    Args:
        failed: Called on the background thread with a question's number and its error.
    """

    def __init__(self, failed: Callable[[int, Exception], None]) -> None:
        self._failed = failed
        self._lock = threading.Lock()
        self._running: dict[str, Future[None]] = {}
        self._newest: dict[str, int] = {}
        self._closed = False

    def ask(self, slot: str, number: int, question: Callable[[], Coroutine[Any, Any, Answer]], answered: Callable[[Answer], None]) -> None:
        """Answer a question in the background.

        Args:
            slot: What kind of question: a newer one of the same kind cancels it.
            number: The question's number, for `failed`.
            question: Makes the coroutine that gives the answer; not called if the question was cancelled before.
            answered: Called on the background thread with the answer.
        """
        with self._lock:
            if self._closed:
                return
            earlier = self._running.get(slot)
            self._newest[slot] = number
            self._running[slot] = asyncio.run_coroutine_threadsafe(self._answer(slot, number, question, answered), background_loop())
        if earlier is not None:
            earlier.cancel()

    def give_up(self, slot: str) -> None:
        """Cancel the question of a kind that is being answered, if there is one; its answer is dropped."""
        with self._lock:
            self._newest.pop(slot, None)
            question = self._running.pop(slot, None)
        if question is not None:
            question.cancel()

    def close(self) -> None:
        """Cancel everything; later questions are dropped."""
        with self._lock:
            self._closed = True
            running = list(self._running.values())
        for question in running:
            question.cancel()

    async def _answer(self, slot: str, number: int, question: Callable[[], Coroutine[Any, Any, Answer]], answered: Callable[[Answer], None]) -> None:
        try:
            answer = await question()
            if self._newest.get(slot) == number:  # a cancellation may come too late
                answered(answer)
        except Exception as error:  # noqa: BLE001 - a question has no caller: its error is its answer
            self._failed(number, error)
