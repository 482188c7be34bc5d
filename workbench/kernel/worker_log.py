"""The end of a worker's log, safe to show: what it said before it died."""

from __future__ import annotations

import os
from pathlib import Path

from workbench.escaping import plain
from workbench.regular_files import reader

_TAIL_BYTES = 8000
_TAIL_LINES = 40
_LONGEST_LINE = 400


def log_tail(path: Path) -> str:
    """The last lines of a log that say something; empty if it cannot be read."""
    try:
        with reader(path) as log:
            log.seek(max(log.seek(0, os.SEEK_END) - _TAIL_BYTES, 0))
            lines = log.read().decode("utf-8", "replace").splitlines()
    except OSError:
        lines = []
    return "\n".join([plain(line.rstrip(), _LONGEST_LINE) for line in lines if line.strip()][-_TAIL_LINES:])


def last_words(path: Path) -> str:
    """The last line of a log that says something."""
    told = log_tail(path).splitlines()
    return plain(told[-1].strip(), 300).rstrip(".") if told else "it left no words"
