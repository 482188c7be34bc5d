"""Takes commands from the store, one at a time, and answers them."""

from __future__ import annotations

import contextlib
import os
import time
import traceback
from collections.abc import Callable

from workbench.errors import EnvironmentFault, Interrupted, SessionError, WorkbenchError
from workbench.escaping import plain
from workbench.records.command import Command, Failure
from workbench.session import SessionDirectory
from workbench.store import Store
from workbench.worker import READY, SEARCH, STARTING
from workbench.worker.context import Job, JobContext
from workbench.worker.presence import Presence

_POLL_S = 0.01
_EVENT_S = 0.1
_REASON_LIMIT = 500
_WORKER_GONE = "its worker ended without an answer"


class Service:
    """Serves one session until nobody wants it any more.

    Args:
        directory: The session, whose lock this process holds.
        first: The command that the worker was started for; what waits from before it is not done.
        presence: Tells when fronts have gone; the service then ends after the commands at hand.
    """

    def __init__(self, directory: SessionDirectory, *, first: int, presence: Presence) -> None:
        self._directory = directory
        self._first = first
        self._presence = presence

    def run(self, load: Callable[[], dict[str, Job]]) -> None:
        """Serve.

        Args:
            load: Gets ready what the service needs for its work, and returns what to do for each kind of command.

        Raises:
            EnvironmentFault: The session cannot be written.
        """
        with self._directory.store() as store:
            store.abandon_commands(first=self._first)
            store.end_search(_WORKER_GONE)
            store.forget_progress()
            self._directory.settle_program(store.manifest().get("profile_id"))
            self._directory.sweep()
            store.set_worker(os.getpid(), STARTING)
            jobs = load()
            store.set_worker(os.getpid(), READY)
            self._serve(store, jobs)
            store.clear_worker()

    def _serve(self, store: Store, jobs: dict[str, Job]) -> None:
        last_work = time.monotonic()
        while True:
            # A search ends with the front that started the worker: whoever else wants one starts a worker of its own.
            command = store.take_command(jobs.keys() - {SEARCH} if self._presence.is_gone() else None)
            if command is None:
                if self._presence.is_time_to_end(time.monotonic() - last_work):
                    return
                self._presence.wait(_POLL_S)
                continue
            self._answer(store, jobs, command)
            store.fail_left()
            last_work = time.monotonic()

    def _answer(self, store: Store, jobs: dict[str, Job], command: Command) -> None:
        context = JobContext(
            directory=self._directory,
            store=store,
            command=command.command,
            on_progress=self._progress(store, command),
            front_gone=self._presence.is_gone,
        )
        try:
            result = _job(jobs, command)(context, command.arguments)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a job raises is an answer to the front, not the end of the worker
            self._answer_failure(store, command, error)
        else:
            store.finish_command(command.command, result=result)

    def _answer_failure(self, store: Store, command: Command, error: BaseException) -> None:
        """Answer that a command was stopped, or why it failed; TVM may have wrapped the interruption into an error of its own."""
        asked_to_end = store.command(command.command).cancelled
        if isinstance(error, Interrupted) and not asked_to_end and self._presence.is_gone():
            if why := self._presence.why_gone():
                store.update_manifest({"last_stop": {"command": command.kind, "cause": why}})
            store.abandon_command(command.command)  # of another front, which gives it again to a worker of its own
            return
        cancelled = isinstance(error, Interrupted) or asked_to_end
        failure = None if cancelled else _failure(error)
        reason = "stopped by the user" if failure is None else plain(failure.message, _REASON_LIMIT)
        with contextlib.suppress(EnvironmentFault):  # on a full disk the answer to the front matters more
            store.update_manifest({"last_stop": {"command": command.kind, "cause": reason}})
        store.finish_command(command.command, failure=failure, cancelled=cancelled)

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
            store.add_event("progress", {"command": command.command, "phase": phase, "share": share})
            if store.command(command.command).cancelled:
                raise Interrupted("The work was stopped.")

        return progress


def _job(jobs: dict[str, Job], command: Command) -> Job:
    """What to do for a command.

    Raises:
        SessionError: Nothing: it is of another version of the workbench, or of nobody's.
    """
    job = jobs.get(command.kind)
    if job is None:
        raise SessionError(f"The worker of this session knows no command {plain(command.kind, 60)}.", "Use fronts of one version of the workbench.")
    return job


def _failure(error: BaseException) -> Failure:
    detail = "".join(traceback.format_exception(error))
    if isinstance(error, WorkbenchError):
        return Failure(kind=type(error).__name__, message=error.message, remedy=error.remedy, detail=detail)
    if isinstance(error, OSError):
        place = f"{plain(str(error.filename), 120)}: " if error.filename else ""
        message = f"{place}{error.strerror or error}."
        return Failure(kind="EnvironmentFault", message=message, remedy="Check its permissions and the free space.", detail=detail)
    if isinstance(error, MemoryError):
        message = "The memory of this machine is not enough for the model."
        return Failure(kind="EnvironmentFault", message=message, remedy="Use a machine with more memory.", detail=detail)
    message = f"{type(error).__name__}: {error}"
    return Failure(kind="InternalError", message=message, remedy="Please report it with the text that -v shows.", detail=detail)
