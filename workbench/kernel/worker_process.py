"""A worker as a plain child process: started on first use, kept warm, replaced when it dies, ended with its whole process group."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from workbench.errors import EnvironmentFault, Interrupted, SessionError, WorkbenchError, WorkerDied
from workbench.escaping import plain
from workbench.kernel.pending import OnEvent, Pending, answer_of
from workbench.kernel.worker_log import last_words, log_tail
from workbench.records.command import ABANDONED, FINAL_STATES, PENDING, Failure
from workbench.session import SessionDirectory
from workbench.store import Store
from workbench.worker import ALREADY_SERVED, CANNOT_WRITE, NO_ENGINE, STARTING

_POLL_S = 0.02
_CANCEL_GRACE_S = 5.0
_STOP_GRACE_S = 3.0
_MOST_STARTS = 10
_CRASHES = (signal.SIGSEGV, signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE)
_DOCTOR = "Run `workbench doctor`."


class WorkerProcess:
    """The worker of one session, or the part of it that this front can see: a session has one worker, whichever front started it.

    Args:
        directory: The session.
        threads: Threads that run the kernels; set before TVM loads, since TVM takes half of the logical CPUs otherwise.
        function: A pickled TE function that the worker gets through its standard input.
        trust: True if the user allowed the model's own code to run: the worker learns it from its command line alone.
    """

    def __init__(self, directory: SessionDirectory, *, threads: int, function: bytes = b"", trust: bool = False) -> None:
        self._directory = directory
        self._threads = threads
        self._function = function
        self._trust = trust
        self._process: subprocess.Popen[bytes] | None = None
        self._commands: set[int] = set()

    @property
    def commands(self) -> frozenset[int]:
        """Numbers of all commands that this front gave."""
        return frozenset(self._commands)

    @property
    def pid(self) -> int | None:
        """The process that this front started; None if there is none, or another front's worker serves the session."""
        return None if self._process is None or self._process.poll() is not None else self._process.pid

    def run(self, kind: str, arguments: dict[str, Any], *, on_event: OnEvent | None = None) -> dict[str, Any]:
        """Have the worker do something, and wait for it.

        Args:
            kind: Kind of the command.
            arguments: What it needs.
            on_event: Told every event of this command meanwhile; what it raises ends the command.

        Raises:
            WorkbenchError: What the worker raised.
            WorkerDied: The worker ended without an answer.
            Interrupted: Ctrl-C; the worker was told to end the command.
        """
        pending = self.begin(kind, arguments)
        try:
            while (answer := self.poll(pending, on_event=on_event)) is None:
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            self.cancel(pending)
            raise Interrupted("Stopped.", "What was finished before is saved.") from None
        except BaseException:
            self.cancel(pending)
            raise
        return answer

    def begin(self, kind: str, arguments: dict[str, Any]) -> Pending:
        """Have the worker do something, without waiting for it; see `run`. What cannot be begun does not stay behind for another worker."""
        pending = Pending(kind, {**arguments, "expects_trust": self._trust})
        try:
            with self._directory.store() as store:
                self._give(store, pending)
                if not self._is_alive(store, pending.number):
                    self._start(pending.number)
                    pending.starts += 1
        except BaseException:
            if pending.number:
                self.cancel(pending)
            raise
        return pending

    def tell(self, kind: str, arguments: dict[str, Any]) -> None:
        """Give a command to a worker that is busy with another one, and wait for its answer; a worker that is gone gives none.

        Raises:
            WorkbenchError: What the worker raised.
        """
        with self._directory.store() as store:
            number = store.add_command(kind, arguments)
            self._commands.add(number)
            while True:
                command = store.command(number)
                if command.state in FINAL_STATES:
                    answer_of(command)
                    return
                if not self._is_alive(store, number):
                    raise SessionError("The worker has ended.", "Start the work again.")
                time.sleep(_POLL_S)

    def poll(self, pending: Pending, *, on_event: OnEvent | None = None) -> dict[str, Any] | None:
        """The worker's answer; None while it works.

        Args:
            pending: What was begun.
            on_event: Told every event since the last call.

        Raises:
            WorkbenchError: What the worker raised.
            WorkerDied: The worker ended without an answer.
        """
        with self._directory.store() as store:
            command = store.command(pending.number)
            pending.tell(store, on_event)
            if command.state == ABANDONED:  # a worker that another front started just now did not know the command, and left it
                pending.abandoned += 1
                if pending.abandoned >= _MOST_STARTS:
                    raise WorkerDied("Other workers take over the session again and again.", "Close the other fronts of the session.")
                self._give(store, pending)
                return None
            if command.state in FINAL_STATES:
                return answer_of(command)
            if not self._is_alive(store, pending.number):
                if store.command(pending.number).state in FINAL_STATES:
                    return None  # another front's worker has answered just now, and ended
                pending.starts += 1
                if pending.starts > _MOST_STARTS:
                    raise WorkerDied("The worker ends again and again before it answers.", _DOCTOR)
                self._start(pending.number)
            if command.state == PENDING:
                pending.tell_of_waiting(store, on_event)
            return None

    def waits_behind(self, pending: Pending) -> str:
        """Kind of what the worker does before it can begin a command, mostly for another front; empty if the command does not wait for that."""
        with self._directory.store() as store:
            running = store.running_beside(pending.number) if self._directory.is_served() else None
        return "" if running is None else running.kind

    def _give(self, store: Store, pending: Pending) -> None:
        pending.last_event = store.last_event()
        pending.number = store.add_command(pending.kind, pending.arguments)
        self._commands.add(pending.number)

    def _is_alive(self, store: Store, number: int) -> bool:
        """True if a worker of this or another front will answer the command, or has answered it.

        Raises:
            WorkerDied: The worker of this front has ended without an answer.
        """
        process = self._process
        if process is None or process.poll() is None:
            return process is not None or self._directory.is_served()
        self._forget()
        if store.command(number).state in FINAL_STATES:
            return True
        if process.returncode not in (0, ALREADY_SERVED):  # 0: it ended, idle, just before our command came
            error, tail = self._death(process, store), log_tail(self._directory.log)
            if tail:
                error.add_note(tail)
            failure = Failure(kind=type(error).__name__, message=error.message, remedy=error.remedy, detail=tail)
            with contextlib.suppress(WorkbenchError):  # on a full disk nothing can be noted
                store.finish_command(number, failure=failure)
            raise error
        return self._directory.is_served()

    def _start(self, number: int) -> None:
        options = [f"--function-bytes={len(self._function)}", f"--first-command={number}", *(["--trust"] if self._trust else [])]
        # -P and the front's own path: the worker finds what the front found, and nothing that lies in the current folder by chance.
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", "workbench.worker", str(self._directory.path), *options]
        environment = {**os.environ, "PYTHONPATH": _search_path(), "TVM_NUM_THREADS": str(self._threads), "PYTHONUNBUFFERED": "1"}
        try:
            with self._directory.open_log() as log:
                self._process = subprocess.Popen(
                    command, stdin=subprocess.PIPE, stdout=log, stderr=log, env=environment, start_new_session=True, bufsize=0
                )
        except OSError as error:
            raise EnvironmentFault(
                f"The worker cannot be started: {plain(str(error), 200)}.", "Check the session directory and the memory."
            ) from error
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # a worker that died at once is reported when it is waited for
                rest = memoryview(self._function)
                while rest:
                    rest = rest[self._process.stdin.write(rest) or 0 :]

    def cancel(self, pending: Pending) -> None:
        """End a command: ask first, kill then; a second Ctrl-C kills at once."""
        try:
            with self._directory.store() as store:
                if store.command(pending.number).state in FINAL_STATES:
                    return
                store.cancel_command(pending.number)
                deadline = time.monotonic() + _CANCEL_GRACE_S
                while time.monotonic() < deadline and (self.pid is not None or self._directory.is_served()):
                    if store.command(pending.number).state in FINAL_STATES:
                        return
                    time.sleep(_POLL_S)
        except (KeyboardInterrupt, WorkbenchError):
            pass  # no more patience, or a session that cannot be written
        self.kill()
        with contextlib.suppress(WorkbenchError), self._directory.store() as store:
            store.finish_command(pending.number, cancelled=True)

    def stop(self) -> None:
        """End the worker, unless another front waits for its answer: then it ends after that."""
        process = self._process
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        try:
            process.wait(_STOP_GRACE_S)
        except subprocess.TimeoutExpired:
            if not self._is_needed():
                self.kill()
        self._forget()

    def kill(self) -> None:
        """End the worker and all its children at once."""
        if self._process is not None:
            with contextlib.suppress(ProcessLookupError):  # it may be gone already
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        self._forget()

    def _is_needed(self) -> bool:
        """True if another front waits for an answer."""
        try:
            with self._directory.store() as store:
                return not self._commands.issuperset(store.open_commands())
        except WorkbenchError:
            return False

    def _forget(self) -> None:
        """Let go of the process; what a dead worker has left of its children ends with it."""
        process, self._process = self._process, None
        if process is None:
            return
        if process.stdin is not None:
            process.stdin.close()
        if process.poll() is None:
            process.returncode = 0  # it finishes another front's work; it is no child to be waited for any more
            return
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)

    def _death(self, process: subprocess.Popen[bytes], store: Store) -> EnvironmentFault:
        """What to tell of a worker that ended without an answer."""
        code, said = process.returncode, last_words(self._directory.log)
        if code == CANNOT_WRITE:
            return EnvironmentFault(
                f"The worker cannot write the session in {plain(str(self._directory.path), 120)}: the disk is full or read-only.",
                "Free some space, or give another --session DIR.",
            )
        if code == NO_ENGINE:
            return WorkerDied(f"TVM cannot be loaded: {said}.", _DOCTOR)
        with contextlib.suppress(WorkbenchError):
            state = store.worker()
            if state is not None and (state.pid, state.phase) == (process.pid, STARTING):
                return WorkerDied(f"The worker {_ending(code)} while it loaded TVM.", _DOCTOR)
        if code == -signal.SIGKILL:
            return WorkerDied(f"The worker {_ending(code)}.", "If nobody killed it, the memory ran out: look at the kernel's log, and try again.")
        if -code in _CRASHES:
            return WorkerDied(
                f"The worker {_ending(code)}: TVM crashed.", f"{_DOCTOR} If it finds nothing, please report it with the text that -v shows."
            )
        return WorkerDied(f"The worker {_ending(code)}: {said}.", _DOCTOR)


def _search_path() -> str:
    """Where this process finds modules, for the worker: the user may have extended it, and may have moved to another folder."""
    folders = dict.fromkeys(str(Path(entry).absolute()) for entry in sys.path if isinstance(entry, str) and os.pathsep not in entry)
    return os.pathsep.join(folders)


def _ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"died with {signal.Signals(-code).name}"
    except ValueError:
        return f"died with signal {-code}"
