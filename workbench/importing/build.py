"""Puts imported artifacts together: rows, tasks, how surely each row is matched, trials, and what could not be read."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.importing.artifacts import AUTO_SCHEDULER_TASKS, AUTOTVM_TASKS, LATENCY_CURVE, RELAY, Artifact
from workbench.importing.graph import imported_graph
from workbench.importing.logs import progress_of, read_logs, renamed, task_identifier
from workbench.importing.program import ImportedProgram, read_program
from workbench.importing.rows import ImportedCalls, TimedCall, in_program_order, node_rows, read_calls
from workbench.importing.task_lists import tie_task_lists
from workbench.importing.tasks import UNTUNABLE, log_owners, row_tasks
from workbench.legacy.auto_scheduler.latency_curve import parse_total_latency
from workbench.legacy.auto_scheduler.task_list import parse_auto_scheduler_tasks
from workbench.legacy.autotvm_log import parse_autotvm_tasks
from workbench.legacy.lines import BadLine, Parsed
from workbench.matching.executed import graph_functions, match_nodes
from workbench.matching.names import parse_function
from workbench.matching.rows import Match, match_rows
from workbench.matching.structure import Structure
from workbench.records.graph import ModelGraph
from workbench.records.match import RowMatch
from workbench.records.old_search import OldSearch
from workbench.records.profile import Profile, Row, Task
from workbench.records.request import IMPORTED
from workbench.records.trial import Trial
from workbench.records.tuning import TaskProgress


@dataclass(frozen=True)
class Imported:
    """What a set of artifacts says.

    Attributes:
        profile: Rows and tasks.
        graph: The program's operators and the calls; None if nothing says what reads what.
        matches: How surely each row is matched, by its number.
        progress: One entry for each task with trials.
        trials: All trials.
        old_search: What belongs to the whole model: the latency over an old search, and listed tasks of no row.
        bad: Lines that were set aside, with the name of their file.
    """

    profile: Profile
    graph: ModelGraph | None
    matches: Mapping[int, RowMatch]
    progress: tuple[TaskProgress, ...]
    trials: tuple[Trial, ...]
    old_search: OldSearch
    bad: tuple[tuple[str, BadLine], ...]


def build_import(name: str, artifacts: Sequence[Artifact]) -> Imported:
    """Tie artifacts together.

    Args:
        name: What the session calls the model.
        artifacts: All that belongs to one model.

    Raises:
        ModelError: A program, graph or trace is damaged as a whole; single damaged lines are set aside.
    """
    found = read_calls(artifacts)
    program = _Program.of(artifacts, found)
    calls = found.calls or program.calls()
    matches = program.match(calls)
    ordered = in_program_order(calls, matches, program.functions)
    rows = [_row(place, call, matches[call.node], program, ordered) for place, call in enumerate(ordered)]
    counts = {place: call.count for place, call in enumerate(ordered)}
    logs, bad = read_logs(artifacts, program.functions)
    lists = tie_task_lists(artifacts, program.functions, _symbols(calls, matches))
    listed = {program.functions[place].identifier: tasks for place, tasks in lists.of_function.items()}
    tasks = row_tasks(rows, counts, {item.identifier: item for item in program.functions}, listed)
    owners = log_owners(logs, program.functions, tasks)
    known = {task.task for task in tasks}
    curves = [parse_total_latency(artifact.text) for artifact in artifacts if artifact.kind == LATENCY_CURVE]
    return Imported(
        profile=_profile(
            name,
            rows,
            (*tasks, *(task for task in owners if task.task not in known)),
            _notes(artifacts, program, found, in_order=ordered != calls),
        ),
        graph=imported_graph(program.source, found, rows, {row.row: program.operators(matches[row.node_name], counts[row.row]) for row in rows}),
        matches={row.row: _row_match(matches[row.node_name]) for row in rows},
        progress=tuple(progress_of(task.task, task.name, weight=task.weight, trials=log.trials) for log, task in zip(logs, owners, strict=True)),
        trials=tuple(trial for log, task in zip(logs, owners, strict=True) for trial in renamed(log.trials, task.task)),
        old_search=OldSearch(tuple(point for curve in curves for point in curve.entries), lists.unmatched),
        bad=(*found.bad, *bad, *_bad_lists(artifacts)),
    )


@dataclass(frozen=True)
class _Program:
    """What rows are matched with.

    Attributes:
        source: A Relay program; None without one.
        functions: Its fused functions, or those of the compiled graph.
        found: What tables and graphs say.
    """

    source: ImportedProgram | None
    functions: tuple[Structure, ...]
    found: ImportedCalls

    @classmethod
    def of(cls, artifacts: Sequence[Artifact], found: ImportedCalls) -> _Program:
        """The source, whose operators are the user's own, before a program that was fused and rewritten, and any program before a graph."""
        programs = [read_program(artifact.text) for artifact in artifacts if artifact.kind == RELAY]
        source = min(programs, key=lambda item: item.is_fused, default=None)
        if source is not None:
            return cls(source, source.functions, found)
        return cls(None, () if found.graph is None else graph_functions(found.graph), found)

    def match(self, calls: Sequence[TimedCall]) -> dict[str, Match]:
        """What each call is, by its node's name."""
        if self.source is None and self.found.graph is not None:
            return match_nodes(node_rows(calls), self.found.graph)
        return match_rows(node_rows(calls), self.functions)

    def operators(self, match: Match, count: int) -> tuple[int, ...]:
        """Places of a row's operators in the source: those of all calls that it stands for."""
        if self.source is None or match.structure is None:
            return ()
        places = [self.source.operators(match.structure, match.call + number) for number in range(count)]
        return tuple(dict.fromkeys(place for call in places for place in call))

    def calls(self) -> tuple[TimedCall, ...]:
        """The calls of a program that came without a table, in execution order, without times, named as old TVM would have."""
        numbers: Counter[str] = Counter()
        placed = []
        for item in self.functions:
            base = f"fused_{'_'.join(item.operators)}"
            symbol = f"{base}_{numbers[base]}" if numbers[base] else base
            numbers[base] += 1
            placed += [(order, symbol, call, item) for call, order in enumerate(item.order)]
        return tuple(
            TimedCall(f"{symbol}_{call}" if call else symbol, symbol, None, item.shape, len(item.input_shapes), 1, order)
            for order, symbol, call, item in sorted(placed, key=lambda entry: entry[0])
        )


def _symbols(calls: Sequence[TimedCall], matches: Mapping[str, Match]) -> dict[int, list[str]]:
    """Names of the compiled functions by the place of the program's function that they are matched with."""
    symbols: dict[int, list[str]] = {}
    for call in calls:
        place = matches[call.node].structure
        if place is not None:
            symbols.setdefault(place, []).append(call.function)
    return symbols


def _row(place: int, call: TimedCall, match: Match, program: _Program, calls: Sequence[TimedCall]) -> Row:
    structure = program.functions[match.structure] if match.structure is not None else None
    summed_us = math.fsum(item.time_us or 0.0 for item in calls)
    flop = None if structure is None or structure.flop is None else structure.flop * call.count
    source = program.source
    return Row(
        row=place,
        node_name=call.node,
        ops=structure.operators if structure is not None else parse_function(call.function).operators,
        origins=() if source is None else tuple(source.origin(item) for item in program.operators(match, call.count)),
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


def _notes(artifacts: Sequence[Artifact], program: _Program, found: ImportedCalls, *, in_order: bool) -> list[str]:
    """What a reader must know."""
    kinds = [artifact.kind for artifact in artifacts]
    notes = [f"imported: {', '.join(f'{kinds.count(kind)} x {kind}' for kind in dict.fromkeys(kinds))}", *found.notes]
    if program.source is None and found.calls:
        notes.append("no Relay program was given: rows are not matched to operators")
    if found.calls and all(call.order is None for call in found.calls):
        order = "in which the program runs what they are matched with, others behind them" if in_order else "of the table"
        notes.append(f"rows stand in the order {order}; a graph JSON would give the order of execution")
    return notes


def _row_match(match: Match) -> RowMatch:
    return RowMatch(match.confidence, match.evidence, match.alternatives)


def _bad_lists(artifacts: Sequence[Artifact]) -> list[tuple[str, BadLine]]:
    """Damaged lines of printed tasks and of the latency curve."""
    readers: dict[str, Callable[[str], Parsed[Any]]] = {
        AUTO_SCHEDULER_TASKS: parse_auto_scheduler_tasks,
        AUTOTVM_TASKS: parse_autotvm_tasks,
        LATENCY_CURVE: parse_total_latency,
    }
    return [(artifact.path.name, line) for artifact in artifacts if artifact.kind in readers for line in readers[artifact.kind](artifact.text).bad]
