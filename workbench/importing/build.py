"""Puts imported artifacts together: rows, tasks, how surely each row is matched, trials, and what could not be read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.importing.artifacts import AUTOTVM_TASKS, LATENCY_CURVE, RELAY, Artifact
from workbench.importing.graph import imported_graph
from workbench.importing.logs import LogTask, progress_of, read_logs, renamed, task_identifier
from workbench.importing.program import ImportedProgram, read_program
from workbench.importing.rows import ImportedCalls, TimedCall, in_program_order, node_rows, read_calls
from workbench.legacy.auto_scheduler.latency_curve import LatencyPoint, parse_total_latency
from workbench.legacy.autotvm_log import AutoTvmTask, parse_autotvm_tasks
from workbench.legacy.lines import BadLine
from workbench.matching.names import parse_function
from workbench.matching.rows import Match, match_rows
from workbench.matching.structure import Structure
from workbench.records.graph import ModelGraph
from workbench.records.match import RowMatch
from workbench.records.profile import Profile, Row, Task
from workbench.records.request import IMPORTED
from workbench.records.trial import Trial
from workbench.records.tuning import TaskProgress

UNTUNABLE = "imported: profile the model itself to tune it"


@dataclass(frozen=True)
class Imported:
    """What a set of artifacts says.

    Attributes:
        profile: Rows and tasks.
        graph: The program's operators and the calls; None if nothing says what reads what.
        matches: How surely each row is matched, by its number.
        progress: One entry for each task with trials.
        trials: All trials.
        curve: The latency of the whole model over an old search.
        autotvm_tasks: Tasks that AutoTVM printed.
        bad: Lines that were set aside, with the name of their file.
    """

    profile: Profile
    graph: ModelGraph | None
    matches: Mapping[int, RowMatch]
    progress: tuple[TaskProgress, ...]
    trials: tuple[Trial, ...]
    curve: tuple[LatencyPoint, ...]
    autotvm_tasks: tuple[AutoTvmTask, ...]
    bad: tuple[tuple[str, BadLine], ...]


def build_import(name: str, artifacts: Sequence[Artifact]) -> Imported:
    """Tie artifacts together.

    Args:
        name: What the session calls the model.
        artifacts: All that belongs to one model.

    Raises:
        ModelError: A program, graph or trace is damaged as a whole; single damaged lines are set aside.
    """
    program = _program(artifacts)
    functions = program.functions if program is not None else ()
    found = read_calls(artifacts)
    calls = found.calls or (_calls_of(program) if program is not None else ())
    logs, bad = read_logs(artifacts, functions)
    listed = [parse_autotvm_tasks(artifact.text) for artifact in artifacts if artifact.kind == AUTOTVM_TASKS]
    curves = [parse_total_latency(artifact.text) for artifact in artifacts if artifact.kind == LATENCY_CURVE]
    matches = match_rows(node_rows(calls), functions)
    ordered = in_program_order(calls, matches, functions)
    rows = [_row(place, call, matches[call.node], program, found) for place, call in enumerate(ordered)]
    tasks = _tasks(rows)
    owners = _owners(logs, functions, tasks)
    known = {task.task for task in tasks}
    notes = _notes(artifacts, program, found, in_order=ordered != calls)
    operators = {row.row: _operators(program, matches[row.node_name]) for row in rows}
    return Imported(
        profile=_profile(name, rows, (*tasks, *(task for task in owners if task.task not in known)), notes),
        graph=imported_graph(program, found, rows, operators),
        matches={row.row: _row_match(matches[row.node_name]) for row in rows},
        progress=tuple(progress_of(task.task, task.name, weight=task.weight, trials=log.trials) for log, task in zip(logs, owners, strict=True)),
        trials=tuple(trial for log, task in zip(logs, owners, strict=True) for trial in renamed(log.trials, task.task)),
        curve=tuple(point for curve in curves for point in curve.entries),
        autotvm_tasks=tuple(task for tasks_of_file in listed for task in tasks_of_file.entries),
        bad=(*found.bad, *bad, *_bad_lists(artifacts)),
    )


def _program(artifacts: Sequence[Artifact]) -> ImportedProgram | None:
    """The program that rows are matched with: the source, whose operators are the user's own, before one that was fused and rewritten."""
    programs = [read_program(artifact.text) for artifact in artifacts if artifact.kind == RELAY]
    return min(programs, key=lambda item: item.is_fused, default=None)


def _calls_of(program: ImportedProgram) -> tuple[TimedCall, ...]:
    """The calls of a program that came without a table, in execution order, without times, named as old TVM would have."""
    numbers: Counter[str] = Counter()
    placed = []
    for item in program.functions:
        base = f"fused_{'_'.join(item.operators)}"
        symbol = f"{base}_{numbers[base]}" if numbers[base] else base
        numbers[base] += 1
        placed += [(order, symbol, call, item) for call, order in enumerate(item.order)]
    return tuple(
        TimedCall(f"{symbol}_{call}" if call else symbol, symbol, None, item.shape, len(item.input_shapes), 1, order)
        for order, symbol, call, item in sorted(placed, key=lambda entry: entry[0])
    )


def _row(place: int, call: TimedCall, match: Match, program: ImportedProgram | None, found: ImportedCalls) -> Row:
    structure = program.functions[match.structure] if program is not None and match.structure is not None else None
    origins = tuple(program.origin(place) for place in _operators(program, match)) if program is not None else ()
    summed_us = math.fsum(item.time_us or 0.0 for item in found.calls)
    flop = structure.flop if structure is not None else None
    return Row(
        row=place,
        node_name=call.node,
        ops=structure.operators if structure is not None else parse_function(call.function).operators,
        origins=origins,
        time_us=call.time_us,
        time_us_iqr=None,
        time_percent=None if call.time_us is None or summed_us <= 0 else 100.0 * call.time_us / summed_us,
        shape="" if call.shape is None else f"({', '.join(map(str, call.shape))})",
        dtype=call.dtype,
        inputs=call.inputs or 0,
        outputs=call.outputs or 1,
        flop=flop,
        gflops=flop / call.time_us / 1e3 if flop is not None and call.time_us else None,
        kernel=call.function,
        task=structure.identifier if structure is not None else task_identifier(call.function, IMPORTED),
        untunable=UNTUNABLE,
    )


def _operators(program: ImportedProgram | None, match: Match) -> tuple[int, ...]:
    """Places of a row's operators in the program."""
    return program.operators(match.structure, match.call) if program is not None and match.structure is not None else ()


def _tasks(rows: Sequence[Row]) -> tuple[Task, ...]:
    members: dict[str, list[Row]] = {}
    for row in rows:
        members.setdefault(str(row.task), []).append(row)
    return tuple(_task(task, group) for task, group in members.items())


def _task(task: str, rows: Sequence[Row]) -> Task:
    timed = [row.time_us for row in rows if row.time_us is not None]
    percents = [row.time_percent for row in rows if row.time_percent is not None]
    return Task(
        task=task,
        name=str(rows[0].kernel),
        ops=rows[0].ops,
        kernels=tuple(dict.fromkeys(str(row.kernel) for row in rows)),
        weight=len(rows),
        rows=tuple(row.row for row in rows),
        time_us=math.fsum(timed) if timed else None,
        time_percent=math.fsum(percents) if percents else None,
        flop=rows[0].flop,
        space_size=None,
        shapes=(rows[0].shape,),
        untunable=UNTUNABLE,
    )


def _owners(logs: Sequence[LogTask], functions: Sequence[Structure], tasks: Sequence[Task]) -> list[Task]:
    """For each workload of the logs its task: a row's if it is surely that one and no other log has it, else one of its own, without rows."""
    by_identifier = {task.task: task for task in tasks}
    taken: set[str] = set()
    owners = []
    for log in logs:
        task = by_identifier.get(functions[log.structure].identifier) if log.structure is not None else None
        if task is None or task.task in taken:
            task = _log_task(log)
        taken.add(task.task)
        owners.append(task)
    return owners


def _log_task(log: LogTask) -> Task:
    return Task(
        task=task_identifier(log.key, log.target),
        name=log.key,
        ops=(),
        kernels=(log.key,),
        weight=0,
        rows=(),
        time_us=None,
        time_percent=None,
        flop=None,
        space_size=None,
        shapes=(),
        untunable=UNTUNABLE,
    )


def _profile(name: str, rows: Sequence[Row], tasks: Sequence[Task], notes: Sequence[str]) -> Profile:
    timed = [row.time_us for row in rows if row.time_us is not None]
    return Profile(
        model=name,
        engine=IMPORTED,
        target="as imported",
        total_us=None,
        total_us_iqr=None,
        rows_us=math.fsum(timed) if timed else None,
        rows=tuple(rows),
        tasks=tuple(tasks),
        unmeasured="" if timed else "no table or trace with times was given",
        notes=tuple(notes),
    )


def _notes(artifacts: Sequence[Artifact], program: ImportedProgram | None, found: ImportedCalls, *, in_order: bool) -> list[str]:
    """What a reader must know."""
    kinds = [artifact.kind for artifact in artifacts]
    notes = [f"imported: {', '.join(f'{kinds.count(kind)} x {kind}' for kind in dict.fromkeys(kinds))}", *found.notes]
    if program is None and found.calls:
        notes.append("no Relay program was given: rows are not matched to operators")
    if found.calls and all(call.order is None for call in found.calls):
        order = "in which the program runs what they are matched with, others behind them" if in_order else "of the table"
        notes.append(f"rows stand in the order {order}; a graph JSON would give the order of execution")
    return notes


def _row_match(match: Match) -> RowMatch:
    return RowMatch(match.confidence, match.evidence, match.alternatives)


def _bad_lists(artifacts: Sequence[Artifact]) -> list[tuple[str, BadLine]]:
    """Damaged lines of AutoTVM's printed tasks and of the latency curve."""
    return [
        (artifact.path.name, line)
        for artifact in artifacts
        for line in (
            parse_autotvm_tasks(artifact.text).bad
            if artifact.kind == AUTOTVM_TASKS
            else parse_total_latency(artifact.text).bad
            if artifact.kind == LATENCY_CURVE
            else ()
        )
    ]
