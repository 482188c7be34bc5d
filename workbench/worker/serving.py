"""Serves a session in this process, whatever started it: takes the lock, loads the engine, works until nobody wants it."""

from __future__ import annotations

import contextlib
import importlib
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import cast

from workbench.engines.protocol import Engine
from workbench.errors import EnvironmentFault
from workbench.session import SessionDirectory
from workbench.worker import ALREADY_SERVED, CANNOT_WRITE, NO_ENGINE, SEARCH
from workbench.worker.context import Job
from workbench.worker.jobs import Jobs
from workbench.worker.presence import Presence
from workbench.worker.service import Service
from workbench.worker.view_desk import INSPECT

_ENGINE = ("workbench.engines.relax.engine", "RelaxEngine")
_PROCESSES = "workbench.engines.relax.search.processes"
_BUILDING = (SEARCH, "apply", "verify", "rerun")


class _EngineError(Exception):
    """The engine cannot be loaded."""


def serve_session(
    session: Path, *, first: int, trust: bool, function: Callable[[], bytes], presence: Callable[[SessionDirectory], Presence], warm: bool = False
) -> int:
    """Serve a session; returns the exit code of the process.

    Args:
        session: The session directory.
        first: The command that the worker was started for; older ones are not done.
        trust: True if the front's user allowed the model's own code to run.
        function: Receives the pickled TE function of the front's process; empty if there is none.
        presence: Makes what tells when to end.
        warm: True loads what a search needs even if the first command is none.
    """
    started = time.perf_counter()
    try:
        directory = SessionDirectory.open(session)
        with directory.lock() as mine:
            if not mine:
                _refuse(directory)
                return ALREADY_SERVED
            content = function()
            service = Service(directory, first=first, presence=presence(directory))

            def load() -> dict[str, Job]:
                engine = _load_engine(ending, processes_at_once=warm or _needs_processes(directory, first))
                return Jobs(engine, start_s=time.perf_counter() - started, function=content, trust=trust).by_kind()

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
