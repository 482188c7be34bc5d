"""Runs many jobs in a few isolated processes, and replaces those that die; knows nothing of what the jobs are."""

from __future__ import annotations

import math
import select
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar

from workbench.isolation.failures import JobError, JobTimeout, ProcessDied
from workbench.isolation.message import Message
from workbench.isolation.nursery import Nursery
from workbench.isolation.process import IsolatedProcess

Key = TypeVar("Key")
Answer = Message | JobError | ProcessDied | JobTimeout

_NOTHING: Mapping[str, str] = MappingProxyType({})
_POLL_S = 0.05


class Pool:
    """Processes of one kind, at most `size` at once; to be used from one thread.

    Args:
        nursery: Where they come from.
        entry: What they call for each job, as "package.module:function".
        size: How many.
        memory_limit_bytes: Beyond this the allocations of a process fail.
        environment: Variables of the processes.
    """

    def __init__(
        self,
        nursery: Nursery,
        entry: str,
        *,
        size: int,
        memory_limit_bytes: int | None = None,
        environment: Mapping[str, str] = _NOTHING,
    ) -> None:
        self._nursery = nursery
        self._entry = entry
        self._size = size
        self._memory_limit_bytes = memory_limit_bytes
        self._environment = dict(environment)
        self._idle: deque[IsolatedProcess] = deque()
        self._run: _Run[Any] | None = None
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def run(
        self, jobs: Iterable[tuple[Key, Message]], *, timeout_s: float, stop: Callable[[], bool] = lambda: False
    ) -> Iterator[tuple[Key, Answer, float]]:
        """Do jobs; yields the key of each, what came of it, and the seconds it took, in the order in which they end.

        The next job is taken from `jobs` when a process is free for it. Closing the iterator kills what runs.

        Args:
            jobs: Keys and requests.
            timeout_s: The limit for each job.
            stop: Asked at least every 50 ms while jobs are waited for; when it says True, what runs is killed, and no more jobs are taken.

        Raises:
            EnvironmentFault: A process cannot be started.
            RuntimeError: The last run has not ended.
        """
        if self._run is not None:
            raise RuntimeError("the pool is in use")
        self._run = run = _Run[Key](timeout_s)
        source = iter(jobs)
        ended: deque[tuple[Key, Answer, float]] = deque()
        more = True
        try:
            while True:
                stopped = self._closed or stop()
                while more and not stopped and len(run) < self._size:
                    job = next(source, None)
                    more = job is not None
                    if job is not None:
                        run.begin(self._take(), *job)
                        stopped = stop()
                if stopped:
                    run.kill()
                if ended:
                    yield ended.popleft()
                elif stopped or not len(run):
                    return
                else:
                    for process, key, answer, took_s in run.wait(_POLL_S):
                        self._put(process)
                        ended.append((key, answer, took_s))
        finally:
            run.kill()
            self._run = None

    def close(self) -> None:
        """End all processes; more than once does no harm."""
        self._closed = True
        if self._run is not None:
            self._run.kill()
        while self._idle:
            self._idle.pop().kill()

    def _take(self) -> IsolatedProcess:
        """A process for the next job."""
        while self._idle:
            process = self._idle.popleft()
            if process.alive:
                return process
            process.kill()
        return self._nursery.start(self._entry, memory_limit_bytes=self._memory_limit_bytes, environment=self._environment)

    def _put(self, process: IsolatedProcess) -> None:
        """Keep a process for further jobs, unless it is dead."""
        if process.alive:
            self._idle.append(process)
        else:
            process.kill()


@dataclass(frozen=True)
class _Running(Generic[Key]):
    process: IsolatedProcess
    key: Key
    started: float


class _Run(Generic[Key]):
    """The jobs that run at a time.

    Args:
        timeout_s: The limit for each.
    """

    def __init__(self, timeout_s: float) -> None:
        self._timeout_s = timeout_s
        self._running: list[_Running[Key]] = []

    def __len__(self) -> int:
        return len(self._running)

    def begin(self, process: IsolatedProcess, key: Key, request: Message) -> None:
        self._running.append(_Running(process, key, time.monotonic()))
        process.send(request, self._timeout_s)

    def wait(self, limit_s: float) -> Iterator[tuple[IsolatedProcess, Key, Answer, float]]:
        """Wait until a job ends, but no longer than the limit; yields those that have ended."""
        descriptors = [job.process.fileno() for job in self._running]
        first_end = min(job.started for job in self._running) + self._timeout_s
        poll = select.poll()
        for descriptor in descriptors:
            if descriptor < 0:  # dead already
                limit_s = 0
            else:
                poll.register(descriptor, select.POLLIN)
        poll.poll(math.ceil(max(min(limit_s, first_end - time.monotonic()), 0.0) * 1000))
        for job in tuple(self._running):
            answer = self._take(job)
            if answer is not None:
                self._running.remove(job)
                answered = isinstance(answer, Message | JobError)
                yield job.process, job.key, answer, job.process.last_job_s if answered else time.monotonic() - job.started

    def kill(self) -> None:
        while self._running:
            self._running.pop().process.kill()

    def _take(self, job: _Running[Key]) -> Answer | None:
        try:
            answer = job.process.take()
        except (JobError, ProcessDied) as failure:
            return failure
        if answer is None and time.monotonic() - job.started >= self._timeout_s:
            return job.process.expire(self._timeout_s)
        return answer
