"""Serves a session in this process, whatever started it: takes the lock, loads the engine, works until nobody wants it."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import cast

from workbench.engines.protocol import Engine
from workbench.errors import EnvironmentFault
from workbench.old_python import need_old_python
from workbench.records.request import RELAX, RELAY
from workbench.session import SessionDirectory
from workbench.worker import ALREADY_SERVED, CANNOT_WRITE, NO_ENGINE, SEARCH
from workbench.worker.context import Job
from workbench.worker.jobs import Jobs
from workbench.worker.presence import Presence
from workbench.worker.service import Service
from workbench.worker.view_desk import INSPECT

_RELAX = "workbench.engines.relax.engine"
_RELAY = "workbench.engines.relay.engine"
_PROCESSES = "workbench.engines.relax.search.processes"
_BUILDING = (SEARCH, "apply", "verify", "rerun")


class _EngineError(Exception):
    """The engine cannot be loaded."""


def serve_session(
    session: Path,
    *,
    first: int,
    trust: bool,
    function: Callable[[], bytes],
    presence: Callable[[SessionDirectory], Presence],
    warm: bool = False,
    python: str = "",
) -> int:
    """Serve a session; returns the exit code of the process.

    Args:
        session: The session directory.
        first: The command that the worker was started for; older ones are not done.
        trust: True if the front's user allowed the model's own code to run.
        function: Receives the pickled TE function of the front's process; empty if there is none.
        presence: Makes what tells when to end.
        warm: True loads what a search needs even if the first command is none.
        python: The old Python that the relay engine runs TVM in; empty if there is none.
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
                if _engine_name(directory, first) == RELAY:
                    engine = _load_relay(ending, python)
                else:
                    engine = _load_relax(ending, processes_at_once=warm or _needs_processes(directory, first))
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


def _engine_name(directory: SessionDirectory, number: int) -> str:
    """The engine of what the worker was started for: a profile says which, everything else is about the profile that there is."""
    with directory.store() as store:
        command = store.command(number)
        asked = command.arguments.get("engine") if command.kind == "profile" else store.manifest().get("engine")
    return str(asked or RELAX)


def _load_relay(ending: contextlib.ExitStack, python: str) -> Engine:
    """Import the engine that runs older TVM in another Python."""
    try:
        need_old_python(python)
        engine = importlib.import_module(_RELAY).RelayEngine(Path(python), threads=int(os.environ.get("TVM_NUM_THREADS") or 1))
        ending.callback(engine.close)
        return cast("Engine", engine)
    except Exception as error:
        raise _EngineError from error


def _load_relax(ending: contextlib.ExitStack, *, processes_at_once: bool) -> Engine:
    """Import the engine of today's TVM; with `_load_relay` the only place that imports one, so that a front never loads TVM.

    Args:
        ending: Ends the processes that build, measure and make views, with the worker.
        processes_at_once: True has the processes that build, measure and make views load TVM at the same time; False, when they are needed.
    """
    try:
        nursery = importlib.import_module(_PROCESSES).new_nursery(warm=processes_at_once)
        ending.callback(nursery.close)
        return cast("Engine", importlib.import_module(_RELAX).RelaxEngine(nursery))
    except Exception as error:
        raise _EngineError from error
