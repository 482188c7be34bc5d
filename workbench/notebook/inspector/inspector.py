"""A task's trials as texts, side by side and measured again; where they come from is the source's business."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import traitlets

from workbench.api.profile import SessionProfile
from workbench.errors import InputError, SelectionError, WorkbenchError
from workbench.escaping import plain
from workbench.notebook.background import Requests
from workbench.notebook.inspector.source import InspectorSource
from workbench.notebook.part import Part, bundled
from workbench.notebook.table.snapshot import finite
from workbench.records.profile import Profile, Task
from workbench.records.trial import BASELINE, FAILURES, Trial
from workbench.records.tuning import TaskProgress

_LONGEST_NAME = 200
_LONGEST_LINE = 400
_MOST_LINES = 200
_LOG = logging.getLogger(__name__)


class Inspector(Part):
    """The texts behind a task: schedule, decisions, TIR, source, assembly and resources of any trial, differences, effects, re-run.

    Args:
        source: Makes the texts.
        profile: Whose tasks can be looked at.
        progress: How far the search of each task is: which trial is the best, and how many there are.

    Attributes:
        task: The task that is shown; None for none yet.
        trial: Number of the trial; None takes the best, or the untuned kernel while there is no better one.
        view: What is shown of it: a name of `workbench.records.view`, ``diff`` or ``rerun``.
        theme: ``auto``, ``light`` or ``dark``.
        height: Height of the texts in pixels.
    """

    _esm = bundled("inspector.js")
    _css = bundled("inspector.css")

    task: Any = traitlets.Unicode(allow_none=True, default_value=None).tag(sync=True)
    trial: Any = traitlets.Int(allow_none=True, default_value=None).tag(sync=True)
    view: Any = traitlets.Unicode("schedule").tag(sync=True)
    height: Any = traitlets.Int(420, min=160).tag(sync=True)

    def __init__(self, source: InspectorSource, profile: Profile | SessionProfile, progress: Iterable[TaskProgress] = (), **traits: Any) -> None:
        record = profile.record if isinstance(profile, SessionProfile) else profile
        self._source = source
        self._tasks = {task.task: task for task in record.tasks}
        self._progress = {item.task: item for item in progress if item.task in self._tasks}
        self._requests = Requests(self._post_failure)
        super().__init__(**traits)

    def show(self, task: str, trial: int | None = None, view: str | None = None) -> None:
        """Show a trial of a task.

        Args:
            task: The task.
            trial: Number of the trial; None takes the best.
            view: What to show of it; None stays with what is shown.

        Raises:
            SelectionError: The profile has no such task.
        """
        self._known(task)
        with self.hold_sync():
            self.task, self.trial = task, trial
            if view is not None:
                self.view = view

    def update_progress(self, progress: Iterable[TaskProgress]) -> None:
        """Tell how far the search of the given tasks is; only what has changed is sent."""
        changed = []
        for item in progress:
            if item.task not in self._tasks:
                continue
            before = self._entry(item.task)
            self._progress[item.task] = item
            if self._entry(item.task) != before:
                changed.append(self._entry(item.task))
        if changed:
            self.post("tasks", tasks=changed)

    def receive(self, kind: str, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Answer a view: ``ready`` with the tasks, questions with texts, in the background."""
        del buffers
        if kind == "ready":
            self.post("tasks", tasks=[self._entry(task) for task in self._tasks])
        elif kind in _QUESTIONS:
            number = _whole(content, "id")
            try:
                self._ask(kind, number, content)
            except WorkbenchError as error:
                self._post_failure(number, error)
        elif kind == "give_up":
            self._requests.give_up(str(content.get("question")))

    def close(self) -> None:
        """Remove the widget; what is still being made for it is given up."""
        self._requests.close()
        super().close()

    @traitlets.validate("task")
    def _check_task(self, proposal: Any) -> str | None:
        task = proposal["value"]
        return task if task in self._tasks else None

    def _ask(self, kind: str, number: int, content: Mapping[str, Any]) -> None:
        task, source = self._known(content.get("task")), self._source
        if kind == "views":
            self._requests.ask(
                kind, number, lambda: source.views(task), lambda found: self._post_answer(number, views=[one.to_dict() for one in found])
            )
            return
        if kind == "diff":
            left, right, compared = _whole(content, "left"), _whole(content, "right"), _name(content, "view")
            self._requests.ask(
                kind,
                number,
                lambda: source.diff(task, left, right, compared),
                lambda found: self._post_answer(number, diff=_without_hunks(found.to_dict())),
            )
            return
        trial = _whole(content, "trial")
        if kind == "text":
            view = _name(content, "view")
            self._requests.ask(kind, number, lambda: source.text(task, trial, view), lambda found: self._post_answer(number, **found.to_dict()))
        elif kind == "trial":
            self._requests.ask(kind, number, lambda: source.trial(task, trial), lambda found: self._post_answer(number, **_standing(found)))
        else:
            self._requests.ask(kind, number, lambda: source.rerun(task, trial), lambda found: self._post_answer(number, rerun=found.to_dict()))

    def _known(self, task: object) -> str:
        if not isinstance(task, str) or task not in self._tasks:
            raise SelectionError(f"There is no task {plain(str(task), 120)} in this profile.", "Choose one of the list.")
        return task

    def _entry(self, name: str) -> dict[str, Any]:
        """One task as the view lists it."""
        task: Task = self._tasks[name]
        progress = self._progress.get(name)
        before_us, now_us = (None, None) if progress is None else progress.before_and_now_us
        return {
            "task": name,
            "name": plain(task.name, _LONGEST_NAME),
            "weight": task.weight,
            "time_percent": finite(task.time_percent),
            "untunable": plain(task.untunable, _LONGEST_NAME),
            "best": None if progress is None else best_trial(progress),
            "trials": 0 if progress is None else progress.trials,
            "baseline_us": finite(before_us),
            "best_us": finite(now_us),
        }

    def _post_answer(self, number: int, **content: Any) -> None:
        self.post("answer", id=number, **content)

    def _post_failure(self, number: int, error: Exception) -> None:
        if isinstance(error, WorkbenchError):
            self.post("failed", id=number, message=_shown(error.message), remedy=_shown(error.remedy))
            return
        _LOG.error("%s could not answer", type(self._source).__name__, exc_info=error)
        self.post("failed", id=number, message=f"A fault of the workbench: {type(error).__name__}: {_shown(str(error))}", remedy="")


_QUESTIONS = ("views", "text", "trial", "diff", "rerun")


def best_trial(progress: TaskProgress) -> int | None:
    """Number of the trial that a task's search found to be the best; 0 if the untuned kernel stays; None while there is none."""
    return progress.best if progress.final is None else progress.final.winner


def _standing(trial: Trial | None) -> dict[str, str]:
    """What became of a trial, with the full text if it failed; no status while it has no record."""
    if trial is None:
        return {"status": "", "error": ""}
    return {"status": plain(trial.status, _LONGEST_NAME), "error": _shown(trial.error) if trial.status in FAILURES else ""}


def _whole(content: Mapping[str, Any], name: str) -> int:
    value = content.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < BASELINE:
        raise InputError(f"{name} must be a whole number from 0, not {plain(str(value))}.", "Choose a trial of the list, or write its number.")
    return value


def _name(content: Mapping[str, Any], name: str) -> str:
    value = content.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name} must be a name, not {plain(str(value))}.", "Choose one of the list.")
    return value


def _without_hunks(values: dict[str, Any]) -> dict[str, Any]:
    """The page finds the differences of the whole texts itself."""
    return {name: value for name, value in values.items() if name != "hunks"}


def _shown(text: str) -> str:
    """A text of several lines, e.g. a traceback, as it may be shown."""
    return "\n".join(plain(line, _LONGEST_LINE) for line in text.splitlines()[:_MOST_LINES])
