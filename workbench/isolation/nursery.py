"""Starts isolated processes by having one preloaded process fork, and ends them all; runs and forks nothing in its own process."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from types import MappingProxyType, TracebackType
from typing import Self

from workbench.errors import EnvironmentFault
from workbench.isolation.failures import ending
from workbench.isolation.forker import Forker, LoadError
from workbench.isolation.lines import Lines, NurseryGone
from workbench.isolation.message import Message
from workbench.isolation.process import IsolatedProcess

_NOTHING: Mapping[str, str] = MappingProxyType({})
_MOST_DEATHS = 3  # while loading, one after the other: somebody may have killed the first
_DOCTOR = "Run `workbench doctor`."


class Nursery:
    """Forks isolated processes on request; close it to end all of them.

    Args:
        preload: Modules that every process has loaded when it starts.
        environment: Variables for the forking process, and so for all processes; they are set before the modules are loaded.
    """

    def __init__(self, preload: Sequence[str], *, environment: Mapping[str, str] = _NOTHING) -> None:
        self._preload = tuple(preload)
        self._environment = dict(environment)
        self._lock = threading.Lock()
        self._forker: Forker | None = None
        self._processes: set[IsolatedProcess] = set()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """The forking process; None if there is none."""
        return None if self._forker is None else self._forker.pid

    def warm(self) -> None:
        """Start the forking process without waiting for its imports.

        Raises:
            EnvironmentFault: It cannot be started.
        """
        with self._lock:
            self._ensure_forker()

    def start(self, entry: str, *, memory_limit_bytes: int | None = None, environment: Mapping[str, str] = _NOTHING) -> IsolatedProcess:
        """Start a process; waits for the imports the first time, and takes some milliseconds then.

        Args:
            entry: What it calls for each request, as "package.module:function"; the function takes a `Message` and returns one.
            memory_limit_bytes: Beyond this its allocations fail; what the imports took counts.
            environment: Variables of this process, set before `entry` is looked up.

        Raises:
            EnvironmentFault: A module cannot be loaded, or the machine is out of processes, memory or descriptors.
        """
        setup = Message({"entry": entry, "memory_limit_bytes": memory_limit_bytes, "environment": dict(environment)})
        with self._lock:
            lines, pid = self._fork()
            try:
                process = IsolatedProcess(pid, lines, setup, self._processes.discard)
            except BaseException:
                lines.close()
                raise
            self._processes.add(process)
            return process

    def close(self) -> None:
        """End the forking process and all that it forked; more than once does no harm."""
        with self._lock:
            self._closed = True
            for process in tuple(self._processes):
                process.kill()
            if self._forker is not None:
                self._forker.end()
                self._forker = None

    def _ensure_forker(self) -> tuple[Forker, bool]:
        """The forking process, and whether it was started just now."""
        if self._closed:
            raise RuntimeError("the nursery is closed")
        if self._forker is not None:
            if self._forker.lives():
                return self._forker, False
            self._forker.end()
        self._forker = None
        self._forker = Forker(self._preload, self._environment)
        return self._forker, True

    def _fork(self) -> tuple[Lines, int]:
        deaths = 0
        while True:
            forker, is_new = self._ensure_forker()
            try:
                return forker.fork()
            except NurseryGone:
                code = forker.end()
                self._forker = None
                deaths += is_new
                if deaths >= _MOST_DEATHS:
                    raise EnvironmentFault(f"The process that loads {self._names()} {ending(code)}.", _DOCTOR) from None
            except LoadError as error:
                forker.end()
                self._forker = None
                text = str(error).strip()
                fault = EnvironmentFault(f"{self._names()} cannot be loaded: {text.rpartition(chr(10))[2][:300]}.", _DOCTOR)
                fault.add_note(text)
                raise fault from None

    def _names(self) -> str:
        return ", ".join(self._preload) or "nothing"
