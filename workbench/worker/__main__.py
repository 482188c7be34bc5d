"""Process entry: ``python -m workbench.worker SESSION_DIRECTORY``; a front starts it, the store tells it what to do."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
import threading
from pathlib import Path

from workbench.worker.presence import PipedFront
from workbench.worker.serving import serve_session

_CHUNK_BYTES = 65536


def main() -> int:
    """Serve a session; returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m workbench.worker", allow_abbrev=False)
    parser.add_argument("session", type=Path)
    parser.add_argument("--first-command", type=int, required=True, help="the command that the worker is started for; older ones are not done")
    parser.add_argument("--trust", action="store_true", help="the front's user allowed the model's own code to run")
    parser.add_argument("--python", default="", help="the old Python that the relay engine runs TVM in")
    parser.add_argument("--function-bytes", type=int, default=0, help="length of a pickled TE function at the start of standard input")
    options = parser.parse_args()
    front = _take_standard_input()
    return serve_session(
        options.session,
        first=options.first_command,
        trust=options.trust,
        function=lambda: _read(front, options.function_bytes),
        presence=lambda _: _watched(front),
        python=options.python,
    )


def _watched(front: int) -> PipedFront:
    """The front at the other end of the pipe."""
    gone = threading.Event()
    threading.Thread(target=_watch_front, args=(front, gone), name="front", daemon=True).start()
    return PipedFront(gone)


def _take_standard_input() -> int:
    """The pipe from the front, away from a model's code that reads standard input."""
    front = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return front


def _read(front: int, count: int) -> bytes:
    """The first `count` bytes from the front, or fewer if it has gone."""
    received = bytearray()
    while len(received) < count and (chunk := os.read(front, min(count - len(received), _CHUNK_BYTES))):
        received += chunk
    return bytes(received)


def _watch_front(front: int, gone: threading.Event) -> None:
    """Wait for the end of the pipe, which the front holds open as long as it lives."""
    while os.read(front, _CHUNK_BYTES):
        pass
    gone.set()


def _run_process() -> None:
    """End at once after the work: TVM needs 0.2 s to take itself apart, and sometimes fails doing so."""
    code = main()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _run_process()
