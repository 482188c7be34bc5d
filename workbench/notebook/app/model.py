"""The app without a page: takes what the user wants, does it in threads of its own, and tells each new state."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from workbench.api import Search, Session
from workbench.api import open as open_session
from workbench.errors import Interrupted, SessionError, WorkbenchError
from workbench.escaping import plain
from workbench.kernel import Host
from workbench.notebook.app.choices import Opening
from workbench.notebook.app.lanes import Lane
from workbench.notebook.app.session_view import APPLY, PROFILE, STEPS, TUNE, SessionView
from workbench.notebook.app.standing import LocalWork, StepClock, app_state
from workbench.notebook.app.state import BUSY, EMPTY, SEARCHING, STOPPED, AppState, Problem
from workbench.notebook.app.teller import Teller
from workbench.notebook.app.ticking import Ticking, steer_towards
from workbench.notebook.app.watcher import Watcher
from workbench.records.command import FINAL_STATES
from workbench.records.request import IMPORTED
from workbench.records.selection import Selection
from workbench.records.tuning import SearchBudget

_POLL_S = 0.1
_CANCEL_S = 30.0
"""How long Cancel waits for the command that it is to end to be given."""

_LAST_WORK_S = 2.0

OnState = Callable[[AppState], None]


class AppModel(Ticking):
    """What the app does and what it knows; every method returns at once.

    What takes long is done in threads, one for each kind of work, so that ticking never waits for a search. What goes wrong there becomes the
    `problem` of the state. The session's store tells everything else, so that two apps on one session agree, and an app that is made
    anew shows what the one before it did.

    Args:
        on_state: Told each new state, by a thread of its own: what was clicked at once, how far something is about three times a second.
        new_host: Makes what workers run in, from the name of a Jupyter kernel, or the empty one for its own choice; None takes a plain child
            process.
        clock: Seconds; monotonic.
    """

    def __init__(self, *, on_state: OnState, new_host: Callable[[str], Host] | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._new_host = new_host
        self._clock = clock
        self._lock = threading.RLock()
        self._session: Session | None = None
        self._kernel = ""
        self._watcher: Watcher | None = None
        self._view: SessionView | None = None
        self._local = LocalWork()
        self._steps = StepClock()
        self._is_closed = False
        self._openings = 0
        self._opening = 0  # the one that has no session yet
        self._is_profile_next = False
        self._opener = Lane("workbench-open")  # one after the other: a cancelled opening takes its folder away, which may be the next one's too
        self._work = Lane("workbench-work", width=3)
        self._control = Lane("workbench-control", width=2)
        self._writing = Lane("workbench-writing")
        self._lanes = (self._opener, self._work, self._control, self._writing)
        self._teller = Teller(lambda: self.state, on_state)

    @property
    def state(self) -> AppState:
        """The present state."""
        with self._lock:
            return app_state(self._view, self._local, self._steps.steps(self._clock()))

    @property
    def session(self) -> Session | None:
        """The session that is open."""
        return self._session

    # what the user wants

    def open(self, opening: Opening) -> None:
        """Open a model and profile it; the session that was open is closed. While something long runs, nothing is opened."""
        with self._lock:
            if self.state.phase in BUSY:
                return
            self._local.opening, self._local.problem, self._local.given_up = opening.name, None, ""
            self._openings += 1
            self._opening = number = self._openings
        self._do(self._opener, lambda: self._open(opening, number))
        self._publish()

    def adopt(self, session: Session) -> None:
        """Show a session that is open already; its worker, if there is none yet, runs where this app has them run."""
        with self._lock:
            self._local.opening = session.request.source.name
        try:
            self._attach(session)
        except Exception:
            self._end_opening()
            raise
        self._do(self._work, self._warm_up)

    def cancel(self) -> None:
        """End the long step that was begun at once, within some seconds; what was there before, or was measured so far, is kept."""
        with self._lock:
            is_dropped = self._opening != 0
            if is_dropped:
                self._local.given_up = _not_opened(self._local.opening)
                self._end_opening()
        if is_dropped:
            self._publish()
        else:
            self._do(self._control, self._cancel)

    def tune(self, *, per_task: Any = None, trials: Any = None, seconds: Any = None) -> None:
        """Search what is ticked; tasks that have trials go on."""
        selection = self.state.selection
        self._begin(TUNE, lambda session: self._search(session, selection, per_task=per_task, trials=trials, seconds=seconds))

    def resume(self) -> None:
        """Go on after a pause, or with the search that was stopped."""
        if self.state.phase == STOPPED:
            request = self.state.request
            if request is not None:
                self._begin(TUNE, lambda session: self._search_again(session, request.budget))
            return
        self._steer("resume")

    def pause(self) -> None:
        """Measure nothing more until `resume`."""
        self._steer("pause")

    def stop(self) -> None:
        """End the search in order: the best are measured again, and the winners are named."""
        self._steer("stop")

    def apply(self) -> None:
        """Build the model with the winners, check it, and compare."""
        self._begin(APPLY, lambda session: session.apply())

    def dismiss(self) -> None:
        """Forget the problem that is shown."""
        with self._lock:
            self._local.problem = None
            if self._view is not None and self._view.command is not None:
                self._local.dismissed = self._view.command.command
        self._publish()

    def report(self, error: BaseException) -> None:
        """Show an error as the problem."""
        with self._lock:
            self._local.problem = Problem.of(error)
        self._publish()

    def do(self, work: Callable[[], None]) -> None:
        """Do something in a thread; what goes wrong becomes the problem."""
        self._do(self._control, work)

    def close(self) -> None:
        """Let go of the session: a search goes on for the time of its lease, and an idle worker ends."""
        session = self.release()
        if session is not None:
            session.close()
            for lane in self._lanes:
                lane.wait(_LAST_WORK_S)
            session.close()  # what was under way may have asked for a worker once more

    def release(self) -> Session | None:
        """Let go of the session without closing it, for another app of this process."""
        self._is_closed = True
        self._teller.close()
        session = self._let_go()
        for lane in self._lanes:
            lane.close()
        return session

    # opening and profiling

    def _open(self, opening: Opening, number: int) -> None:
        if self._opening != number:
            return  # cancelled while it waited
        earlier, kernel = self._session, self._kernel
        try:
            session = open_session(opening.model, **opening.options())
        except Exception:
            if self._opening != number:
                return
            self._end_opening()
            raise
        with self._lock:
            is_wanted = self._opening == number and not self._is_closed
            if is_wanted:
                self._opening, self._is_profile_next = 0, not opening.is_session
        if not is_wanted:
            session.close()
            return
        try:
            self._take(session, kernel=opening.kernel)
        except Exception:
            self._end_opening()
            session.close()
            self._go_back(earlier, kernel=kernel)
            raise
        if opening.is_session:
            self._warm_up()
        else:
            self._profile(refresh=opening.refresh, go_back=lambda: self._go_back(earlier, kernel=kernel))

    def _take(self, session: Session, *, kernel: str) -> None:
        """Show a session that was just opened; if it is the one that is shown, its warm worker stays and does what is asked for now."""
        shown = self._session
        if shown is None or shown.path != session.path or _worker_of(shown) != _worker_of(session) or kernel != self._kernel:
            self._attach(session, kernel=kernel)
            return
        shown.request = session.request
        session.close()
        if not self._is_profile_next:
            self._end_opening()

    def _end_opening(self) -> None:
        with self._lock:
            self._opening, self._is_profile_next, self._local.opening = 0, False, ""

    def _attach(self, session: Session, *, kernel: str = "") -> None:
        """Watch another session, and show those who serve it that somebody is there."""
        self._detach()
        if self._new_host is not None and session.worker_pid is None:
            session.use_host(self._new_host(kernel))
        watcher = Watcher(session.directory, on_view=self._see, on_trouble=self._take_trouble)
        session.attend()
        with self._lock:
            self._session, self._kernel, self._watcher, self._view = session, kernel, watcher, None
            self._local = LocalWork(opening=self._local.opening, given_up=self._local.given_up)
            self._steps = StepClock()
        watcher.start()

    def _detach(self) -> None:
        session = self._let_go()
        if session is not None:
            session.close()

    def _let_go(self) -> Session | None:
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.close()
        session, self._session = self._session, None
        return session

    def _profile(self, *, refresh: bool, go_back: Callable[[], None]) -> None:
        """Profile, unless the session holds what was asked for; from one that never got a profile the app goes back."""
        session = self._needed()
        self._set_begun(PROFILE)
        try:
            session.profile(refresh=refresh)
        except BaseException as error:
            if session.stored_profile() is None:
                if isinstance(error, Interrupted):
                    self._local.given_up = _not_opened(session.request.source.name)
                go_back()
            raise
        finally:
            self._set_begun("")
        self._warm_up()

    def _go_back(self, earlier: Session | None, *, kernel: str) -> None:
        """Let go of the session, and show the one before it again, if there was one with a profile."""
        if earlier is None or self._is_closed or not _has_profile(earlier):
            self._detach()
            with self._lock:
                self._view = None
            return
        with self._lock:
            self._local.opening = earlier.request.source.name
        self._attach(earlier, kernel=kernel)
        self._do(self._work, self._warm_up)

    def _warm_up(self) -> None:
        """Have a worker ready for the next command, unless one is at work; a session whose profile is missing needs none."""
        session = self._needed()
        can_run = session.request.source.kind != IMPORTED and session.stored_profile() is not None
        if can_run and not self._is_closed and session.running_search() is None:
            session.warm_up()

    # searching

    def _begin(self, kind: str, work: Callable[[Session], object]) -> None:
        """Do a long step that needs a profile."""
        with self._lock:
            if self.state.phase in BUSY or self.state.phase == EMPTY:
                return
            self._local.problem, self._local.given_up = None, ""
            self._set_begun(kind)

        def run() -> None:
            try:
                work(self._needed())
            finally:
                self._set_begun("")

        self._do(self._work, run)
        self._publish()

    def _search(self, session: Session, selection: Selection | None, **budget: Any) -> None:
        self._follow(session.tune(selection, resume=True, **{name: value for name, value in budget.items() if value is not None}))

    def _search_again(self, session: Session, budget: SearchBudget) -> None:
        """Go on with what was ticked, as far as the search that was stopped was to go."""
        search = session.tune(
            self.state.selection, resume=True, trials=budget.trials, seconds=budget.seconds, per_task=budget.per_task, flat_after=budget.flat_after
        )
        self._follow(search)

    def _follow(self, search: Search) -> None:
        """Watch a search of this front to its end: the death of its worker is noted in the store by whoever asks for its answer."""
        while search.is_running and not self._is_closed:
            time.sleep(_POLL_S)
        if not self._is_closed:
            search.wait()
            self._warm_up()

    def _steer(self, kind: str) -> None:
        """Tell the search that runs, whoever began it."""

        def tell() -> None:
            session = self._needed()
            while (search := session.running_search()) is None and self._local.begun == TUNE and not self._is_closed:
                time.sleep(_POLL_S)  # its worker is just starting
            if search is None:
                raise SessionError("No search is running.", "Press Tune or Resume.")
            getattr(search, kind)()

        self._do(self._control, tell)

    def _cancel(self) -> None:
        """End the newest long command, or that which is just being given; never the warm-up before it."""
        deadline = time.monotonic() + _CANCEL_S
        while not ((session := self._session) is not None and session.cancel_running(*STEPS)):
            if self._is_closed or not (self._local.begun or self._local.opening) or time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)

    # ticking

    def _change_selection(self, change: Callable[[SessionView, Selection | None], Selection]) -> None:
        """Change what is ticked: shown at once, then written, then told to a search that runs."""
        with self._lock:
            view = self._view
            if view is None or view.profile is None:
                return
            before = view.selection if self._local.ticks is None else self._local.ticks
            after: Selection | None
            try:
                after = change(view, before)
            except Exception as error:  # noqa: BLE001 - shown where the user looks
                self._local.problem = Problem.of(error)
                after = before
            if after is not None and after != before:
                self._local.ticks = after
                phase = self.state.phase
                self._do(self._writing, lambda: self._write_selection(before, after, searching=phase in SEARCHING))
        self._publish()

    def _write_selection(self, before: Selection | None, after: Selection, *, searching: bool) -> None:
        session = self._needed()
        try:
            with session.directory.store() as store:
                store.write_selection(after)
            with self._lock:
                if self._view is not None:
                    self._view = replace(self._view, selection=after)
        finally:
            with self._lock:
                if self._local.ticks is after:
                    self._local.ticks = None
        if searching and (search := session.running_search()) is not None:
            steer_towards(search, before, after)

    # what is seen

    def _see(self, view: SessionView) -> None:
        with self._lock:
            if self._watcher is None:
                return
            self._view = view
            if not (self._opening or self._is_profile_next):
                self._local.opening = ""
            command, now = view.command, self._clock()
            if command is not None and command.command != self._steps.command:
                self._steps.begin(command.command)
            self._steps.note(view.phases, now)
            if command is not None and command.command > self._local.begun_after and (view.is_served or command.state in FINAL_STATES):
                self._local.begun = ""
            if self.state.phase not in BUSY:
                self._steps.end(now)
        self._publish()

    def _take_trouble(self, trouble: Problem | None) -> None:
        with self._lock:
            self._local.trouble = trouble
            if trouble is not None and self._view is None and not (self._opening or self._is_profile_next):
                self._local.opening = ""  # it is open, and cannot be seen: that keeps nobody from another one
        self._publish()

    def _publish(self) -> None:
        """Have the present state told, unless it was told."""
        self._teller.tell()

    # plumbing

    def _do(self, lane: Lane, work: Callable[[], None]) -> None:
        lane.do(lambda: self._guarded(work))

    def _guarded(self, work: Callable[[], None]) -> None:
        """Do something in a thread; what goes wrong is the user's to know."""
        try:
            work()
        except Interrupted:
            pass  # the user wanted it
        except Exception as error:  # noqa: BLE001 - a thread has no caller: what it does not show itself, nobody sees
            with self._lock:
                self._local.problem = Problem.of(error)
        finally:
            if self._watcher is not None:
                self._watcher.wake()
            self._publish()

    def _set_begun(self, kind: str) -> None:
        with self._lock:
            if self._is_profile_next:
                self._end_opening()
            self._local.begun = kind
            known = None if self._view is None else self._view.command
            self._local.begun_after = 0 if known is None else known.command
        self._publish()

    def _needed(self) -> Session:
        session = self._session
        if session is None:
            raise SessionError("No model is open.", "Choose one and press Profile.")
        return session


def _not_opened(name: str) -> str:
    """What is said of a model whose opening was cancelled."""
    return f"Cancelled: {plain(name, 120)} was not opened."


def _has_profile(session: Session) -> bool:
    """True if a session can be shown; its directory may be gone."""
    try:
        return session.stored_profile() is not None
    except WorkbenchError:
        return False


def _worker_of(session: Session) -> tuple[int, bool]:
    """What a worker was started with and keeps."""
    return session.request.threads, session.request.source.trust
