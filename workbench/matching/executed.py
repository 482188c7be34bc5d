"""The functions of a compiled graph: without a program, what a table's nodes are is known by their names alone, and exactly."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from workbench.legacy.debug.graph import ExecutedGraph, GraphNode
from workbench.matching.names import parse_function
from workbench.matching.rows import NOP, Match, NodeRow
from workbench.matching.structure import Structure

_BY_NAME = 0.99


def graph_functions(graph: ExecutedGraph) -> tuple[Structure, ...]:
    """The distinct functions in the order of their first calls; no call has origins, since nothing says what the source was."""
    members: dict[str, list[tuple[int, GraphNode]]] = {}
    for place, node in enumerate(graph.calls):
        members.setdefault(_symbol(node), []).append((place, node))
    return tuple(_function(graph, symbol, calls) for symbol, calls in members.items())


def match_nodes(rows: Sequence[NodeRow], graph: ExecutedGraph) -> dict[str, Match]:
    """Find for each row the function and call of `graph_functions` that the graph's node of its name is."""
    places = {symbol: place for place, symbol in enumerate(dict.fromkeys(_symbol(node) for node in graph.calls))}
    calls = [0] * len(places)
    found: dict[str, Match] = {}
    for node in graph.calls:
        place = places[_symbol(node)]
        found[node.name] = Match(place, calls[place], _BY_NAME, ("the same name as a node of the graph",))
        calls[place] += 1
    none = Match(None, 0, 0.0, ("the graph has no node of that name",))
    return {row.node: found.get(row.node, none) for row in rows}


def _symbol(node: GraphNode) -> str:
    return node.name if node.function == NOP else node.function


def _function(graph: ExecutedGraph, symbol: str, calls: Sequence[tuple[int, GraphNode]]) -> Structure:
    node = calls[0][1]
    name = parse_function(symbol)
    digest = hashlib.sha256((node.structural_hash or symbol).encode("utf-8", "backslashreplace")).hexdigest()[:8]
    inputs = [graph.nodes[place].shapes for place in node.inputs]
    return Structure(
        identifier=f"{'_'.join(name.operators)[:40]}-{digest}",
        operators=name.operators,
        optional=frozenset(),
        shape=node.shapes[0] if node.shapes else None,
        input_shapes=tuple(shapes[0] if shapes else None for shapes in inputs),
        flop=None,
        work=1.0,
        calls=((),) * len(calls),
        order=tuple(place for place, _ in calls),
        depthwise=name.depthwise is True,
        hashes=frozenset({node.structural_hash} - {""}),
    )
