"""Trials of imported tuning logs and databases, and which of the program's tasks they belong to."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.escaping import file_stem
from workbench.importing.artifacts import AUTO_SCHEDULER_LOG, AUTOTVM_LOG, METASCHEDULE, Artifact
from workbench.importing.task_lists import listed_workloads
from workbench.importing.workload_fit import fitting_described, fitting_key, fitting_template
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.autotvm_log import parse_autotvm_log
from workbench.legacy.lines import BadLine
from workbench.legacy.measured import OldResult
from workbench.matching.structure import Structure
from workbench.records.trial import OK, RUN_ERROR, Trial
from workbench.records.tuning import FINISHED, TaskProgress
from workbench.tuning_database import TuningRecord, decisions, read_database

CONDITIONS = "imported"
"""Conditions of trials that somebody else measured, on another machine perhaps: no time of ours compares with theirs."""


@dataclass(frozen=True)
class LogTask:
    """All trials of one workload in the logs.

    Attributes:
        key: What the log calls it.
        target: For which target.
        trials: Its trials; their task is still the key.
        structure: Place of the program's function that it belongs to; None if none or several fit.
    """

    key: str
    target: str
    trials: tuple[Trial, ...]
    structure: int | None


def read_logs(artifacts: Sequence[Artifact], program: Sequence[Structure]) -> tuple[tuple[LogTask, ...], tuple[tuple[str, BadLine], ...]]:
    """The workloads of all logs, and what could not be read of which file."""
    bad: list[tuple[str, BadLine]] = []
    described = {task.workload_key: task for artifact in artifacts for task in listed_workloads(artifact)}
    entries: dict[tuple[str, str], list[tuple[OldResult, tuple[str, ...]]]] = {}
    arguments: dict[str, tuple[str, str]] = {}
    for artifact in artifacts:
        if artifact.kind == AUTO_SCHEDULER_LOG:
            log = parse_auto_scheduler_log(artifact.text)
            bad += [(artifact.path.name, line) for line in log.bad]
            for record in log.entries:
                entries.setdefault((record.workload_key, record.target), []).append((record.result, record.decisions))
        elif artifact.kind == AUTOTVM_LOG:
            tvm_log = parse_autotvm_log(artifact.text)
            bad += [(artifact.path.name, line) for line in tvm_log.bad]
            for entry in tvm_log.entries:
                key = f"{entry.task} {entry.arguments}"
                arguments[key] = (entry.task, entry.arguments)
                entries.setdefault((key, entry.target), []).append((entry.result, entry.decisions))
    tasks_found, damaged = _databases(artifacts)
    bad += damaged
    for (key, target), results in entries.items():
        described_task = described.get(json.dumps(json.loads(key))) if key.startswith("[") else None
        if key in arguments:
            fits = fitting_template(*arguments[key], program)
        else:
            fits = fitting_described(described_task, program) if described_task is not None else fitting_key(key, program)
        structure = fits[0] if len(fits) == 1 else None
        tasks_found.append(LogTask(key, target, _trials(key, results), structure))
    return tuple(tasks_found), tuple(bad)


def _databases(artifacts: Sequence[Artifact]) -> tuple[list[LogTask], list[tuple[str, BadLine]]]:
    """The workloads of MetaSchedule's databases of any version; they belong to no function of a Relay program."""
    found: list[LogTask] = []
    bad: list[tuple[str, BadLine]] = []
    for artifact in artifacts:
        if artifact.kind != METASCHEDULE:
            continue
        database = read_database(artifact.path)
        bad += [(f"{artifact.path.name}/{line.file}", BadLine(line.line, line.reason)) for line in database.bad_lines]
        groups: dict[tuple[str, str], list[TuningRecord]] = {}
        for record in database.records:
            groups.setdefault((record.workload.module, record.target_json), []).append(record)
        for place, records in enumerate(groups.values()):
            key = _workload_name(records[0], place)
            results = [(_database_result(record), decisions(record.trace)) for record in records]
            found.append(LogTask(key, records[0].target_json, _trials(key, results), None))
    return found, bad


def _workload_name(record: TuningRecord, place: int) -> str:
    """What a database's kernel computes, from its trace and arguments: the kernel itself is in the form of one version of TVM."""
    blocks = [attributes[0] for kind, _, attributes, _ in record.trace[0] if kind == "GetSBlock" and attributes and isinstance(attributes[0], str)]
    names = [name for name in dict.fromkeys(blocks) if name != "root"]
    shapes = [f"({', '.join(map(str, shape))})" for _, _, shape in record.args_info or ()]
    return f"workload {place}: {' '.join([*names[:4], *shapes])}"


def _database_result(record: TuningRecord) -> OldResult:
    """A record's times; a database tells of a failure nothing but a time of 1e10 s."""
    if record.time_us is None or record.run_secs is None:
        return OldResult(RUN_ERROR, "the measurement failed; a database keeps no reason", (), 0.0, 0.0)
    return OldResult(OK, "", record.run_secs, 0.0, 0.0)


def task_identifier(key: str, target: str) -> str:
    """Identifier of a workload that belongs to no function of the program."""
    digest = hashlib.sha256(f"{key}\0{target}".encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{file_stem(key, 32)}-{digest}"


def progress_of(task: str, name: str, *, weight: int, trials: Sequence[Trial]) -> TaskProgress:
    """How far the search of an imported log came."""
    errors: dict[str, int] = {}
    first_errors: dict[str, str] = {}
    for trial in trials:
        if trial.status != OK:
            errors[trial.status] = errors.get(trial.status, 0) + 1
            first_errors.setdefault(trial.status, trial.error)
    best = min((trial for trial in trials if trial.time_us is not None), key=lambda trial: trial.time_us or math.inf, default=None)
    return TaskProgress(
        task=task,
        name=name,
        weight=weight,
        state=FINISHED,
        stopped_because="imported from a log",
        trials=len(trials),
        errors=errors,
        first_errors=first_errors,
        best=None if best is None else best.number,
        best_us=None if best is None else best.time_us,
        conditions=CONDITIONS,
    )


def renamed(trials: Sequence[Trial], task: str) -> tuple[Trial, ...]:
    """The trials under the identifier of their task."""
    return tuple(replace(trial, task=task) for trial in trials)


def _trials(key: str, results: Sequence[tuple[OldResult, tuple[str, ...]]]) -> tuple[Trial, ...]:
    """Trials of one workload, numbered from 1: none of them is a baseline."""
    trials = []
    best_us: float | None = None
    for number, (result, chosen) in enumerate(results, start=1):
        times_us = tuple(1e6 * seconds for seconds in result.times_s)
        trial = Trial(
            task=key,
            number=number,
            status=result.status,
            error=result.error,
            fingerprint=hashlib.sha256("\0".join(chosen).encode("utf-8", "backslashreplace")).hexdigest()[:16],
            origin="search",
            conditions=CONDITIONS,
            times_us=times_us,
            runs=0,
            search_s=0.0,
            build_s=0.0,
            run_s=max(result.all_cost_s, 0.0),
            check=None,
            best_us=None,
            measured_at=result.measured_at,
            decisions=chosen,
        )
        if trial.time_us is not None:
            best_us = trial.time_us if best_us is None else min(best_us, trial.time_us)
        trials.append(replace(trial, best_us=best_us))
    return tuple(trials)
