"""Answers fronts that want to see a trial: one at a time, in a process of its own, while the worker does something else."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from workbench.analysis.roofline import roofline, roofline_text
from workbench.engines.protocol import Engine
from workbench.engines.view_protocol import Viewer, ViewQuestion
from workbench.errors import InputError, WorkbenchError
from workbench.escaping import plain
from workbench.records.command import Command, Failure
from workbench.records.profile import Task
from workbench.records.view import COMPUTE_DAG, RESOURCES, TIR_BEFORE, VIEWS, ViewText
from workbench.session import stored_peaks
from workbench.store import Store
from workbench.worker.context import JobContext
from workbench.worker.recorded import recorded_schedule, task_named

INSPECT = "inspect"
"""Kind of the command that asks for views."""

_POLL_S = 0.01
_OF_NO_TRIAL = (COMPUTE_DAG, TIR_BEFORE)


class ViewDesk:
    """Views of recorded trials; belongs to the thread of the worker that has the store.

    Args:
        engine: Holds the session's program.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._viewer: Viewer | None = None
        self._command: int | None = None
        self._task: Task | None = None
        self._time_us: float | None = None

    def answer(self, context: JobContext, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """Answer a command and wait for it: ``views`` of trial number ``trial`` of ``task``, which may be named by its kernel.

        Raises:
            InputError: There is no such task, trial or view.
            Interrupted: The command was cancelled.
        """
        viewer = self._begin(context.store, arguments)
        try:
            while (texts := viewer.poll()) is None:
                context.on_progress("show", 0.0)
                time.sleep(_POLL_S)
        except BaseException:
            viewer.stop()
            raise
        return self._answer(context.store, texts)

    def look(self, store: Store, *, may_begin: bool) -> bool:
        """Take a waiting command if there is one and none is at hand, and answer the one at hand if its views are made; does not wait.

        Args:
            store: Where commands come from.
            may_begin: False takes none.

        Returns:
            True while a command is at hand.
        """
        if self._command is None and may_begin and (command := store.take_command((INSPECT,))) is not None:
            self._take(store, command)
        if self._command is None:
            return False
        viewer = self._of_engine()
        if store.command(self._command).cancelled:
            viewer.stop()
            self._finish(store, cancelled=True)
            return False
        try:
            texts = viewer.poll()
        except WorkbenchError as error:
            self._fail(store, error)
            return False
        if texts is not None:
            self._finish(store, result=self._answer(store, texts))
        return self._command is not None

    def abandon(self, store: Store) -> None:
        """Leave the command at hand to be given again: who looked after it has something else to do now."""
        if self._command is not None:
            self._of_engine().stop()
            store.abandon_command(self._command)
            self._command = None

    def close(self) -> None:
        """End the process that makes views."""
        if self._viewer is not None:
            self._viewer.close()
            self._viewer = None

    def _take(self, store: Store, command: Command) -> None:
        self._command = command.command
        try:
            self._begin(store, command.arguments)
        except (WorkbenchError, KeyError, TypeError, ValueError) as error:
            self._fail(store, error)

    def _begin(self, store: Store, arguments: Mapping[str, Any]) -> Viewer:
        views = _views(arguments.get("views"))
        if set(views) <= set(_OF_NO_TRIAL):
            self._task, self._time_us = task_named(store.profile(), arguments["task"]), None
            question = ViewQuestion(self._task.name, "", views)
        else:
            found = recorded_schedule(store, arguments)
            self._task, self._time_us = found.task, found.time_us
            question = ViewQuestion(found.task.name, found.trace, views, found.fingerprint)
        viewer = self._of_engine()
        viewer.begin(question)
        return viewer

    def _of_engine(self) -> Viewer:
        if self._viewer is None:
            self._viewer = self._engine.viewer()
        return self._viewer

    def _answer(self, store: Store, texts: Sequence[ViewText]) -> dict[str, Any]:
        return {"views": [self._completed(store, text).to_dict() for text in texts]}

    def _completed(self, store: Store, text: ViewText) -> ViewText:
        """A view with what only the session knows of the kernel."""
        task = self._task
        if task is None or text.unavailable:
            return text
        if text.view == COMPUTE_DAG and task.flop is not None:
            return replace(text, text=f"{text.text}\nFLOP = {task.flop:,}")
        if text.view == RESOURCES:
            peaks = stored_peaks(store)
            found = roofline(peaks, flop=task.flop, moved_bytes=task.tensor_bytes, time_us=self._time_us)
            data = {**text.data, "roofline": None if found is None else found.to_dict(), "peaks": None if peaks is None else peaks.to_dict()}
            return replace(text, text=f"{text.text}\n{roofline_text(found, peaks)}", data=data)
        return text

    def _fail(self, store: Store, error: Exception) -> None:
        known = error if isinstance(error, WorkbenchError) else InputError(f"The command cannot be read: {plain(str(error), 200)}.")
        self._finish(store, failure=Failure(type(known).__name__, known.message, known.remedy))

    def _finish(self, store: Store, *, result: Mapping[str, Any] | None = None, failure: Failure | None = None, cancelled: bool = False) -> None:
        command, self._command = self._command, None
        if command is not None:
            store.finish_command(command, result=result, failure=failure, cancelled=cancelled)


@dataclass(frozen=True)
class DeskBesideSearch:
    """Implements `workbench.search.attention.SideWork`: views for fronts, from the search's own store."""

    desk: ViewDesk
    store: Store

    def look(self, *, may_begin: bool) -> bool:
        """Take and answer what fronts want to see; True while something is being made."""
        return self.desk.look(self.store, may_begin=may_begin)

    def abandon(self) -> None:
        """Leave what is being made to be asked for again."""
        self.desk.abandon(self.store)


def _views(names: object) -> tuple[str, ...]:
    """The views of a command.

    Raises:
        InputError: There are none, or one that does not exist.
    """
    if not isinstance(names, list) or not names:
        raise InputError("The command names no views.", f"Views: {', '.join(VIEWS)}.")
    for name in names:
        if name not in VIEWS:
            raise InputError(f"There is no view {plain(str(name))}.", f"Views: {', '.join(VIEWS)}.")
    return tuple(names)
