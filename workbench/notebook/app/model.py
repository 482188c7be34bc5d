"""The app without a page: takes what the user wants, does it in threads of its own, and tells each new state."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from workbench.api import Search, Session
from workbench.errors import SessionError
from workbench.kernel import Host
from workbench.notebook.app.choices import Opening
from workbench.notebook.app.lanes import Lane, Work
from workbench.notebook.app.opener import Opener
from workbench.notebook.app.session_view import APPLY, STEPS, TUNE, SessionView
from workbench.notebook.app.stage import OnState, Stage
from workbench.notebook.app.standing import failure_of
from workbench.notebook.app.state import BUSY, EMPTY, SEARCHING, STOPPED, AppState, Problem
from workbench.notebook.app.ticking import Ticking, steer_towards
from workbench.records.selection import Selection
from workbench.records.tuning import SearchBudget

_POLL_S = 0.1
_CANCEL_S = 30.0
"""How long Cancel waits for the command that it is to end to be given."""

_LAST_WORK_S = 2.0


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
        self._stage = Stage(on_state=on_state, new_host=new_host, clock=clock)
        self._opening = Lane("workbench-open")
        self._work = Lane("workbench-work", width=3)
        self._control = Lane("workbench-control", width=2)
        self._writing = Lane("workbench-writing")
        self._lanes = (self._opening, self._work, self._control, self._writing)
        self._opener = Opener(self._stage, in_turn=partial(self._do, self._opening), aside=partial(self._do, self._work))

    @property
    def state(self) -> AppState:
        """The present state."""
        return self._stage.state

    @property
    def session(self) -> Session | None:
        """The session that is open."""
        return self._stage.session

    # what the user wants

    def open(self, opening: Opening) -> None:
        """Open a model and profile it; the session that was open is closed. While something long runs, nothing is opened."""
        with self._stage.lock:
            if self.state.phase not in BUSY:
                self._opener.open(opening)

    def adopt(self, session: Session) -> None:
        """Show a session that is open already; its worker, if there is none yet, runs where this app has them run."""
        self._opener.adopt(session)

    def cancel(self) -> None:
        """End the long step that was begun at once, within some seconds; what was there before, or was measured so far, is kept."""
        if not self._opener.drop():
            self._do(self._control, self._cancel)

    def consider_engine(self, engine: str, python: str) -> None:
        """Say before a model is opened what an engine lacks here."""
        self._opener.consider_engine(engine, python)

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
        stage = self._stage
        with stage.lock:
            view = stage.view
            if view is not None and view.command is not None and failure_of(view, stage.local) is not None:
                stage.local.dismissed = view.command.command
            stage.show_problem(None)

    def report(self, error: BaseException) -> None:
        """Show an error as the problem."""
        self._stage.show_problem(Problem.of(error))

    def do(self, work: Work) -> None:
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
        session = self._stage.close()
        for lane in self._lanes:
            lane.close()
        return session

    # searching

    def _begin(self, kind: str, work: Callable[[Session], object]) -> None:
        """Do a long step that needs a profile."""
        with self._stage.lock:
            if self.state.phase in BUSY or self.state.phase == EMPTY:
                return
            self._stage.local.problem, self._stage.local.lack, self._stage.local.given_up = None, None, ""
            self._stage.set_begun(kind)

        def run() -> None:
            try:
                work(self._stage.needed_session())
            finally:
                self._stage.set_begun("")

        self._do(self._work, run)
        self._stage.publish()

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
        while search.is_running and not self._stage.is_closed:
            time.sleep(_POLL_S)
        if not self._stage.is_closed:
            search.wait()
            self._opener.warm_up()

    def _steer(self, kind: str) -> None:
        """Tell the search that runs, whoever began it."""

        def tell() -> None:
            session = self._stage.needed_session()
            while (search := session.running_search()) is None and self._stage.local.begun == TUNE and not self._stage.is_closed:
                time.sleep(_POLL_S)  # its worker is just starting
            if search is None:
                raise SessionError("No search is running.", "Press Tune or Resume.")
            getattr(search, kind)()

        self._do(self._control, tell)

    def _cancel(self) -> None:
        """End the newest long command, or that which is just being given; never the warm-up before it."""
        deadline = time.monotonic() + _CANCEL_S
        while not ((session := self._stage.session) is not None and session.cancel_running(*STEPS)):
            if self._stage.is_closed or not (self._stage.local.begun or self._stage.local.opening) or time.monotonic() > deadline:
                return
            time.sleep(_POLL_S)

    # ticking

    def _change_selection(self, change: Callable[[SessionView, Selection | None], Selection]) -> None:
        """Change what is ticked: shown at once, then written, then told to a search that runs."""
        with self._stage.lock:
            view = self._stage.view
            if view is None or view.profile is None:
                return
            before = view.selection if self._stage.local.ticks is None else self._stage.local.ticks
            after: Selection | None
            try:
                after = change(view, before)
            except Exception as error:  # noqa: BLE001 - shown where the user looks
                self._stage.local.problem = Problem.of(error)
                after = before
            if after is not None and after != before:
                self._stage.local.ticks = after
                phase = self.state.phase
                self._do(self._writing, lambda: self._write_selection(before, after, searching=phase in SEARCHING))
        self._stage.publish()

    def _write_selection(self, before: Selection | None, after: Selection, *, searching: bool) -> None:
        session = self._stage.needed_session()
        with self._stage.writing():
            try:
                with session.directory.store() as store:
                    store.write_selection(after)
                with self._stage.lock:
                    if self._stage.view is not None:
                        self._stage.view = replace(self._stage.view, selection=after)
            finally:
                with self._stage.lock:
                    if self._stage.local.ticks is after:
                        self._stage.local.ticks = None
        if searching and (search := session.running_search()) is not None:
            steer_towards(search, before, after)

    def _do(self, lane: Lane, work: Work) -> None:
        """Do something in a thread of the lane."""
        lane.do(lambda: self._stage.guarded(work))
