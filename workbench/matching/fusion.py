"""Old TVM's fusion, done again: which operators of a program became one function, and in which order those run.

After ``GraphPartitioner`` of TVM's ``src/relay/analysis/graph_partitioner.cc``: an operator joins the one in which all paths from it
meet, if the patterns on these paths allow it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workbench.matching.patterns import BROADCAST, ELEMWISE, INJECTIVE, OPAQUE, OUT_FUSABLE, REDUCE, pattern_of
from workbench.matching.patterns import TUPLE as TUPLE_PATTERN
from workbench.matching.simplify import TUPLE, Node, Simplified

MAX_FUSED = 256
"""``relay.FuseOps.max_depth``."""


@dataclass(frozen=True)
class FusedCall:
    """Operators that became one function, at one of its calls.

    Attributes:
        nodes: Their places in the order in which the function's name has them: inputs first, the result last.
    """

    nodes: tuple[int, ...]


def fused_calls(program: Simplified) -> tuple[FusedCall, ...]:
    """The calls of fused functions in execution order."""
    return _Partition(program).run()


class _Partition:
    def __init__(self, program: Simplified) -> None:
        self._nodes = program.nodes
        self._outputs = frozenset(program.outputs)
        self._results = program.outputs
        self._readers: list[list[tuple[int, int]]] = [[] for _ in self._nodes]
        for place, node in enumerate(self._nodes):
            kind = _pattern(node)
            for position, source in enumerate(node.inputs):
                if source is not None:
                    same = kind == BROADCAST and node.shape is not None and _shape_at(node, position) == node.shape
                    self._readers[source].append((place, ELEMWISE if same else kind))
        self._parent, self._depth, self._path = self._dominators()
        self._root = list(range(len(self._nodes)))
        self._kind = [_pattern(node) for node in self._nodes]
        self._anchored = [kind == OUT_FUSABLE for kind in self._kind]
        self._size = [1] * len(self._nodes)

    def run(self) -> tuple[FusedCall, ...]:
        for phase in range(3):
            for place in range(len(self._nodes)):
                self._try(place, phase)
        members: dict[int, list[int]] = {}
        for place in self._order():
            members.setdefault(self._find(place), []).append(place)
        last = {place: order for order, place in enumerate(self._order())}
        groups = sorted(members.values(), key=lambda group: max(last[place] for place in group))
        return tuple(FusedCall(self._walk(group)) for group in groups if any(self._nodes[place].name != TUPLE for place in group))

    def _walk(self, group: Sequence[int]) -> tuple[int, ...]:
        """The members of a group as a walk from its result meets them, inputs first."""
        return tuple(self._post_order([max(group)], frozenset(group)))

    def _dominators(self) -> tuple[list[int | None], list[int], list[int]]:
        """For each node the one that all paths from it meet in, its depth in the tree of these, and the pattern of the paths."""
        count = len(self._nodes)
        parent: list[int | None] = [None] * count
        depth, path = [1] * count, [OPAQUE] * count
        for place in reversed(range(count)):
            if place in self._outputs or not self._readers[place]:
                continue
            meeting: int | None = self._readers[place][0][0]
            pattern = ELEMWISE
            for reader, edge in self._readers[place]:
                pattern = max(pattern, edge)
                other: int | None = reader
                while meeting != other:
                    if meeting is None or other is None:
                        meeting = other = None
                    elif depth[meeting] < depth[other]:
                        pattern, other = max(pattern, path[other]), parent[other]
                    elif depth[other] < depth[meeting]:
                        pattern, meeting = max(pattern, path[meeting]), parent[meeting]
                    else:
                        pattern = max(pattern, path[other], path[meeting])
                        other, meeting = parent[other], parent[meeting]
            parent[place], path[place] = meeting, pattern
            depth[place] = 1 if meeting is None else depth[meeting] + 1
        return parent, depth, path

    def _try(self, place: int, phase: int) -> None:
        """Join a node with the one that its paths meet in, if this phase may."""
        target = self._parent[place]
        kind = self._kind[place]
        if target is None or kind == OPAQUE or self._size[self._find(place)] + self._size[self._find(target)] > MAX_FUSED:
            return
        if phase == 2:
            root = self._find(target)
            if kind <= INJECTIVE and self._kind[root] <= INJECTIVE and _pattern(self._nodes[target]) == TUPLE_PATTERN:
                self._join_if(place, target, lambda pattern, _is_sink: pattern <= INJECTIVE or pattern == TUPLE_PATTERN)
            return
        if self._find(place) == self._find(target) or self._kind[target] == TUPLE_PATTERN:
            return
        if kind == OUT_FUSABLE:
            if phase == 0 and self._path[place] == ELEMWISE:
                self._join_if(place, target, lambda pattern, _is_sink: pattern <= BROADCAST, skip_first=True)
        elif kind <= BROADCAST:
            if self._path[place] <= INJECTIVE or self._path[place] == REDUCE:
                self._join_if(place, target, _ends_anywhere)
        elif kind in (INJECTIVE, TUPLE_PATTERN) and phase == 1:
            self._join_if(place, target, lambda pattern, _is_sink: pattern <= INJECTIVE, skip_first=True)

    def _join_if(self, place: int, target: int, allowed: Callable[[int, bool], bool], *, skip_first: bool = False) -> None:
        """Join everything between two nodes, if the patterns of all on the way allow it."""
        between: set[int] = set()
        waiting = [reader for reader, _ in self._readers[place]] if skip_first or place != target else [place]
        while waiting:
            node = waiting.pop()
            if node in between:
                continue
            if not allowed(self._kind[self._find(node)], node == target):
                return
            between.add(node)
            if node != target:
                waiting.extend(reader for reader, _ in self._readers[node])
        for node in (place, *between):
            self._merge(node, target)

    def _merge(self, child: int, parent: int) -> None:
        child, parent = self._find(child), self._find(parent)
        if child != parent:
            self._root[child] = parent
            self._size[parent] += self._size[child]
            if self._anchored[child]:
                self._anchored[parent] = True
                self._kind[parent] = max(self._kind[child], self._kind[parent])

    def _find(self, place: int) -> int:
        while self._root[place] != place:
            self._root[place] = self._root[self._root[place]]
            place = self._root[place]
        return place

    def _order(self) -> list[int]:
        """Places as a walk from the results meets them, inputs first: the order of the graph executor."""
        return self._post_order(self._results, None)

    def _post_order(self, results: Sequence[int], within: frozenset[int] | None) -> list[int]:
        """What results need, inputs first, or as much of it as is within a group."""
        order: list[int] = []
        done: set[int] = set()
        for result in results:
            waiting: list[tuple[int, bool]] = [(result, False)]
            while waiting:
                place, ready = waiting.pop()
                if ready:
                    order.append(place)
                elif place not in done:
                    done.add(place)
                    waiting.append((place, True))
                    sources = reversed(self._nodes[place].inputs)
                    waiting.extend((source, False) for source in sources if source is not None and (within is None or source in within))
        return order


def _ends_anywhere(pattern: int, is_sink: bool) -> bool:  # noqa: FBT001 - called by place, as the other conditions
    return pattern in (ELEMWISE, BROADCAST, INJECTIVE, REDUCE, OUT_FUSABLE) if is_sink else pattern <= INJECTIVE


def _pattern(node: Node) -> int:
    return TUPLE_PATTERN if node.name == TUPLE else pattern_of(node.name)


def _shape_at(node: Node, position: int) -> Sequence[int] | None:
    return node.input_shapes[position] if position < len(node.input_shapes) else None
