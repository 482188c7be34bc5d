"""Shows what a worker is doing, on standard error: a line that rewrites itself on a terminal, one line a phase elsewhere, each phase once."""

from __future__ import annotations

import re
import sys
import time
from types import TracebackType
from typing import Self

from workbench.cli.output import discard
from workbench.escaping import plain
from workbench.records.command import HELD_UP, Event

_DETAIL = re.compile(r":| \(")  # "lower: fold constants", "measure (round 3)"
_CLEAR = "\r\x1b[K"
_WORK = {"tune": "the search", "profile": "the profile"}


def other_work(event: Event) -> str:
    """What a command waits for, in words: ``the search of another front``."""
    return f"{_WORK.get(str(event.data.get('behind')), 'the work')} of another front"


class ProgressLine:
    """A context that prints progress events.

    Args:
        quiet: True prints nothing.
    """

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._terminal = sys.stderr.isatty()
        self._told: set[str] = set()
        self._started = time.monotonic()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._terminal and self._told:
            self._write(_CLEAR)

    def on_event(self, event: Event) -> None:
        """Show an event of the worker."""
        if event.kind == HELD_UP and event.data.get("behind"):
            phase = f"waiting for {other_work(event)} to end"
        elif event.kind == "progress":
            phase = plain(str(event.data.get("phase", "")), 60)
        else:
            return
        share = event.data.get("share")
        seconds = time.monotonic() - self._started
        if self._terminal:
            percent = f" {share:4.0%}" if isinstance(share, float) and 0 < share <= 1 else ""
            self._write(f"{_CLEAR}{seconds:5.1f} s  {phase}{percent}")
            self._told.add(phase)
            return
        kind = _DETAIL.split(phase)[0]
        if kind not in self._told:
            self._told.add(kind)
            self._write(f"{seconds:5.1f} s  {kind}\n")

    def _write(self, text: str) -> None:
        """Write to standard error; work goes on when nobody reads there any more."""
        if self._quiet:
            return
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._quiet = True
            discard(sys.stderr)
