"""Process entry: ``python -m workbench.worker SESSION_DIRECTORY``; a front starts it, the store tells it what to do."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
import threading
import time
import traceback
from pathlib import Path
from typing import cast

from workbench.engines.protocol import Engine
from workbench.errors import EnvironmentFault
from workbench.session import SessionDirectory
from workbench.worker import ALREADY_SERVED, CANNOT_WRITE, NO_ENGINE
from workbench.worker.context import Job
from workbench.worker.jobs import Jobs
from workbench.worker.service import Service
from workbench.worker.view_desk import INSPECT

_ENGINE = ("workbench.engines.relax.engine", "RelaxEngine")
_PROCESSES = "workbench.engines.relax.search.processes"
_BUILDING = ("tune", "apply", "verify", "rerun")
_CHUNK_BYTES = 65536


class _EngineError(Exception):
    """The engine cannot be loaded."""


def main() -> int:
    """Serve a session; returns the exit code."""
    started = time.perf_counter()
    parser = argparse.ArgumentParser(prog="python -m workbench.worker", allow_abbrev=False)
    parser.add_argument("session", type=Path)
    parser.add_argument("--first-command", type=int, required=True, help="the command that the worker is started for; older ones are not done")
    parser.add_argument("--trust", action="store_true", help="the front's user allowed the model's own code to run")
    parser.add_argument("--function-bytes", type=int, default=0, help="length of a pickled TE function at the start of standard input")
    options = parser.parse_args()
    front = _take_standard_input()
    try:
        directory = SessionDirectory.open(options.session)
        with directory.lock() as mine:
            if not mine:
                _refuse(directory)
                return ALREADY_SERVED
            function = _read(front, options.function_bytes)
            front_gone = threading.Event()
            threading.Thread(target=_watch_front, args=(front, front_gone), name="front", daemon=True).start()
            service = Service(directory, first=options.first_command, front_gone=front_gone)

            def load() -> dict[str, Job]:
                engine = _load_engine(ending, processes_at_once=_needs_processes(directory, options.first_command))
                return Jobs(engine, start_s=time.perf_counter() - started, function=function, trust=options.trust).by_kind()

            with contextlib.ExitStack() as ending:
                service.run(load)
    except _EngineError as error:
        _log(error.__cause__ or error)
        return NO_ENGINE
    except (EnvironmentFault, OSError) as error:
        _log(error)
        return CANNOT_WRITE
    return 0


def _log(error: BaseException) -> None:
    with contextlib.suppress(OSError):  # the log lies on the same full disk
        traceback.print_exception(error)
        sys.stderr.flush()


def _refuse(directory: SessionDirectory) -> None:
    """Say who serves the session already."""
    with directory.store() as store:
        owner = store.worker()
    name = "another worker" if owner is None else f"the worker of process {owner.pid}"
    sys.stderr.write(f"The session in {directory.path} is served by {name}.\n")


def _take_standard_input() -> int:
    """The pipe from the front, away from a model's code that reads standard input."""
    front = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    return front


def _needs_processes(directory: SessionDirectory, number: int) -> bool:
    """True if the worker was started for what further processes do: searching, applying, views."""
    with directory.store() as store:
        return store.command(number).kind in {*_BUILDING, INSPECT}


def _load_engine(ending: contextlib.ExitStack, *, processes_at_once: bool) -> Engine:
    """Import the engine; the only place that does, so that a front never loads TVM.

    Args:
        ending: Ends the processes that build, measure and make views, with the worker.
        processes_at_once: True has the processes that build, measure and make views load TVM at the same time; False, when they are needed.
    """
    module, attribute = _ENGINE
    try:
        nursery = importlib.import_module(_PROCESSES).new_nursery(warm=processes_at_once)
        ending.callback(nursery.close)
        return cast("Engine", getattr(importlib.import_module(module), attribute)(nursery))
    except Exception as error:
        raise _EngineError from error


def _read(front: int, count: int) -> bytes:
    """The first `count` bytes from the front, or fewer if it has gone."""
    received = bytearray()
    while len(received) < count and (chunk := os.read(front, min(count - len(received), _CHUNK_BYTES))):
        received += chunk
    return bytes(received)


def _watch_front(front: int, front_gone: threading.Event) -> None:
    """Wait for the end of the pipe, which the front holds open as long as it lives."""
    while os.read(front, _CHUNK_BYTES):
        pass
    front_gone.set()


def _run_process() -> None:
    """End at once after the work: TVM needs 0.2 s to take itself apart, and sometimes fails doing so."""
    code = main()
    with contextlib.suppress(OSError):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


if __name__ == "__main__":
    _run_process()
