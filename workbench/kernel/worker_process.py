"""A worker as a plain child process: started on first use, kept warm, replaced when it dies, ended with its whole process group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from workbench import errors
from workbench.errors import Interrupted, WorkbenchError, WorkerDied
from workbench.records.command import CANCELLED, DONE, FINAL_STATES, Command, Event, Failure
from workbench.session import SessionDirectory
from workbench.store import Store
from workbench.worker import ALREADY_SERVED

_POLL_S = 0.02
_CANCEL_GRACE_S = 5.0
_STOP_GRACE_S = 3.0
_FRESH_BEAT_S = 10.0
_LOG_TAIL_BYTES = 2000

OnEvent = Callable[[Event], None]


class WorkerProcess:
    """The worker of one session.

    Args:
        directory: The session.
        threads: Threads that run the kernels; set before TVM loads, since TVM takes half of the logical CPUs otherwise.
        function: A pickled TE function that the worker gets through its standard input.
    """

    def __init__(self, directory: SessionDirectory, *, threads: int, function: bytes = b"") -> None:
        self._directory = directory
        self._threads = threads
        self._function = function
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start the process if it does not run."""
        if self._process is not None and self._process.poll() is None:
            return
        environment = {**os.environ, "TVM_NUM_THREADS": str(self._threads), "PYTHONUNBUFFERED": "1"}
        with self._directory.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "workbench.worker", str(self._directory.path), "--function-bytes", str(len(self._function))],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                env=environment,
                start_new_session=True,
            )
        if self._function and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # a worker that died at once is reported when it is waited for
                self._process.stdin.write(self._function)
                self._process.stdin.flush()

    def run(self, kind: str, arguments: dict[str, Any], *, on_event: OnEvent | None = None) -> dict[str, Any]:
        """Have the worker do something, and wait for it.

        Args:
            kind: Kind of the command.
            arguments: What it needs.
            on_event: Told every event meanwhile.

        Raises:
            WorkbenchError: What the worker raised.
            WorkerDied: The worker ended without an answer.
            Interrupted: Ctrl-C; the worker was told to end the command.
        """
        with self._directory.store() as store:
            last_event = store.last_event()
            self.start()
            number = store.add_command(kind, arguments)
            try:
                while True:
                    command = store.command(number)
                    last_event = _tell(store, last_event, on_event)
                    if command.state in FINAL_STATES:
                        return _answer(command)
                    self._check_alive(store, number)
                    time.sleep(_POLL_S)
            except KeyboardInterrupt:
                self._cancel(store, number)
                raise Interrupted("Stopped.", "What was finished before is saved.") from None

    def _check_alive(self, store: Store, number: int) -> None:
        """Raise WorkerDied if nobody will answer the command."""
        code = None if self._process is None else self._process.poll()
        if code is None:
            return
        beat = store.heartbeat()
        if code == ALREADY_SERVED and beat is not None and time.time() - beat.time_s < _FRESH_BEAT_S:
            return  # another front's worker serves the session, and takes our command
        if store.command(number).state in FINAL_STATES:
            return
        if code in (0, ALREADY_SERVED):
            self.start()  # it ended, idle, just before our command came
            return
        store.cancel_command(number)
        raise WorkerDied(f"The worker {_ending(code)}.", f"Its last words are in {self._directory.log}: {self._log_tail()}")

    def _cancel(self, store: Store, number: int) -> None:
        """End a command: ask first, kill then."""
        store.cancel_command(number)
        deadline = time.monotonic() + _CANCEL_GRACE_S
        while time.monotonic() < deadline:
            if store.command(number).state in FINAL_STATES:
                return
            time.sleep(_POLL_S)
        self.kill()

    def stop(self) -> None:
        """End the worker: close its input, wait, kill."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it may be gone already
                process.stdin.close()
        try:
            process.wait(_STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def kill(self) -> None:
        """End the worker and all its children at once."""
        process = self._process
        if process is not None:
            with contextlib.suppress(ProcessLookupError):  # it may be gone already
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            self._process = None

    def _log_tail(self) -> str:
        try:
            with self._directory.log.open("rb") as log:
                log.seek(0, os.SEEK_END)
                log.seek(max(log.tell() - _LOG_TAIL_BYTES, 0))
                lines = log.read().decode("utf-8", "replace").strip().splitlines()
        except OSError:
            return "(none)"
        return lines[-1][:300] if lines else "(none)"


def _tell(store: Store, last_event: int, on_event: OnEvent | None) -> int:
    """Tell the events after `last_event`; return the number of the newest."""
    if on_event is None:
        return last_event
    for event in store.events_since(last_event):
        last_event = event.event
        on_event(event)
    return last_event


def _answer(command: Command) -> dict[str, Any]:
    if command.state == DONE:
        return command.result or {}
    if command.state == CANCELLED:
        raise Interrupted("Stopped.", "What was finished before is saved.")
    raise _raised(command.failure or Failure(kind="InternalError", message="The worker gave no reason."))


def _raised(failure: Failure) -> WorkbenchError:
    """The error that the worker raised, of the same class, with its full text as a note."""
    kind = getattr(errors, failure.kind, WorkbenchError)
    error: WorkbenchError = kind(failure.message, failure.remedy) if issubclass(kind, WorkbenchError) else WorkbenchError(failure.message)
    error.add_note(failure.detail)
    return error


def _ending(code: int) -> str:
    """How a process ended, in words."""
    if code < 0:
        return f"died with {signal.Signals(-code).name}"
    return f"ended with exit code {code}"
