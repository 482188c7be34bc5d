"""What a user may ask of a search from its monitor, and how that reaches a search that any front has started."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from workbench.errors import InputError, SelectionError, SessionError
from workbench.escaping import plain
from workbench.kernel.pending import answer_of
from workbench.records.command import FINAL_STATES
from workbench.records.number import whole
from workbench.records.profile import Profile
from workbench.records.selection import SelectedTask, Selection
from workbench.selection import select
from workbench.session import SessionDirectory
from workbench.store import Store

PAUSE, RESUME, STOP = "pause", "resume", "stop"
ADD, DROP, BUDGET = "add", "drop", "budget"
_OF_THE_SEARCH = (PAUSE, RESUME, STOP)
_OF_A_TASK = (ADD, DROP, BUDGET)

_POLL_S = 0.05
_PATIENCE_S = 60.0
_MOST_TRIALS = 10**9


@dataclass(frozen=True)
class Request:
    """What the user asks for.

    Attributes:
        kind: ``pause``, ``resume``, ``stop``; or of one task ``add``, ``drop``, ``budget``.
        task: The task; empty for the whole search.
        trials: Budget of the task, for ``add`` and ``budget``; None sets none.
    """

    kind: str
    task: str = ""
    trials: int | None = None


class Steer(Protocol):
    """Does what the user asks for, and returns when that is done."""

    def __call__(self, request: Request, /) -> None:
        """Do it. Called by a thread of its own, so it may wait.

        Raises:
            WorkbenchError: It cannot be done; the monitor shows why.
        """
        ...


def read_request(content: Mapping[str, Any]) -> Request:
    """A request that came from the page.

    Raises:
        InputError: It is none.
    """
    kind, task, trials = content.get("request"), content.get("task", ""), content.get("trials")
    if kind not in (*_OF_THE_SEARCH, *_OF_A_TASK) or not isinstance(task, str) or (kind in _OF_A_TASK) != bool(task):
        raise InputError("The page asked for something that a search cannot do.", "Reload the page.")
    if trials is not None and not 1 <= (whole(trials) or 0) <= _MOST_TRIALS:
        raise InputError(f"{plain(str(trials), 40)} is no number of trials.", "Give a whole number of at least 1, or nothing for no limit.")
    return Request(kind, task, trials)


class StoreSteering:
    """Steers the search of a session through its store; where none runs, tasks and budgets go to the session's selection.

    Args:
        directory: The session.
    """

    def __init__(self, directory: SessionDirectory) -> None:
        self._directory = directory

    def __call__(self, request: Request, /) -> None:
        """Tell the worker, and wait for its answer."""
        with self._directory.store() as store:
            if self._searches(store):
                self._tell(store, request)
            elif request.kind in _OF_A_TASK:
                store.write_selection(_selected(store, request))
            else:
                raise SessionError("No search is running.", "Start one first.")

    def _searches(self, store: Store) -> bool:
        return self._directory.is_served() and any(store.command(number).kind == "tune" for number in store.open_commands())

    def _tell(self, store: Store, request: Request) -> None:
        arguments: dict[str, Any] = {"task": request.task} if request.task else {}
        if request.kind in (ADD, BUDGET):
            arguments["trials"] = request.trials
        number = store.add_command(request.kind, arguments)
        deadline = time.monotonic() + _PATIENCE_S
        while (command := store.command(number)).state not in FINAL_STATES:
            if not self._directory.is_served():
                raise SessionError("The worker has ended.", "Start the search again.")
            if time.monotonic() > deadline:
                store.cancel_command(number)
                raise SessionError(f"The worker did not answer for {_PATIENCE_S:.0f} s.", "It may be busy with one long build: try again.")
            time.sleep(_POLL_S)
        answer_of(command)


def _selected(store: Store, request: Request) -> Selection:
    """The session's selection with what a request changes."""
    profile, selection = store.profile(), store.selection()
    if profile is None:
        raise SessionError("The session has no profile yet.", "Profile the model first.")
    ticked = {} if selection is None else {item.task: item for item in selection.tasks}
    known = next((task for task in profile.tasks if task.task == request.task), None)
    if known is None:
        raise SelectionError(f"There is no task {plain(request.task)}.", "Reload the page.")
    if request.kind == DROP:
        ticked.pop(request.task, None)
        if not ticked:
            raise SelectionError("A selection holds at least one task.", "Tick another one first.")
    elif request.kind == ADD or request.task in ticked:
        budget = ticked.get(request.task, SelectedTask(known.task, known.name))
        ticked[request.task] = replace(budget, trials=request.trials)
    else:
        raise SelectionError(f"{plain(known.name)} is not ticked.", "Tick it first.")
    return _with_budgets(profile, ticked)


def _with_budgets(profile: Profile, ticked: Mapping[str, SelectedTask]) -> Selection:
    chosen = select(profile, tasks=list(ticked))
    return replace(chosen, tasks=tuple(ticked.get(item.task, item) for item in chosen.tasks))
