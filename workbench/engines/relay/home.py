"""The process of the old Python that holds the lowered model: a new one, after the death of the last, has loaded it again."""

from __future__ import annotations

import platform
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.engines.relay.interpreter import Interpreter, Reply
from workbench.engines.relay.tvm_side.wire import Blob
from workbench.records.target import TargetSpec


class Home:
    """Implements `workbench.engines.relay.task_search.Home`; used from any thread, by one at a time.

    Args:
        child: The process, which is closed with this object.
        target: What the model was lowered for.
        program: Where the lowered model lies; asked whenever a process is new.
    """

    def __init__(self, child: Interpreter, target: TargetSpec, program: Callable[[], Path]) -> None:
        self._child = child
        self._target = target
        self._program = program
        self._loaded = 0
        self._turn = threading.RLock()

    @property
    def starts(self) -> int:
        """How many processes there were so far; the one of the next call counts already."""
        return self._child.starts + (0 if self._child.alive else 1)

    def holds(self) -> None:
        """Say that the process that runs holds the model already: it has lowered it."""
        self._loaded = self._child.starts

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        blobs: Sequence[Blob] = (),
        *,
        timeout_s: float | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> Reply:
        """As `Interpreter.call`."""
        with self._turn:
            if not self._child.alive or self._loaded != self._child.starts:
                take_target(self._child, self._target)
                self._child.call("files.load", {"folder": str(self._program())}, on_progress=on_progress)
                self._loaded = self._child.starts
            return self._child.call(name, arguments, blobs, timeout_s=timeout_s, on_progress=on_progress)

    def close(self) -> None:
        """End the process."""
        self._child.close()


def take_target(child: Interpreter, target: TargetSpec) -> None:
    """Have a process hold a target."""
    child.call("targets.take", {"config": target.options, "machine": platform.machine()})
