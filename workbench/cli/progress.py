"""Shows what a worker is doing, on standard error: a line that rewrites itself on a terminal, one line a phase elsewhere."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Self

from workbench.escaping import plain
from workbench.records.command import Event

_CLEAR = "\r\x1b[K"


class ProgressLine:
    """A context that prints progress events.

    Args:
        quiet: True prints nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._phase = ""
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._terminal and not self._quiet and self._phase:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def on_event(self, event: Event) -> None:
        """Show an event of the worker."""
        if self._quiet or event.kind != "progress":
            return
        phase = plain(str(event.data.get("phase", "")), 60)
        share = float(event.data.get("share", 0.0))
        seconds = time.monotonic() - self._started
        if self._terminal:
            percent = f" {share:4.0%}" if share else ""
            sys.stderr.write(f"{_CLEAR}{seconds:5.1f} s  {phase}{percent}")
        elif phase.partition(":")[0] != self._phase.partition(":")[0]:
            sys.stderr.write(f"{seconds:5.1f} s  {phase.partition(':')[0]}\n")
        sys.stderr.flush()
        self._phase = phase
