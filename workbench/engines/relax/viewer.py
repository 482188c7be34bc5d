"""Makes views in an isolated process: what crashes or hangs costs one view."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

import psutil

from workbench.engines.relax.search.processes import VIEW_ENTRY
from workbench.engines.view_protocol import ViewQuestion
from workbench.errors import InternalError
from workbench.escaping import plain
from workbench.isolation import IsolatedProcess, JobError, Message, Nursery, ProcessDied
from workbench.records.target import TargetSpec
from workbench.records.view import ViewText

VIEW_TIMEOUT_S = 60.0

_LEAST_MEMORY_BYTES = 2 * 2**30
_ANOTHER_TRIAL = "Look at another trial or view; -v shows TVM's own text."

Load = Callable[[str], tuple[bytes, TargetSpec]]
"""A kernel by name, as TVM's JSON of a module with it as ``main``, and its target."""


class IsolatedViewer:
    """Implements `workbench.engines.view_protocol.Viewer`.

    Args:
        nursery: Where the process comes from; this object does not close it.
        load: Gives a kernel by its name.
        on_close: Called once at the end.
        timeout_s: The limit for each view.
    """

    def __init__(self, nursery: Nursery, load: Load, *, on_close: Callable[[], None] = lambda: None, timeout_s: float = VIEW_TIMEOUT_S) -> None:
        self._nursery = nursery
        self._load = load
        self._on_close = on_close
        self._timeout_s = timeout_s
        self._process: IsolatedProcess | None = None
        self._waiting: deque[tuple[str, Message]] = deque()
        self._made: list[ViewText] = []
        self._asked: str | None = None
        self._started = 0.0
        self._closed = False

    def begin(self, question: ViewQuestion) -> None:
        """Begin with a question."""
        if self._asked is not None:
            raise RuntimeError("another question is not answered yet")
        module, target = self._load(question.kernel)
        values = {"target": target.to_dict(), "trace": question.trace, "expected": question.expected}
        self._made.clear()
        self._waiting = deque((view, Message({**values, "view": view}, (module,))) for view in question.views)
        self._next()

    def poll(self) -> tuple[ViewText, ...] | None:
        """The answer; None while it is being made."""
        while self._asked is not None:
            made = self._taken(self._asked)
            if made is None:
                return None
            self._made.append(made)
            self._next()
        return tuple(self._made)

    def stop(self) -> None:
        """Give up the question at hand."""
        if self._asked is not None:
            self._waiting.clear()
            self._asked = None
            self._end()

    def close(self) -> None:
        """End the process."""
        if not self._closed:
            self._closed = True
            self.stop()
            self._end()
            self._on_close()

    def _next(self) -> None:
        """Have the next view made, if there is one."""
        if not self._waiting:
            self._asked = None
            return
        view, request = self._waiting.popleft()
        if self._process is None or not self._process.alive:
            self._end()
            memory_bytes = max(psutil.virtual_memory().available // 2, _LEAST_MEMORY_BYTES)
            self._process = self._nursery.start(VIEW_ENTRY, memory_limit_bytes=memory_bytes)
        self._asked, self._started = view, time.monotonic()
        self._process.send(request, self._timeout_s)

    def _taken(self, view: str) -> ViewText | None:
        """The view that is being made; None if it is not made yet."""
        if self._process is None:
            raise InternalError("The process that makes views is gone.", "Try again.")
        try:
            answer = self._process.take()
        except JobError as error:
            return _missing(view, f"TVM cannot make it: {plain(str(error), 300)}")
        except ProcessDied as error:
            return _missing(view, f"the process that made it {error.cause}")
        if answer is not None:
            return ViewText.from_dict(answer.values)
        if time.monotonic() - self._started < self._timeout_s:
            return None
        self._process.expire(self._timeout_s)
        return _missing(view, f"it took more than {self._timeout_s:g} s to make")

    def _end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None


def _missing(view: str, why: str) -> ViewText:
    return ViewText(view, unavailable=why, remedy=_ANOTHER_TRIAL)
