"""Trials of imported tuning logs and databases, and which of the program's tasks they belong to."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from workbench.escaping import file_stem
from workbench.importing.artifacts import AUTO_SCHEDULER_LOG, AUTO_SCHEDULER_TASKS, AUTOTVM_LOG, METASCHEDULE, Artifact
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.auto_scheduler.task_list import AutoSchedulerTask, parse_auto_scheduler_tasks
from workbench.legacy.autotvm_log import parse_autotvm_log
from workbench.legacy.lines import BadLine
from workbench.legacy.measured import OldResult
from workbench.matching.layouts import likeness
from workbench.matching.names import MOVES, parse_function
from workbench.matching.shapes import Shape
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
    described: dict[str, AutoSchedulerTask] = {}
    entries: dict[tuple[str, str], list[tuple[OldResult, tuple[str, ...]]]] = {}
    arguments: dict[str, tuple[str, tuple[Shape, ...]]] = {}
    for artifact in artifacts:
        if artifact.kind == AUTO_SCHEDULER_TASKS:
            tasks = parse_auto_scheduler_tasks(artifact.text)
            described.update({task.workload_key: task for task in tasks.entries})
            bad += [(artifact.path.name, line) for line in tasks.bad]
        elif artifact.kind == AUTO_SCHEDULER_LOG:
            log = parse_auto_scheduler_log(artifact.text)
            bad += [(artifact.path.name, line) for line in log.bad]
            for record in log.entries:
                entries.setdefault((record.workload_key, record.target), []).append((record.result, record.decisions))
        elif artifact.kind == AUTOTVM_LOG:
            tvm_log = parse_autotvm_log(artifact.text)
            bad += [(artifact.path.name, line) for line in tvm_log.bad]
            for entry in tvm_log.entries:
                key = f"{entry.task} {entry.arguments}"
                arguments[key] = (entry.task, _tensors(entry.arguments))
                entries.setdefault((key, entry.target), []).append((entry.result, entry.decisions))
    tasks_found, damaged = _databases(artifacts)
    bad += damaged
    for (key, target), results in entries.items():
        described_task = described.get(json.dumps(json.loads(key))) if key.startswith("[") else None
        structure = _structure_of(key, described_task, arguments.get(key), program)
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


def _tensors(arguments: str) -> tuple[Shape, ...]:
    """Shapes of the tensors among a template's arguments."""
    values = json.loads(arguments)
    found = [value[1] for value in values if isinstance(value, list) and len(value) == 3 and value[0] == "TENSOR"]
    return tuple(tuple(size for size in shape if isinstance(size, int)) for shape in found if isinstance(shape, list))


def _structure_of(
    key: str, described: AutoSchedulerTask | None, template: tuple[str, tuple[Shape, ...]] | None, program: Sequence[Structure]
) -> int | None:
    """The one function of the program that a workload can be; None if there is none, or more than one."""
    if template is not None:
        operator = next(iter(parse_function(template[0].partition(".")[0]).operators), "")
        fits = [place for place, item in enumerate(program) if operator in item.operators and _reads(item, template[1])]
    elif described is not None and described.shapes:
        wanted = [name for name in parse_function(described.description).operators if name not in MOVES]
        fits = [place for place, item in enumerate(program) if _fits(item, described.shapes) and wanted == _without_moves(item)]
    else:
        shapes = _shapes_in(key)
        fits = [place for place, item in enumerate(program) if shapes and _fits(item, shapes)]
    return fits[0] if len(fits) == 1 else None


def _without_moves(item: Structure) -> list[str]:
    return [name for place, name in enumerate(item.operators) if name not in MOVES and place not in item.optional]


def _fits(item: Structure, shapes: Sequence[Shape]) -> bool:
    """True if a workload's tensors, inputs first and the output last, are the function's."""
    return likeness(shapes[-1], item.shape) >= 0.9 and _reads(item, shapes[:2])


def _reads(item: Structure, shapes: Sequence[Shape]) -> bool:
    """True if the function reads tensors of as many elements, data and weights."""
    sizes = [math.prod(shape) for shape in item.input_shapes if shape is not None]
    return bool(shapes) and all(math.prod(shape) in sizes for shape in shapes)


def _shapes_in(key: str) -> tuple[Shape, ...]:
    """The shapes in a workload key whose arguments are nothing else."""
    if not key.startswith("["):
        return ()
    _, *arguments = json.loads(key)
    if not all(isinstance(item, list) and all(isinstance(size, int) for size in item) for item in arguments):
        return ()
    return tuple(tuple(item) for item in arguments)
