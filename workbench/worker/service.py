"""Takes commands from the store, one at a time, and answers them; shows that it is alive while it works."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

from workbench.errors import Interrupted, WorkbenchError
from workbench.records.command import Command, Failure
from workbench.session import SessionDirectory
from workbench.store import Store
from workbench.worker.jobs import Job, JobContext

_POLL_S = 0.02
_BEAT_S = 1.0
_EVENT_S = 0.1


class Service:
    """Serves one session until it is told to stop, its front is gone, or nobody asked for anything for a while.

    Args:
        directory: The session.
        jobs: What to do for each kind of command.
        idle_s: Time without commands after which the service ends.
        front_gone: Set when the process that started the worker has ended; the service then ends after the commands at hand.
    """

    def __init__(self, directory: SessionDirectory, jobs: dict[str, Job], *, idle_s: float, front_gone: threading.Event) -> None:
        self._directory = directory
        self._jobs = jobs
        self._idle_s = idle_s
        self._front_gone = front_gone
        self._phase = "idle"
        self._ended = threading.Event()

    def run(self) -> None:
        """Serve."""
        store = self._directory.store()
        store.abandon_commands()
        store.beat(os.getpid(), self._phase)
        heart = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        heart.start()
        try:
            self._serve(store)
        finally:
            self._ended.set()
            heart.join()
            store.clear_heartbeat()
            store.close()

    def _serve(self, store: Store) -> None:
        last_work = time.monotonic()
        while True:
            command = store.take_command()
            if command is None:
                if self._front_gone.is_set() or time.monotonic() - last_work > self._idle_s:
                    return
                time.sleep(_POLL_S)
                continue
            if command.kind == "stop":
                store.finish_command(command.command, result={})
                return
            self._answer(store, command)
            last_work = time.monotonic()

    def _answer(self, store: Store, command: Command) -> None:
        self._phase = command.kind
        context = JobContext(directory=self._directory, store=store, on_progress=self._progress(store, command))
        try:
            job = self._jobs[command.kind]
            store.finish_command(command.command, result=job(context, command.arguments))
        except Interrupted:
            store.finish_command(command.command, cancelled=True)
        except Exception as error:  # whatever a job raises is an answer to the front, not the end of the worker
            store.finish_command(command.command, failure=_failure(error))
        finally:
            self._phase = "idle"

    def _progress(self, store: Store, command: Command) -> Callable[[str, float], None]:
        """Writes progress events, at most ten a second a phase, and ends the job when its command was cancelled."""
        last_phase = ""
        last_time = 0.0

        def progress(phase: str, share: float) -> None:
            nonlocal last_phase, last_time
            now = time.monotonic()
            if phase == last_phase and now - last_time < _EVENT_S:
                return
            last_phase, last_time = phase, now
            self._phase = phase
            store.add_event("progress", {"command": command.command, "phase": phase, "share": share})
            if store.command(command.command).cancelled:
                raise Interrupted("The work was stopped.")

        return progress

    def _beat(self) -> None:
        with self._directory.store() as store:
            while not self._ended.wait(_BEAT_S):
                store.beat(os.getpid(), self._phase)


def _failure(error: Exception) -> Failure:
    detail = "".join(traceback.format_exception(error))
    if isinstance(error, WorkbenchError):
        return Failure(kind=type(error).__name__, message=error.message, remedy=error.remedy, detail=detail)
    if isinstance(error, OSError):
        return Failure(kind="EnvironmentFault", message=f"{error.strerror or error}: {error.filename or ''}".strip(": ") + ".", detail=detail)
    if isinstance(error, MemoryError):
        return Failure(kind="EnvironmentFault", message="The memory of this machine is not enough for the model.", detail=detail)
    return Failure(kind="InternalError", message=f"{type(error).__name__}: {error}", remedy="Please report it with the text that -v shows.", detail=detail)


