"""The processes of the old Python that build and measure: started ready for work, within bounds of memory."""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

import psutil

from workbench.engines.relay.interpreter import ChildCrashed, Interpreter
from workbench.errors import WorkbenchError

START_S = 180.0
"""Longest time for a process to load TVM, on a machine that is busy with other things."""

_LEAST_MEMORY_BYTES = 4 * 2**30  # the old TVM alone maps more than one
_OF_ONE_BYTES = 2**30
_POLL_S = 0.05
Job = TypeVar("Job")
Answer = TypeVar("Answer")


def make_ready(child: Interpreter, memory_bytes: int) -> None:
    """Start a process that is not there yet, and have it load what it needs, so that no job's limit has to hold that."""
    if child.alive:
        return
    try:
        _start(child, memory_bytes)
    except ChildCrashed:  # whatever killed it is over, or ends this second one too
        _start(child, memory_bytes)


def _start(child: Interpreter, memory_bytes: int) -> None:
    child.call("limits.bound", {"memory_bytes": memory_bytes}, timeout_s=START_S)
    child.call("building.warm", {}, timeout_s=START_S)


def memory_bound() -> int:
    """Bytes that a process which builds or measures may take."""
    return max(psutil.virtual_memory().available // 2, _LEAST_MEMORY_BYTES)


class Spares:
    """Processes that load TVM ahead, for whoever needs some next.

    Args:
        make: Makes one of them, not started yet.
    """

    def __init__(self, make: Callable[[], Interpreter]) -> None:
        self._make = make
        self._waiting: list[tuple[Interpreter, threading.Thread]] = []

    def fill(self, count: int) -> None:
        """Have so many processes load TVM, or be ready; waits for none. Of those that memory has no room for, none is started."""
        room = psutil.virtual_memory().available // _OF_ONE_BYTES
        for _ in range(min(count, room) - len(self._waiting)):
            child = self._make()
            thread = threading.Thread(target=_get_ready, args=(child,), name="old-python-ahead", daemon=True)
            thread.start()
            self._waiting.append((child, thread))

    def take(self) -> Interpreter:
        """One that is ready, or on its way, which is waited for; else one that is not started yet."""
        if not self._waiting:
            return self._make()
        child, thread = self._waiting.pop(0)
        thread.join()
        return child

    def close(self) -> None:
        """End those that nobody took."""
        for child, thread in self._waiting:
            while thread.is_alive():
                child.kill()
                thread.join(_POLL_S)
            child.close()
        self._waiting.clear()


def _get_ready(child: Interpreter) -> None:
    with contextlib.suppress(WorkbenchError):  # whoever needs it starts it again, and is told
        make_ready(child, memory_bound())


class Crew(Generic[Job, Answer]):
    """Processes of one kind that do jobs, several at once.

    Args:
        make: Makes one of them, not started yet.
        size: How many.
        work: Does one job in one of them, in a thread of its own.
    """

    def __init__(self, make: Callable[[], Interpreter], size: int, work: Callable[[Interpreter, Job], Answer]) -> None:
        self._members = [make() for _ in range(size)]
        self._idle: queue.SimpleQueue[Interpreter] = queue.SimpleQueue()
        for member in self._members:
            self._idle.put(member)
        self._work = work
        self._threads = ThreadPoolExecutor(size, thread_name_prefix="old-python")
        self._busy: set[Interpreter] = set()
        self._closed = threading.Event()

    def run(self, jobs: Sequence[Job], *, stop: Callable[[], bool]) -> Iterator[tuple[int, Answer]]:
        """Do jobs; yields the place of each and what came of it, in the order in which they end.

        Closing the iterator, and `stop`, which is asked every 50 ms, kill what runs; what was not begun then is left out.
        """
        halt = threading.Event()
        futures: dict[Future[Answer], int] = {self._threads.submit(self._do, job, halt): place for place, job in enumerate(jobs)}
        waiting = set(futures)
        try:
            while waiting:
                done, waiting = wait(waiting, _POLL_S, FIRST_COMPLETED)
                if self._closed.is_set() or stop():
                    return
                for future in done:
                    yield futures[future], future.result()
        finally:
            halt.set()
            for future in waiting:
                future.cancel()
            while waiting := {future for future in waiting if not future.done()}:
                for member in tuple(self._busy):
                    member.kill()
                wait(waiting, _POLL_S)

    def close(self) -> None:
        """End all processes; what `run` does in another thread ends at once."""
        self._closed.set()
        for member in self._members:
            member.kill()
        self._threads.shutdown(wait=True, cancel_futures=True)
        for member in self._members:
            member.close()

    def _do(self, job: Job, halt: threading.Event) -> Answer:
        member = self._idle.get()
        try:
            if halt.is_set() or self._closed.is_set():
                raise _HaltedError
            self._busy.add(member)
            return self._work(member, job)
        finally:
            self._busy.discard(member)
            self._idle.put(member)


class _HaltedError(Exception):
    """Nobody wants the answer any more."""
