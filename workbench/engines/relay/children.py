"""The processes of the old Python that build and measure: started ready for work, within bounds of memory."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Generic, TypeVar

from workbench.engines.relay.interpreter import ChildCrashed, Interpreter

START_S = 180.0
"""Longest time for a process to load TVM, on a machine that is busy with other things."""

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
