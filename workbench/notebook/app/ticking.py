"""What the user ticks, and the budgets of what is ticked; the app without a page is one that has it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import Any

from workbench.api import Search
from workbench.errors import SelectionError, SessionError
from workbench.notebook.app import ticks
from workbench.notebook.app.session_view import SessionView
from workbench.notebook.app.state import AppState
from workbench.records.profile import Profile
from workbench.records.selection import Selection
from workbench.records.tuning import ENDED
from workbench.selection import read_selection, write_selection


class Ticking(ABC):
    """The part of the app that ticks."""

    @property
    @abstractmethod
    def state(self) -> AppState:
        """The present state."""

    @abstractmethod
    def _change_selection(self, change: Callable[[SessionView, Selection | None], Selection]) -> None:
        """Change what is ticked; an error becomes the problem."""

    def tick(self, rows: Collection[int]) -> None:
        """Take the rows that are ticked now; while a search runs, it takes up or drops the tasks that changed."""
        chosen = frozenset(rows)
        self._change_selection(lambda view, before: ticks.tick_rows(_profile_of(view), before, chosen))

    def tick_task(self, task: str, *, trials: Any = None) -> None:
        """Tick one task, with a budget of its own if one is given."""

        def ticked(view: SessionView, before: Selection | None) -> Selection:
            tasks = {item.task for item in (() if before is None else before.tasks)} | {task}
            made = ticks.with_tasks(_profile_of(view), before, tasks)
            return made if trials is None else ticks.with_trials(made, task, trials)

        self._change_selection(ticked)

    def untick(self, task: str) -> None:
        """Untick one task."""
        self._change_selection(
            lambda view, before: ticks.with_tasks(
                _profile_of(view), before, {item.task for item in (() if before is None else before.tasks)} - {task}
            )
        )

    def set_task_budget(self, task: str, *, trials: Any = None, seconds: Any = None) -> None:
        """Set budgets of one ticked task; None leaves them to the search."""
        self._change_selection(lambda _, before: ticks.with_budget(before, task, trials=trials, seconds=seconds))

    def set_task_trials(self, task: str, trials: Any) -> None:
        """Set how many trials one ticked task gets, None for as many as the search gives it; its time stays what it was."""
        self._change_selection(lambda _, before: ticks.with_trials(before, task, trials))

    def import_selection(self, text: str) -> None:
        """Take the selection of a file."""
        self._change_selection(lambda view, _: read_selection(text, _profile_of(view)))

    def export_selection(self) -> str:
        """The selection as its file.

        Raises:
            SelectionError: Nothing is ticked.
        """
        selection = self.state.selection
        if selection is None or not selection.tasks:
            raise SelectionError("Nothing is ticked.", "Tick some kernels first.")
        return write_selection(selection)


def steer_towards(search: Search, before: Selection | None, after: Selection) -> None:
    """Have a running search take up what was ticked, drop what was unticked, and keep to other budgets."""
    had = {} if before is None else {item.task: item for item in before.tasks}
    has = {item.task: item for item in after.tasks}
    at_work = {task.task for task in search.progress() if task.state not in ENDED}
    for task in had.keys() - has.keys():
        if task in at_work:
            search.drop(task)
    for task, item in has.items():
        if task not in had:
            search.add(task, trials=item.trials, seconds=item.seconds)
        elif item != had[task]:
            search.set_task_budget(task, trials=item.trials, seconds=item.seconds)


def _profile_of(view: SessionView) -> Profile:
    if view.profile is None:
        raise SessionError("The session has no profile yet.", "Profile the model first.")
    return view.profile
