"""Measuring a recorded trial again, as a job of the worker."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from workbench.analysis.confidence import compare, spread
from workbench.engines.apply_protocol import Application, RecordedSchedule
from workbench.engines.protocol import Engine
from workbench.engines.search_protocol import Failed
from workbench.errors import InputError, SelectionError, SessionError
from workbench.escaping import plain
from workbench.records.profile import Task
from workbench.records.rerun import Rerun
from workbench.records.trial import BASELINE, OK, RUN_ERROR, MeasureOptions, Trial
from workbench.search.error_text import shortened
from workbench.search.limits import check_measure
from workbench.worker.application import opened_application, profiled_session
from workbench.worker.context import JobContext
from workbench.worker.tuning import conditions_of

ROUNDS = 11
_ORIGIN_OF_BASELINES = "baseline"


def rerun(engine: Engine, context: JobContext, arguments: dict[str, Any], *, trust: bool) -> dict[str, Any]:
    """Lower trial number ``trial`` of ``task`` again, check it, and measure it by turns with the untuned kernel.

    Returns:
        As `workbench.records.rerun.Rerun.to_dict`.

    Raises:
        InputError: There is no such task or trial, or it has no recorded schedule.
        EnvironmentFault: Nothing can be measured here.
    """
    profile, profiled = profiled_session(context)
    task = _task(profile.tasks, arguments["task"])
    trial, trace = _recorded(context, task, int(arguments["trial"]))
    options = trial.options if trial is not None else MeasureOptions()
    if arguments.get("device") is not None:
        options = replace(options, device=int(arguments["device"]))
    check_measure(options)
    known = Rerun(task=task.task, kernel=task.name, trial=int(arguments["trial"]), status=OK)
    if trial is not None:
        recorded = spread(trial.times_us) if trial.time_us is not None else None
        known = replace(
            known,
            recorded_status=trial.status,
            recorded_us=None if recorded is None else recorded.median,
            recorded_us_iqr=None if recorded is None else recorded.iqr,
            same_conditions=trial.conditions == conditions_of(engine, context.target(), options, threads=profiled.threads).digest,
        )
    schedule = RecordedSchedule(trace, trial.fingerprint) if trial is not None and trace else None
    with opened_application(engine, context, profile, options, trust=trust) as (application, _):
        found = _measured(application, task.name, schedule, known)
    return _beside_the_record(found, trial).to_dict()


def _measured(application: Application, kernel: str, schedule: RecordedSchedule | None, known: Rerun) -> Rerun:
    """The rerun with what was measured, or with what went wrong."""
    if schedule is not None:
        check = application.check(kernel, schedule)
        if isinstance(check, Failed):
            return replace(known, status=check.status, error=shortened(check.error))
        known = replace(known, check=check)
    times = application.time_alone(kernel, schedule, rounds=ROUNDS)
    if isinstance(times, Failed):
        return replace(known, status=times.status, error=shortened(times.error))
    if not all(row and min(row) > 0.0 for row in times):
        return replace(known, status=RUN_ERROR, error="The measured times make no sense.")
    before, now = spread(times[0]), spread(times[-1])
    gain = "" if schedule is None else compare(times[0], times[-1]).text
    return replace(known, measured_us=now.median, measured_us_iqr=now.iqr, baseline_us=before.median, baseline_us_iqr=before.iqr, gain=gain)


def _beside_the_record(found: Rerun, trial: Trial | None) -> Rerun:
    """The rerun with its distance from the record."""
    if found.measured_us is None or found.recorded_us is None or trial is None:
        return found
    percent = 100.0 * (found.measured_us / found.recorded_us - 1.0)
    spreads = (found.measured_us_iqr or 0.0) + (found.recorded_us_iqr or 0.0)
    noise = ", within the spread of both" if abs(found.measured_us - found.recorded_us) <= spreads else ""
    elsewhere = "" if found.same_conditions else "; the record is of another machine, device, target, version or number of threads"
    text = f"{percent:+.1f} %: {found.recorded_us:,.1f} us in the record, {found.measured_us:,.1f} us now{noise}{elsewhere}"
    return replace(found, distance_percent=percent, distance=text)


def _task(tasks: tuple[Task, ...], name: object) -> Task:
    found = next((task for task in tasks if task.task == name), None) or next((task for task in tasks if name in task.kernels), None)
    if found is None:
        raise SelectionError(f"There is no task or kernel {plain(str(name), 120)}.", "See: workbench tasks.")
    return found


def _recorded(context: JobContext, task: Task, number: int) -> tuple[Trial | None, str]:
    """A trial and its trace; the untuned kernel needs no record."""
    trial, trace = context.store.trials.trial(task.task, number), context.store.trials.trace(task.task, number) or ""
    if trial is None and number != BASELINE:
        raise SelectionError(f"Task {plain(task.task, 120)} has no trial {plain(str(number))}.", "Look at the numbers in the session's trials.")
    if trial is not None and not trace and trial.origin != _ORIGIN_OF_BASELINES:
        raise InputError(f"Trial {number} of {plain(task.task, 120)} has no recorded schedule.", "Search the task again.")
    if trial is not None and not trial.fingerprint.isalnum():
        raise SessionError(f"Trial {number} of {plain(task.task, 120)} is damaged: its fingerprint is none.", "Search the task again.")
    return trial, trace
