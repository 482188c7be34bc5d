"""The boxes of a graph: source operators that one kernel call computes together are one box, all others have one each."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, replace

from workbench.records.graph import ELIMINATED, OPERATOR, KernelNode, ModelGraph, SourceNode
from workbench.records.profile import Profile, Row

_OF_SHAPES = {"shape", "size", "shape_of", "ndarray_size", "aten.sym_size.int"}


@dataclass(frozen=True)
class Unit:
    """One box of a graph; boxes are in an order of computation, too.

    Attributes:
        nodes: Numbers of the nodes in it, in order.
        reads: The boxes that it reads, each once, by their places.
        row: The row that computes it; None where none does.
        constant: True if it is computed before the run, from constants and shapes alone.
        label: Equal for boxes that do the same: operators, attributes, and how they hang together inside.
    """

    nodes: tuple[int, ...]
    reads: tuple[int, ...]
    row: int | None
    constant: bool
    label: Hashable


def kernel_units(graph: ModelGraph, profile: Profile) -> tuple[Unit, ...]:
    """One box for each node of the kernel graph; kernels of the same operators have equal labels."""
    rows = profile.kernel_rows
    return tuple(
        Unit((number,), tuple(dict.fromkeys(node.reads)), node.row, constant=False, label=(node.kind, *_kernel_label(node, rows)))
        for number, node in enumerate(graph.kernels)
    )


def _kernel_label(node: KernelNode, rows: Sequence[Row]) -> tuple[Hashable, ...]:
    ops = () if node.row is None else rows[node.row].ops
    return (len(node.reads), *(ops or (node.name,)))


def source_units(graph: ModelGraph) -> tuple[Unit, ...]:
    """The boxes of the source graph.

    An operator that several rows compute belongs to the last of them, which gives its value. What does nothing at inference and stands between
    operators of one row is in their box. A box never reads what reads it: where operators of one row stand around another's, they are apart.
    """
    nodes = graph.source
    constant = constant_nodes(nodes)
    group = [("row", node.rows[-1]) if node.rows else ("node", number) for number, node in enumerate(nodes)]
    _absorb_idle(nodes, constant, group)
    while cycles := _in_cycles(_quotient(nodes, group)):
        group = [("node", number) if own in cycles else own for number, own in enumerate(group)]
    return tuple(_units(nodes, constant, group))


def constant_nodes(nodes: Sequence[SourceNode]) -> list[bool]:
    """Which nodes are computed before the run: nothing runs them, and of the model's inputs they know no more than shapes."""
    constant: list[bool] = []
    for node in nodes:
        is_known = node.origin.op.lower() in _OF_SHAPES or all(constant[read] for read in node.reads)
        constant.append(node.state == ELIMINATED and is_known)
    return constant


def _absorb_idle(nodes: Sequence[SourceNode], constant: Sequence[bool], group: list[tuple[str, int]]) -> None:
    """Put what does nothing into the group that it stands inside of."""
    idle = [node.state == ELIMINATED and not constant[number] for number, node in enumerate(nodes)]
    above: list[set[tuple[str, int]]] = []
    readers: dict[int, list[int]] = defaultdict(list)
    for number, node in enumerate(nodes):
        above.append({own for read in node.reads for own in (above[read] if idle[read] else {group[read]})})
        for read in node.reads:
            readers[read].append(number)
    for number in reversed(range(len(nodes))):
        below = {group[reader] for reader in readers[number]}
        if idle[number] and len(below) == 1 and below <= above[number]:
            group[number] = below.pop()


def _quotient(nodes: Sequence[SourceNode], group: Sequence[tuple[str, int]]) -> dict[tuple[str, int], set[tuple[str, int]]]:
    """For each group, the groups that it reads."""
    reads: dict[tuple[str, int], set[tuple[str, int]]] = {}
    for number, node in enumerate(nodes):
        own = reads.setdefault(group[number], set())
        own.update(group[read] for read in node.reads if group[read] != group[number])
    return reads


def _in_cycles(reads: dict[tuple[str, int], set[tuple[str, int]]]) -> set[tuple[str, int]]:
    """What is left when whatever reads nothing more, or is read by nothing more, has been taken away: the cycles, and what is between them."""
    left = {key: set(value) for key, value in reads.items()}
    for _ in range(2):  # from the front, then from the back
        readers: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
        for key, value in left.items():
            for read in value:
                readers[read].append(key)
        ready = [key for key, value in left.items() if not value]
        while ready:
            key = ready.pop()
            del left[key]
            for reader in readers[key]:
                left[reader].discard(key)
                if not left[reader]:
                    ready.append(reader)
        turned: dict[tuple[str, int], set[tuple[str, int]]] = {key: set() for key in left}
        for key, value in left.items():
            for read in value:
                turned[read].add(key)
        left = turned
    return set(left)


def _units(nodes: Sequence[SourceNode], constant: Sequence[bool], group: Sequence[tuple[str, int]]) -> Iterator[Unit]:
    members: dict[tuple[str, int], list[int]] = defaultdict(list)
    for number, own in enumerate(group):
        members[own].append(number)
    place: dict[tuple[str, int], int] = {}
    for own in _ordered(members, _quotient(nodes, group)):
        inside = members[own]
        rows = [row for number in inside for row in nodes[number].rows]
        unit = Unit(
            nodes=tuple(inside),
            reads=tuple(dict.fromkeys(place[group[read]] for number in inside for read in nodes[number].reads if group[read] != own)),
            row=own[1] if own[0] == "row" else max(rows, default=None),
            constant=all(constant[number] for number in inside),
            label=_label(nodes, inside),
        )
        place[own] = len(place)
        yield unit


def _ordered(members: dict[tuple[str, int], list[int]], reads: dict[tuple[str, int], set[tuple[str, int]]]) -> Iterator[tuple[str, int]]:
    """The groups in an order of computation, by their last member where there is a choice."""
    readers: dict[tuple[str, int], list[tuple[str, int]]] = defaultdict(list)
    missing = {key: len(value) for key, value in reads.items()}
    for key, value in reads.items():
        for read in value:
            readers[read].append(key)
    ready = [(members[key][-1], key) for key, count in missing.items() if not count]
    heapq.heapify(ready)
    while ready:
        _, key = heapq.heappop(ready)
        yield key
        for reader in readers[key]:
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (members[reader][-1], reader))


def _label(nodes: Sequence[SourceNode], inside: Sequence[int]) -> Hashable:
    place = {number: index for index, number in enumerate(inside)}
    return tuple(
        (
            node.kind,
            node.origin.op if node.kind == OPERATOR else number,
            tuple(sorted(node.attributes.items())),
            node.state,
            tuple(place.get(read, -1) for read in node.reads),
        )
        for number in inside
        for node in [nodes[number]]
    )


def without_constants(units: Sequence[Unit]) -> tuple[list[int], list[Unit]]:
    """Places of the boxes that are no constants, and those boxes, reading one another by their new places."""
    kept = [place for place, unit in enumerate(units) if not unit.constant]
    new = {place: index for index, place in enumerate(kept)}
    return kept, [replace(units[place], reads=tuple(new[read] for read in units[place].reads if read in new)) for place in kept]
