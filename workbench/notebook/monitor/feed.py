"""Where a monitor gets its data: a protocol, and what reads a session's store. The store is the truth; nothing else is asked."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.records.command import RUNNING
from workbench.records.decode import DecodeError
from workbench.records.old_search import LatencyPoint
from workbench.records.profile import Profile
from workbench.records.selection import Selection
from workbench.records.trial import Trial
from workbench.records.trial_point import TrialPoint
from workbench.records.tuning import TaskProgress, TuneRequest
from workbench.session import SessionDirectory, stored_old_search
from workbench.store import Store

IDLE = "idle"
SEARCHING = "searching"
PAUSED = "paused"

MOST_AT_ONCE = 20_000
"""Trials that `Feed.since` hands out in one piece."""


@dataclass(frozen=True)
class Standing:
    """How a search stands at one moment.

    Attributes:
        state: ``idle`` (no search runs), ``searching`` or ``paused``.
        doing: What the worker is doing, in words; empty if no search runs.
        tasks: How far each task of the session is.
        selection: What is ticked; None if nothing is.
        request: What the last search was asked for; None before the first.
        started_at: When it began, in Unix time; None before the first.
        pauses: What is known of its pauses, oldest first: when each began and ended, in Unix time; the end of one that lasts is None.
    """

    state: str
    doing: str
    tasks: tuple[TaskProgress, ...]
    selection: Selection | None
    request: TuneRequest | None
    started_at: float | None
    pauses: tuple[tuple[float, float | None], ...] = ()

    def searched_s(self, now: float) -> float | None:
        """Seconds since the search began, its pauses left out, as its budget of time counts them; None before the first search."""
        if self.started_at is None:
            return None
        paused_s = sum(max((now if end is None else end) - start, 0.0) for start, end in self.pauses)
        return max(now - self.started_at - paused_s, 0.0)


class Feed(Protocol):
    """A session as a monitor sees it. Used by one thread at a time, not always the same one.

    Raises:
        WorkbenchError: From every method, if the session cannot be read now.
    """

    def profile(self) -> Profile:
        """The profile that the search is about."""
        ...

    def old_curve(self) -> tuple[LatencyPoint, ...]:
        """How the latency of the whole model fell in a search of old TVM that was imported; empty for any other session."""
        ...

    def since(self, cursor: int) -> list[TrialPoint]:
        """The next trials behind a cursor, at most `MOST_AT_ONCE`; 0 begins at the first."""
        ...

    def standing(self) -> Standing:
        """How the search stands."""
        ...

    def trial(self, task: str, number: int) -> Trial | None:
        """One trial in full."""
        ...


class StoreFeed:
    """The feed of a session directory, whoever searches in it: this notebook, another one, or a command line.

    Args:
        directory: The session.
    """

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory
        self._event = 0
        self._phase = ""
        self._command = 0
        self._pauses: list[tuple[float, float | None]] = []

    def profile(self) -> Profile:
        """The profile in the store."""
        with self._directory.store() as store:
            profile = store.profile()
        if profile is None:
            raise SessionError(f"The session in {plain(str(self._directory.path), 120)} has no profile yet.", "Profile the model first.")
        return profile

    def old_curve(self) -> tuple[LatencyPoint, ...]:
        """The curve in the store."""
        with self._directory.store() as store:
            return stored_old_search(store).curve

    def since(self, cursor: int) -> list[TrialPoint]:
        """The next trials in the store."""
        with self._directory.store() as store:
            return store.trials.points(cursor, limit=MOST_AT_ONCE)

    def standing(self) -> Standing:
        """What the store and the worker's lock say."""
        with self._directory.store() as store:
            command = _running_search(store) if self._directory.is_served() else None
            self._follow(store, command)
            request, started_at = _last_search(store.manifest().get("search"))
            state = IDLE if command is None else PAUSED if self._phase == PAUSED else SEARCHING
            doing = "" if command is None else plain(self._phase, 120)
            return Standing(state, doing, tuple(store.trials.progress()), store.selection(), request, started_at, tuple(self._pauses))

    def trial(self, task: str, number: int) -> Trial | None:
        """The trial in the store."""
        with self._directory.store() as store:
            return store.trials.trial(task, number)

    def _follow(self, store: Store, command: int | None) -> None:
        """Take note of the phases that the running search told: the last one, and when it paused."""
        if command is None:
            self._phase, self._event = "", store.last_event()
            return
        if command != self._command:
            self._command, self._pauses = command, []
        while events := store.events_since(self._event):
            self._event = events[-1].event
            for event in events:
                if event.kind == "progress" and event.data.get("command") == command:
                    self._phase = str(event.data.get("phase"))
                    self._note_pause(event.time_s)

    def _note_pause(self, at: float) -> None:
        """Note that the search pauses, or goes on, since a moment."""
        lasts = bool(self._pauses) and self._pauses[-1][1] is None
        if self._phase == PAUSED and not lasts:
            self._pauses.append((at, None))
        elif self._phase != PAUSED and lasts:
            self._pauses[-1] = (self._pauses[-1][0], at)


def _running_search(store: Store) -> int | None:
    """Number of the search that a worker is at; None if there is none."""
    commands = [store.command(number) for number in store.open_commands()]
    return next((command.command for command in commands if command.kind == "tune" and command.state == RUNNING), None)


def _last_search(entry: Any) -> tuple[TuneRequest | None, float | None]:
    """The request of the last search and its start, as far as the manifest tells."""
    if not isinstance(entry, Mapping):
        return None, None
    try:
        request = TuneRequest.from_dict(entry.get("request", {}))
        return request, dt.datetime.fromisoformat(str(entry.get("started_at"))).timestamp()
    except (DecodeError, ValueError):
        return None, None  # of another version of the workbench, or damaged: the trials say enough
