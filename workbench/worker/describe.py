"""What a task's recorded trial looks like, as jobs of the worker: a text, or a library in the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.engines.protocol import Engine
from workbench.errors import InputError, SelectionError, SessionError
from workbench.escaping import file_stem, plain
from workbench.records.profile import Profile, Task
from workbench.records.trial import BASELINE
from workbench.records.view import COMPUTE_DAG
from workbench.store import Store
from workbench.worker.context import JobContext

_ORIGIN_OF_BASELINES = "baseline"


@dataclass(frozen=True)
class _Schedule:
    """A task and the schedule of one of its trials: an empty trace is the baseline's."""

    task: Task
    trace: str
    fingerprint: str


def describe(engine: Engine, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer ``text``: the ``view`` of trial number ``trial`` of ``task``, which may be named by its kernel.

    Raises:
        InputError: There is no such task, trial or view, or the trial's trace does not fit.
    """
    view = str(arguments["view"])
    if view == COMPUTE_DAG:
        task = _task(context.store.profile(), arguments["task"])
        flop = "" if task.flop is None else f"\nFLOP = {task.flop:,}"
        return {"text": f"{engine.view(task.name, '', view)}{flop}"}
    found = _schedule(context.store, arguments)
    context.on_progress(f"show: {found.task.name}", 0.0)
    return {"text": engine.view(found.task.name, found.trace, view, expected=found.fingerprint)}


def write_library(engine: Engine, context: JobContext, arguments: dict[str, Any], *, trust: bool) -> dict[str, Any]:
    """Build trial number ``trial`` of ``task`` into the folder of artifacts; answers ``file``, its name there.

    Raises:
        InputError: As for `describe`, or the schedule brings code of its own and is not trusted.
    """
    found = _schedule(context.store, arguments)
    context.on_progress(f"build: {found.task.name}", 0.0)
    with context.directory.scratch(context.command) as scratch:
        library = scratch / f"{file_stem(found.task.name, 40)}-{found.fingerprint or 'untuned'}.so"
        engine.write_library(found.task.name, found.trace, library, expected=found.fingerprint, trust=trust)
        library.replace(context.directory.artifacts / library.name)
    return {"file": library.name}


def _schedule(store: Store, arguments: dict[str, Any]) -> _Schedule:
    """What a command names; trial 0 is the untuned kernel even before it was measured."""
    task, number = _task(store.profile(), arguments["task"]), int(arguments["trial"])
    trial, trace = store.trials.trial(task.task, number), store.trials.trace(task.task, number) or ""
    if trial is None and number == BASELINE:
        return _Schedule(task, "", "")
    if trial is None:
        raise SelectionError(f"Task {plain(task.task, 120)} has no trial {plain(str(number))}.", "Look at the numbers in the session's trials.")
    if not trace and trial.origin != _ORIGIN_OF_BASELINES:
        raise InputError(f"Trial {number} of {plain(task.task, 120)} has no recorded schedule.", "Search the task again.")
    if not trial.fingerprint.isalnum():  # it becomes part of a file's name
        raise SessionError(f"Trial {number} of {plain(task.task, 120)} is damaged: its fingerprint is none.", "Search the task again.")
    return _Schedule(task, trace, trial.fingerprint)


def _task(profile: Profile | None, name: object) -> Task:
    tasks = () if profile is None else profile.tasks
    found = next((task for task in tasks if task.task == name), None) or next((task for task in tasks if name in task.kernels), None)
    if found is None:
        raise SelectionError(f"There is no task or kernel {plain(str(name), 120)}.", "See: workbench tasks.")
    return found
