"""A task's recorded trial as a command of a front names it, and the job that builds one into a library of the session."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.engines.protocol import Engine
from workbench.errors import InputError, SelectionError, SessionError
from workbench.escaping import file_stem, plain
from workbench.records.profile import Profile, Task
from workbench.records.trial import BASELINE
from workbench.store import Store
from workbench.worker.context import JobContext

_ORIGIN_OF_BASELINES = "baseline"


@dataclass(frozen=True)
class RecordedSchedule:
    """A task and the schedule of one of its trials.

    Attributes:
        task: The task.
        trace: The schedule; empty for a baseline.
        fingerprint: What the trial says comes out of it; empty if nothing does.
        time_us: Time of the trial; for a baseline that was not measured as a trial, what the profile says of one call. None if unknown.
    """

    task: Task
    trace: str
    fingerprint: str
    time_us: float | None


def write_library(engine: Engine, context: JobContext, arguments: dict[str, Any], *, trust: bool) -> dict[str, Any]:
    """Build trial number ``trial`` of ``task`` into the folder of artifacts; answers ``file``, its name there.

    Raises:
        InputError: There is no such task or trial, its trace does not fit, or its schedule brings code of its own and is not trusted.
    """
    found = recorded_schedule(context.store, arguments)
    context.on_progress(f"build: {found.task.name}", 0.0)
    with context.directory.scratch(context.command) as scratch:
        library = scratch / f"{file_stem(found.task.name, 40)}-{found.fingerprint or 'untuned'}.so"
        engine.write_library(found.task.name, found.trace, library, expected=found.fingerprint, trust=trust)
        library.replace(context.directory.artifacts / library.name)
    return {"file": library.name}


def recorded_schedule(store: Store, arguments: Mapping[str, Any]) -> RecordedSchedule:
    """What a command names; trial 0 is the untuned kernel even before it was measured.

    Raises:
        InputError: There is no such task or trial, or the trial has no schedule.
    """
    task, number = task_named(store.profile(), arguments["task"]), int(arguments["trial"])
    trial, trace = store.trials.trial(task.task, number), store.trials.trace(task.task, number) or ""
    if trial is None and number == BASELINE:
        return RecordedSchedule(task, "", "", task.time_us / task.weight if task.time_us is not None and task.weight else None)
    if trial is None:
        raise SelectionError(f"Task {plain(task.task, 120)} has no trial {plain(str(number))}.", "Look at the numbers in the session's trials.")
    if not trace and trial.origin != _ORIGIN_OF_BASELINES:
        raise InputError(f"Trial {number} of {plain(task.task, 120)} has no recorded schedule.", "Search the task again.")
    if not trial.fingerprint.isalnum():  # it becomes part of a file's name
        raise SessionError(f"Trial {number} of {plain(task.task, 120)} is damaged: its fingerprint is none.", "Search the task again.")
    return RecordedSchedule(task, trace, trial.fingerprint, trial.time_us)


def task_named(profile: Profile | None, name: object) -> Task:
    """A task by its name or that of one of its kernels; raises SelectionError."""
    tasks = () if profile is None else profile.tasks
    found = next((task for task in tasks if task.task == name), None) or next((task for task in tasks if name in task.kernels), None)
    if found is None:
        raise SelectionError(f"There is no task or kernel {plain(str(name), 120)}.", "See: workbench tasks.")
    return found
