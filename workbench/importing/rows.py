"""What imported tables, dumps and reports say of a model's calls, as rows of one kind."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from workbench.importing.artifacts import DEBUG_TABLE, GRAPH, REPORT, TRACE, Artifact
from workbench.legacy.debug.graph import ExecutedGraph, GraphNode, parse_graph
from workbench.legacy.debug.report import Report, parse_reports
from workbench.legacy.debug.table import DebugTable, parse_debug_tables
from workbench.legacy.debug.trace import parse_execution_trace
from workbench.legacy.lines import BadLine
from workbench.matching.rows import Match, NodeRow
from workbench.matching.shapes import Shape
from workbench.matching.structure import Structure

_SURE = 0.75


@dataclass(frozen=True)
class TimedCall:
    """One call of a compiled function.

    Attributes:
        node: Name of the node.
        function: The compiled function.
        time_us: Its time; None if no table has it.
        shape: Of its (first) output, in the layout of the rewritten program.
        inputs: Number of inputs; None where nothing says so.
        outputs: Number of outputs.
        order: Place in execution order; None if no graph says so.
        dtype: Of its (first) output; empty where nothing says so.
        structural_hash: Of the function; empty where nothing says so.
        count: How many calls it stands for: several in a profiler's report, whose time is that of all of them.
    """

    node: str
    function: str
    time_us: float | None
    shape: Shape | None
    inputs: int | None
    outputs: int | None
    order: int | None
    dtype: str = ""
    structural_hash: str = ""
    count: int = 1


@dataclass(frozen=True)
class ImportedCalls:
    """All calls, what their file says all took, what could not be read of which file, and the compiled graph if there is one."""

    calls: tuple[TimedCall, ...]
    total_us: float | None
    bad: tuple[tuple[str, BadLine], ...]
    notes: tuple[str, ...]
    graph: ExecutedGraph | None = None


def read_calls(artifacts: Sequence[Artifact]) -> ImportedCalls:
    """Put together what tables, graphs, traces and reports say; the last table of several counts.

    Raises:
        ModelError: A graph or trace is damaged.
    """
    graphs = [parse_graph(artifact.text) for artifact in artifacts if artifact.kind == GRAPH]
    graph = max(graphs, key=lambda item: len(item.calls), default=None)
    tables = [(artifact, table) for artifact in artifacts if artifact.kind == DEBUG_TABLE for table in parse_debug_tables(artifact.text)]
    reports = [(artifact, report) for artifact in artifacts if artifact.kind == REPORT for report in parse_reports(artifact.text)]
    traces = [parse_execution_trace(artifact.text) for artifact in artifacts if artifact.kind == TRACE]
    notes = [f"{len(tables)} debug tables were given; the last one is shown"] * (len(tables) > 1)
    if tables:
        artifact, table = tables[-1]
        return ImportedCalls(_of_table(table, graph), table.total_us, tuple((artifact.path.name, bad) for bad in table.bad), tuple(notes), graph)
    if graph is not None and (traces or not reports):
        times_us = traces[-1] if traces else {}
        return ImportedCalls(_of_graph(graph, times_us), sum(times_us.values()) if times_us else None, (), tuple(notes), graph)
    if reports:
        artifact, report = reports[-1]
        notes.append("a report has one line for all calls of a function: its time is that of all of them")
        return ImportedCalls(_of_report(report), report.total_us, tuple((artifact.path.name, bad) for bad in report.bad), tuple(notes), graph)
    return ImportedCalls((), None, (), tuple(notes))


def node_rows(calls: Sequence[TimedCall]) -> list[NodeRow]:
    """The calls as matching takes them."""
    return [NodeRow(call.node, call.function, call.shape, call.time_us or 0.0, call.order, call.structural_hash, call.count) for call in calls]


def in_program_order(calls: Sequence[TimedCall], matches: Mapping[str, Match], functions: Sequence[Structure]) -> tuple[TimedCall, ...]:
    """The calls of a table, which is sorted by time, as the program runs what they are matched with; those of no function come behind them.

    They stay where they are if a graph has put them in order already, or if most are not surely matched.
    """
    sure = sum(matches[call.node].confidence >= _SURE and matches[call.node].structure is not None for call in calls)
    if any(call.order is not None for call in calls) or 2 * sure < len(calls):
        return tuple(calls)

    def place(call: TimedCall) -> float:
        match = matches[call.node]
        if match.structure is None:
            return math.inf
        order = functions[match.structure].order
        return order[min(match.call, len(order) - 1)]

    return tuple(sorted(calls, key=place))


def _of_table(table: DebugTable, graph: ExecutedGraph | None) -> tuple[TimedCall, ...]:
    """The table's nodes: in execution order if a graph knows all of them, else as the table has them."""
    nodes = {node.name: (place, node) for place, node in enumerate(graph.calls)} if graph is not None else {}
    known = bool(nodes) and all(row.node_name in nodes for row in table.nodes)
    calls = [
        TimedCall(
            node=row.node_name,
            function=row.ops,
            time_us=row.time_us,
            shape=row.shape,
            inputs=row.inputs,
            outputs=row.outputs,
            order=nodes[row.node_name][0] if known else None,
            dtype=_dtype(nodes[row.node_name][1]) if row.node_name in nodes else "",
            structural_hash=nodes[row.node_name][1].structural_hash if row.node_name in nodes else "",
        )
        for row in table.nodes
    ]
    return tuple(sorted(calls, key=lambda call: call.order or 0)) if known else tuple(calls)


def _of_graph(graph: ExecutedGraph, times_us: Mapping[str, float]) -> tuple[TimedCall, ...]:
    return tuple(
        TimedCall(
            node=node.name,
            function=node.function,
            time_us=times_us.get(node.name),
            shape=node.shapes[0] if node.shapes else None,
            inputs=len(node.inputs),
            outputs=node.outputs,
            order=place,
            dtype=_dtype(node),
            structural_hash=node.structural_hash,
        )
        for place, node in enumerate(graph.calls)
    )


def _dtype(node: GraphNode) -> str:
    return node.dtypes[0] if node.dtypes else ""


def _of_report(report: Report) -> tuple[TimedCall, ...]:
    """The report's lines; where it has one a call, those of one function are numbered as the debug runtime would."""
    seen: Counter[str] = Counter()
    calls = []
    for row in report.rows:
        if "::" in row.name:  # what the VM does itself
            continue
        shape, dtype = (row.shapes[-1][1], row.shapes[-1][0]) if row.shapes else (None, "")
        node = f"{row.name}_{seen[row.name]}" if seen[row.name] else row.name
        seen[row.name] += 1
        calls.append(
            TimedCall(node, row.name, row.time_us, shape, max(len(row.shapes) - 1, 0), 1, None, dtype, row.structural_hash, max(row.count, 1))
        )
    return tuple(calls)
