"""The session that the app shows: watched, attended, and what this front does to it; who wants what of it is no matter here."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext

from workbench.api import Session
from workbench.errors import Interrupted, SessionError
from workbench.kernel import Host
from workbench.notebook.app.session_view import SessionView
from workbench.notebook.app.standing import LocalWork, StepClock, app_state
from workbench.notebook.app.state import BUSY, AppState, Problem
from workbench.notebook.app.teller import Teller
from workbench.notebook.app.watcher import Watcher
from workbench.records.command import FINAL_STATES

OnState = Callable[[AppState], None]


class Stage:
    """Holds one session at a time, and makes of what its store says and of what this front does the state of the app.

    Several threads use it: what belongs together is read and changed under the `lock`.

    Args:
        on_state: Told each new state, by a thread of its own.
        new_host: Makes what workers run in, from the name of a Jupyter kernel; None leaves them child processes.
        clock: Seconds; monotonic.

    Attributes:
        lock: Held while several things are read or changed.
        local: What this front is doing and the store does not tell yet.
        view: What the session said last; None before it said anything.
        session: The session; None if there is none.
        kernel: Name of the Jupyter kernel that its workers run in; empty for the app's own choice.
        is_closed: True once the app is gone.
    """

    def __init__(self, *, on_state: OnState, new_host: Callable[[str], Host] | None, clock: Callable[[], float]) -> None:
        self._new_host = new_host
        self._clock = clock
        self.lock = threading.RLock()
        self.local = LocalWork()
        self.view: SessionView | None = None
        self.session: Session | None = None
        self.kernel = ""
        self.is_closed = False
        self._watcher: Watcher | None = None
        self._steps = StepClock()
        self._is_expecting = False
        self._teller = Teller(lambda: self.state, on_state)

    @property
    def state(self) -> AppState:
        """The present state."""
        with self.lock:
            return app_state(self.view, self.local, self._steps.steps(self._clock()))

    def needed_session(self) -> Session:
        """The session.

        Raises:
            SessionError: There is none.
        """
        session = self.session
        if session is None:
            raise SessionError("No model is open.", "Choose one and press Profile.")
        return session

    def publish(self) -> None:
        """Have the present state told, unless it was told."""
        self._teller.tell()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While something is written and shown: no view that was read before it comes after it."""
        watcher = self._watcher
        with nullcontext() if watcher is None else watcher.holding():
            yield

    # one session after the other

    def attach(self, session: Session, *, kernel: str = "") -> None:
        """Watch another session, and show those who serve it that somebody is there; the one before is closed."""
        self._detach()
        if self._new_host is not None and session.worker_pid is None:
            session.use_host(self._new_host(kernel))
        watcher = Watcher(session.directory, on_view=self._see, on_trouble=self._take_trouble)
        session.attend()
        with self.lock:
            self.session, self.kernel, self._watcher, self.view = session, kernel, watcher, None
            self.local = LocalWork(opening=self.local.opening, given_up=self.local.given_up)
            self._steps = StepClock()
        watcher.start()

    def clear(self) -> None:
        """Close the session, and show none."""
        self._detach()
        with self.lock:
            self.view = None

    def close(self) -> Session | None:
        """Tell nothing more, and let go of the session without closing it."""
        self.is_closed = True
        self._teller.close()
        return self._let_go()

    def _detach(self) -> None:
        """Close the session, if there is one; what it said last stays in view."""
        session = self._let_go()
        if session is not None:
            session.close()

    def _let_go(self) -> Session | None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close()
        session, self.session = self.session, None
        return session

    # what this front is doing

    def expect(self, name: str) -> None:
        """A model is being opened: until `expect_no_more` or `end_opening`, what is seen is not yet it."""
        with self.lock:
            self.local.opening, self.local.problem, self.local.given_up = name, None, ""
            self._is_expecting = True

    def expect_no_more(self) -> None:
        """What is seen next is the model that was opened."""
        self._is_expecting = False

    def end_opening(self) -> None:
        """No model is being opened any more."""
        with self.lock:
            self._is_expecting, self.local.opening = False, ""

    def set_begun(self, kind: str) -> None:
        """A long command of some kind is being given; the empty one: it is no more."""
        with self.lock:
            self.local.begun = kind
            known = None if self.view is None else self.view.command
            self.local.begun_after = 0 if known is None else known.command
        self.publish()

    def show_problem(self, problem: Problem | None) -> None:
        """Show what went wrong; None: nothing, and nothing that an engine lacks."""
        with self.lock:
            self.local.problem = problem
            if problem is None:
                self.local.lack = None
        self.publish()

    def guarded(self, work: Callable[[], None]) -> None:
        """Do something in this thread; what goes wrong is the user's to know."""
        try:
            work()
        except Interrupted:
            pass  # the user wanted it
        except Exception as error:  # noqa: BLE001 - a thread has no caller: what it does not show itself, nobody sees
            with self.lock:
                self.local.problem = Problem.of(error)
        finally:
            if self._watcher is not None:
                self._watcher.wake()
            self.publish()

    # what is seen

    def _see(self, view: SessionView) -> None:
        with self.lock:
            if self._watcher is None:
                return
            self.view = view
            if not self._is_expecting:
                self.local.opening = ""
            command, now = view.command, self._clock()
            if command is not None and command.command != self._steps.command:
                self._steps.begin(command.command)
            self._steps.note(view.phases, now)
            if command is not None and command.command > self.local.begun_after and (view.is_served or command.state in FINAL_STATES):
                self.local.begun = ""
            if self.state.phase not in BUSY:
                self._steps.end(now)
        self.publish()

    def _take_trouble(self, trouble: Problem | None) -> None:
        with self.lock:
            self.local.trouble = trouble
            if trouble is not None and self.view is None and not self._is_expecting:
                self.local.opening = ""  # it is open, and cannot be seen: that keeps nobody from another one
        self.publish()
