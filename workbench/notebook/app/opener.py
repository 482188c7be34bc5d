"""Opens models and profiles them, one after the other; one that cannot be profiled gives its place back to the one before it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.api import Session
from workbench.api import open as open_session
from workbench.errors import Interrupted, WorkbenchError
from workbench.escaping import plain
from workbench.notebook.app.choices import Opening
from workbench.notebook.app.lanes import Work
from workbench.notebook.app.session_view import PROFILE
from workbench.notebook.app.stage import Stage
from workbench.notebook.app.state import Problem
from workbench.old_python import find_old_python, need_old_python
from workbench.records.request import IMPORTED, RELAY
from workbench.session import SessionDirectory


class Opener:
    """Puts the session of a model on the stage, with a profile and a worker that is ready.

    Args:
        stage: What the app shows.
        in_turn: Does something in a thread, one after the other: a cancelled opening takes its folder away, which may be the next one's too.
        aside: Does something in a thread, at once.
    """

    def __init__(self, stage: Stage, *, in_turn: Callable[[Work], None], aside: Callable[[Work], None]) -> None:
        self._stage = stage
        self._in_turn = in_turn
        self._aside = aside
        self._openings = 0
        self._pending = 0  # the one that has no session yet

    def open(self, opening: Opening) -> None:
        """Open a model and profile it; the session that was open is closed."""
        with self._stage.lock:
            self._stage.expect(opening.name)
            self._openings += 1
            self._pending = number = self._openings
        self._in_turn(lambda: self._open(opening, number))
        self._stage.publish()

    def adopt(self, session: Session) -> None:
        """Show a session that is open already; its worker, if there is none yet, runs where the app has them run."""
        with self._stage.lock:
            self._stage.local.opening = session.request.source.name
        try:
            self._stage.attach(session)
        except Exception:
            self._end_opening()
            raise
        self._aside(self.warm_up)

    def drop(self) -> bool:
        """Give up a model that has no session yet; True if there was one."""
        with self._stage.lock:
            is_dropped = self._pending != 0
            if is_dropped:
                self._stage.local.given_up = _not_opened(self._stage.local.opening)
                self._end_opening()
        if is_dropped:
            self._stage.publish()
        return is_dropped

    def consider_engine(self, engine: str, python: str) -> None:
        """Say before a model is opened what an engine lacks here; what was said of another choice is taken back."""
        self._in_turn(lambda: self._consider_engine(engine, python))

    def warm_up(self) -> None:
        """Have a worker ready for the next command, unless one is at work; a session whose profile is missing needs none."""
        session = self._stage.needed_session()
        can_run = session.request.source.kind != IMPORTED and session.stored_profile() is not None
        if can_run and not self._stage.is_closed and session.running_search() is None:
            session.warm_up()

    def _consider_engine(self, engine: str, python: str) -> None:
        lack = _lack_of(engine, python)
        with self._stage.lock:
            local = self._stage.local
            if lack is not None or local.problem == local.lack:
                local.problem = None  # said before, or the same as was lacking
            local.lack = lack
        self._stage.publish()

    def _open(self, opening: Opening, number: int) -> None:
        if self._pending != number:
            return  # cancelled while it waited
        stage = self._stage
        earlier, kernel = stage.session, stage.kernel
        try:
            session = open_session(opening.model, **_options(opening))
        except Exception:
            if self._pending != number:
                return
            self._end_opening()
            raise
        with stage.lock:
            is_wanted = self._pending == number and not stage.is_closed
            if is_wanted:
                self._pending = 0
                if opening.is_session:
                    stage.expect_no_more()
        if not is_wanted:
            session.close()
            return
        try:
            self._take(session, opening)
        except Exception:
            self._end_opening()
            session.close()
            self._go_back(earlier, kernel=kernel)
            raise
        if opening.is_session:
            self.warm_up()
        else:
            self._profile(refresh=opening.refresh, go_back=lambda: self._go_back(earlier, kernel=kernel))

    def _take(self, session: Session, opening: Opening) -> None:
        """Show a session that was just opened; if it is the one that is shown, its warm worker stays and does what is asked for now."""
        shown, kernel = self._stage.session, opening.kernel
        if shown is None or shown.path != session.path or _worker_of(shown) != _worker_of(session) or kernel != self._stage.kernel:
            self._stage.attach(session, kernel=kernel)
            return
        shown.request = session.request
        session.close()
        if opening.is_session:
            self._end_opening()

    def _profile(self, *, refresh: bool, go_back: Callable[[], None]) -> None:
        """Profile, unless the session holds what was asked for; from one that never got a profile the app goes back."""
        session = self._stage.needed_session()
        with self._stage.lock:
            self._end_opening()
            self._stage.set_begun(PROFILE)
        try:
            session.profile(refresh=refresh)
        except BaseException as error:
            if session.stored_profile() is None:
                if isinstance(error, Interrupted):
                    self._stage.local.given_up = _not_opened(session.request.source.name)
                go_back()
            raise
        finally:
            self._stage.set_begun("")
        self.warm_up()

    def _go_back(self, earlier: Session | None, *, kernel: str) -> None:
        """Let go of the session, and show the one before it again, if there was one with a profile."""
        if earlier is None or self._stage.is_closed or not _has_profile(earlier):
            self._stage.clear()
            return
        with self._stage.lock:
            self._stage.local.opening = earlier.request.source.name
        self._stage.attach(earlier, kernel=kernel)
        self._aside(self.warm_up)

    def _end_opening(self) -> None:
        with self._stage.lock:
            self._pending = 0
            self._stage.end_opening()


def _not_opened(name: str) -> str:
    """What is said of a model whose opening was cancelled."""
    return f"Cancelled: {plain(name, 120)} was not opened."


def _has_profile(session: Session) -> bool:
    """True if a session can be shown; its directory may be gone."""
    try:
        return session.stored_profile() is not None
    except WorkbenchError:
        return False


def _options(opening: Opening) -> dict[str, Any]:
    """The arguments of `workbench.open`; a session of today's engine has no use for the Python that is named on the page."""
    options = opening.options()
    if opening.is_session and opening.python:
        with SessionDirectory.open(Path(opening.model)).store() as store:
            request = store.request()
        if request is None or request.engine != RELAY:
            del options["python"]
    return options


def _lack_of(engine: str, python: str) -> Problem | None:
    """What an engine needs and does not find; starts nothing."""
    if engine != RELAY:
        return None
    try:
        need_old_python(find_old_python(python))
    except WorkbenchError as error:
        return Problem.of(error)
    return None


def _worker_of(session: Session) -> tuple[int, bool, str, str]:
    """What a worker was started with and keeps."""
    request = session.request
    return request.threads, request.source.trust, request.engine, session.python
