"""The front's side of a worker: started on first use, kept warm, replaced when it dies, whatever kind of process hosts it."""

from __future__ import annotations

import contextlib
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from workbench.errors import EnvironmentFault, Interrupted, SessionError, WorkbenchError, WorkerDied
from workbench.escaping import plain
from workbench.kernel.child_process import ChildProcess
from workbench.kernel.host import Host, Launch
from workbench.kernel.pending import OnEvent, Pending, answer_of
from workbench.kernel.worker_log import last_words, log_tail
from workbench.old_python import need_old_python
from workbench.records.command import ABANDONED, FINAL_STATES, PENDING, RUNNING, Failure
from workbench.records.request import RELAX, RELAY
from workbench.session import SessionDirectory
from workbench.store import Store
from workbench.worker import ALREADY_SERVED, CANNOT_WRITE, NO_ENGINE, SEARCH, STARTING

_POLL_S = 0.02
_CANCEL_GRACE_S = 4.0
_STOP_GRACE_S = 3.0
_MOST_STARTS = 10
_CRASHES = (signal.SIGSEGV, signal.SIGILL, signal.SIGABRT, signal.SIGBUS, signal.SIGFPE)
_DOCTOR = "Run `workbench doctor`."


class WorkerProcess:
    """The worker of one session, or the part of it that this front can see: a session has one worker, whichever front started it.

    Several threads of a front may use one.

    Args:
        directory: The session.
        threads: Threads that run the kernels; set before TVM loads, since TVM takes half of the logical CPUs otherwise.
        function: A pickled TE function that the worker gets through its standard input.
        trust: True if the user allowed the model's own code to run: the worker learns it from its command line alone.
        host: What the worker runs in; None takes a plain child process, which ends with this front.
        engine: The engine that the worker has; one of older TVM needs a `python`.
        python: The old Python that the relay engine runs TVM in; the worker learns it from its command line alone. Empty if there is none.
    """

    def __init__(
        self,
        directory: SessionDirectory,
        *,
        threads: int,
        function: bytes = b"",
        trust: bool = False,
        host: Host | None = None,
        engine: str = RELAX,
        python: str = "",
    ) -> None:
        self._directory = directory
        self._threads = threads
        self._function = function
        self._trust = trust
        self._engine = engine
        self._python = python
        self._host: Host = host or ChildProcess()
        self._is_started = False
        self._pid: int | None = None
        self._stops = 0
        self._lock = threading.RLock()
        self._commands: set[int] = set()

    @property
    def commands(self) -> frozenset[int]:
        """Numbers of all commands that this front gave."""
        return frozenset(self._commands)

    @property
    def pid(self) -> int | None:
        """The process that this front started; None if there is none, or another front's worker serves the session."""
        with self._lock:
            return self._host.pid if self._is_started else None

    def use_host(self, host: Host) -> None:
        """Have the workers from now on run in another kind of process; one that runs is let go first."""
        self.stop()
        self._host = host

    def run(
        self, kind: str, arguments: dict[str, Any], *, on_event: OnEvent | None = None, wanted: Callable[[], bool] | None = None
    ) -> dict[str, Any]:
        """Have the worker do something, and wait for it.

        Args:
            kind: Kind of the command.
            arguments: What it needs.
            on_event: Told every event of this command meanwhile; what it raises ends the command.
            wanted: Asked again and again meanwhile; the command is ended when it says no.

        Raises:
            WorkbenchError: What the worker raised.
            WorkerDied: The worker ended without an answer.
            Interrupted: Ctrl-C, or it is not wanted any more; the worker was told to end the command.
        """
        pending = self.begin(kind, arguments)
        try:
            while (answer := self.poll(pending, on_event=on_event)) is None:
                _check_wanted(wanted)
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
        pending = Pending(kind, {**arguments, "expects_trust": self._trust}, stops=self._stops)
        try:
            self._let_go_of_a_dead_one()
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
                self._check_not_orphaned(store, pending.number)
                if pending.stops != self._stops:
                    raise Interrupted("The session was closed.", "What was finished before is saved.")
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
            EnvironmentFault: The worker of this front has ended without an answer, or cannot become one.
        """
        with self._lock:
            if not self._is_started:
                return self._is_served(store, number)
            pid = self._pid
            try:
                code = self._host.exit_code()
            except EnvironmentFault as error:
                self._forget()
                self._note(store, number, error)
                raise
            if code is None:
                return True
            self._forget()
        if store.command(number).state in FINAL_STATES:
            return True
        if code not in (0, ALREADY_SERVED):  # 0: it ended, idle, just before our command came
            death = self._death(code, pid, store)
            if tail := log_tail(self._directory.log):
                death.add_note(tail)
            self._note(store, number, death)
            raise death
        return self._is_served(store, number)

    def _is_served(self, store: Store, number: int) -> bool:
        """True if another front's worker will answer the command, or has answered it just now and ended."""
        return self._directory.is_served() or store.command(number).state in FINAL_STATES

    def _let_go_of_a_dead_one(self) -> None:
        """Forget a worker that ended before a command was given: its end was none of that command."""
        with self._lock, contextlib.suppress(EnvironmentFault):
            if self._is_started and self._host.exit_code() is None:
                return
            self._forget()

    def _check_not_orphaned(self, store: Store, number: int) -> None:
        """Raise WorkerDied if another front's worker ended in the middle of a command: nobody can take that up."""
        if store.command(number).state == RUNNING:
            error = WorkerDied("The worker has ended without an answer.", "What was measured is saved: go on with it.")
            self._note(store, number, error)
            raise error

    def _note(self, store: Store, number: int, error: EnvironmentFault) -> None:
        """Answer a command that no worker answers any more, and end the search that it may have been."""
        failure = Failure(kind=type(error).__name__, message=error.message, remedy=error.remedy, detail="\n".join(getattr(error, "__notes__", ())))
        with contextlib.suppress(WorkbenchError):  # on a full disk nothing can be noted
            store.finish_command(number, failure=failure)
            if not self._directory.is_served():
                store.end_search(error.message)

    def _start(self, number: int) -> None:
        with self._lock:
            if self._is_started and self._host.exit_code() is None:
                return  # another thread of this front was faster
            if self._engine == RELAY:
                need_old_python(self._python)
            self._host.start(Launch(self._directory, self._threads, self._function, self._trust, number, self._python))
            self._is_started = True
            self._pid = self._host.pid

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
            if pending.kind == SEARCH and not self._directory.is_served():
                store.end_search("stopped by the user")

    def stop(self) -> None:
        """End the worker, unless another front waits for its answer, or a search may outlive this front: then it ends after that."""
        with self._lock:
            self._stops += 1  # who still waits for an answer starts no other worker for it
            if not self._is_started:
                return
            self._host.release()
            goes_on = self._host.outlives_front and self._is_searching()
            if not goes_on and not self._host.wait(_STOP_GRACE_S) and not self._is_needed():
                self._host.kill()
            self._forget()

    def kill(self) -> None:
        """End the worker and all its children at once."""
        with self._lock:
            if self._is_started:
                self._host.kill()
            self._forget()

    def _is_searching(self) -> bool:
        """True if a search has been asked for and has not ended."""
        try:
            with self._directory.store() as store:
                return any(store.command(number).kind == SEARCH for number in store.open_commands())
        except WorkbenchError:
            return False

    def _is_needed(self) -> bool:
        """True if another front waits for an answer."""
        try:
            with self._directory.store() as store:
                return not self._commands.issuperset(store.open_commands())
        except WorkbenchError:
            return False

    def _forget(self) -> None:
        """Let go of the process; what a dead worker has left of its children ends with it."""
        if self._is_started:
            self._is_started = False
            self._host.forget()

    def _death(self, code: int, pid: int | None, store: Store) -> EnvironmentFault:
        """What to tell of a worker that ended without an answer."""
        said = last_words(self._directory.log)
        if code == CANNOT_WRITE:
            return EnvironmentFault(
                f"The worker cannot write the session in {plain(str(self._directory.path), 120)}: the disk is full or read-only.",
                "Free some space, or give another --session DIR.",
            )
        if code == NO_ENGINE:
            return WorkerDied(f"TVM cannot be loaded: {said}.", _DOCTOR)
        with contextlib.suppress(WorkbenchError):
            state = store.worker()
            if state is not None and (state.pid, state.phase) == (pid, STARTING):
                return WorkerDied(f"The worker {_ending(code)} while it loaded TVM.", _DOCTOR)
        if code == -signal.SIGKILL:
            return WorkerDied(f"The worker {_ending(code)}.", "If nobody killed it, the memory ran out: look at the kernel's log, and try again.")
        if -code in _CRASHES:
            return WorkerDied(
                f"The worker {_ending(code)}: TVM crashed.", f"{_DOCTOR} If it finds nothing, please report it with the text that -v shows."
            )
        return WorkerDied(f"The worker {_ending(code)}: {said}.", _DOCTOR)


def _check_wanted(wanted: Callable[[], bool] | None) -> None:
    if wanted is not None and not wanted():
        raise Interrupted("Stopped.", "What was finished before is saved.")


def _ending(code: int) -> str:
    """How a process ended, in words."""
    if code >= 0:
        return f"ended with exit code {code}"
    try:
        return f"died with {signal.Signals(-code).name}"
    except ValueError:
        return f"died with signal {-code}"
