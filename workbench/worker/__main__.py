"""Process entry: ``python -m workbench.worker SESSION_DIRECTORY``; a front starts it, the store tells it what to do."""

from __future__ import annotations

import argparse
import fcntl
import importlib
import sys
import threading
import time
from pathlib import Path
from typing import Any, cast

import cloudpickle

from workbench.engines.protocol import Engine
from workbench.session import SessionDirectory
from workbench.worker import ALREADY_SERVED
from workbench.worker.jobs import Jobs
from workbench.worker.service import Service

_ENGINES = {"relax": ("workbench.engines.relax.engine", "RelaxEngine")}


def main() -> int:
    """Serve a session; returns the exit code."""
    started = time.perf_counter()
    parser = argparse.ArgumentParser(prog="python -m workbench.worker")
    parser.add_argument("session", type=Path)
    parser.add_argument("--engine", choices=sorted(_ENGINES), default="relax")
    parser.add_argument("--idle-seconds", type=float, default=600.0)
    parser.add_argument("--function-bytes", type=int, default=0, help="length of a pickled TE function at the start of standard input")
    options = parser.parse_args()
    directory = SessionDirectory.open(options.session)
    with (options.session / "worker.lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return ALREADY_SERVED
        function = cloudpickle.loads(sys.stdin.buffer.read(options.function_bytes)) if options.function_bytes else None
        front_gone = threading.Event()
        threading.Thread(target=_watch_front, args=(front_gone,), name="front", daemon=True).start()
        engine = _load_engine(options.engine)
        jobs = Jobs(engine, start_s=time.perf_counter() - started, function=function)
        Service(directory, jobs.by_kind(), idle_s=options.idle_seconds, front_gone=front_gone).run()
    return 0


def _load_engine(name: str) -> Engine:
    """Import an engine; the only place that does, so that a front never loads TVM."""
    module, attribute = _ENGINES[name]
    return cast("Engine", getattr(importlib.import_module(module), attribute)())


def _watch_front(front_gone: threading.Event) -> None:
    """Wait for the end of standard input, which the front holds open as long as it lives."""
    stream: Any = sys.stdin.buffer
    while stream.read(4096):
        pass
    front_gone.set()


if __name__ == "__main__":
    sys.exit(main())
