"""What importers know of the source model's graph, by the numbers that the `OriginTable` gives to its operators.

An importer describes each operator once: what it reads, what it gives, its attributes. `SourceGraph.nodes` puts this together with what
the lowering made of each operator.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import tvm
from tvm import relax

from workbench.escaping import plain, short_text
from workbench.records.graph import INPUT, OPERATOR, OUTPUT, SourceNode
from workbench.records.origin import Origin
from workbench.records.profile import TensorShape

_TEXT = 80


@dataclass(frozen=True)
class Described:
    """What an importer knows of an operator or an output.

    Attributes:
        reads: Operators by their numbers, and inputs as `SourceGraph.add_input` returned them.
        outputs: The tensors that it gives.
        weights: The constants that it reads.
        attributes: Its attributes as short texts.
    """

    reads: tuple[int, ...] = ()
    outputs: tuple[TensorShape, ...] = ()
    weights: tuple[TensorShape, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)


class SourceGraph:
    """Grows while a model is imported."""

    def __init__(self) -> None:
        self._inputs: list[SourceNode] = []
        self._operators: dict[int, Described] = {}
        self._outputs: list[tuple[str, Described]] = []

    @property
    def input_names(self) -> list[str]:
        """Names of the inputs, in order."""
        return [node.origin.name for node in self._inputs]

    @property
    def output_names(self) -> list[str]:
        """Names of the outputs, in order."""
        return [name for name, _ in self._outputs]

    def add_input(self, name: str, tensors: tuple[TensorShape, ...]) -> int:
        """Add an input of the model; returns what refers to it in `Described.reads`: a negative number."""
        self._inputs.append(SourceNode(INPUT, Origin("", name), outputs=tensors))
        return -len(self._inputs)

    def describe(self, number: int, described: Described) -> None:
        """Say what the operator of a number is."""
        self._operators[number] = described

    def add_output(self, name: str, reads: tuple[int, ...], tensors: tuple[TensorShape, ...]) -> None:
        """Add an output of the model."""
        self._outputs.append((name, Described(reads, tensors)))

    def nodes(self, origins: Sequence[Origin], rows: Mapping[int, Sequence[int]], builtins: Iterable[int]) -> tuple[SourceNode, ...]:
        """The finished nodes, in an order of computation: inputs, operators, outputs.

        Args:
            origins: The operators by their numbers.
            rows: Rows that compute an operator, by its number.
            builtins: Numbers of operators that (also) run as VM builtins.
        """
        builtins = set(builtins)
        empty = Described()
        drafts = [self._operators.get(number, empty) for number in range(len(origins))]
        order = _ordered([draft.reads for draft in drafts])
        place = {-1 - index: index for index in range(len(self._inputs))}
        nodes = list(self._inputs)
        for number in order:
            known = drafts[number]
            nodes.append(
                SourceNode(
                    OPERATOR,
                    origins[number],
                    reads=tuple(place[read] for read in known.reads if read in place),
                    outputs=known.outputs,
                    weights=known.weights,
                    attributes=known.attributes,
                    rows=tuple(sorted(set(rows.get(number, ())))),
                    builtin=number in builtins,
                )
            )
            place[number] = len(nodes) - 1
        for name, known in self._outputs:
            reads = tuple(place[read] for read in known.reads)
            nodes.append(SourceNode(OUTPUT, Origin("", name), reads=reads, outputs=known.outputs))
        return tuple(nodes)


def _ordered(reads: Sequence[Sequence[int]]) -> list[int]:
    """Numbers in an order of computation, small ones first where there is a choice.

    An operator whose parts stand around another one's reads what is computed from itself: no order has both, and the smaller number goes first.
    """
    waiting = [{read for read in own if 0 <= read < len(reads) and read != number} for number, own in enumerate(reads)]
    readers: list[list[int]] = [[] for _ in reads]
    for number, missing in enumerate(waiting):
        for read in missing:
            readers[read].append(number)
    ready = [number for number, missing in enumerate(waiting) if not missing]
    order: list[int] = []
    done = [False] * len(reads)
    lowest = 0
    while len(order) < len(reads):
        if ready:
            number = heapq.heappop(ready)
        else:
            while done[lowest]:
                lowest += 1
            number = lowest
        if done[number]:
            continue
        done[number] = True
        order.append(number)
        for reader in readers[number]:
            waiting[reader].discard(number)
            if not waiting[reader]:
                heapq.heappush(ready, reader)
    return order


def tensors_of_type(kind: Any) -> tuple[TensorShape, ...]:
    """The tensors of a Relax type, those of a tuple one by one; an unknown dimension is -1."""
    if isinstance(kind, relax.TupleType):
        return tuple(tensor for item in kind.fields for tensor in tensors_of_type(item))
    if not isinstance(kind, relax.TensorType):
        return ()
    sizes = kind.shape.values if isinstance(kind.shape, relax.ShapeExpr) else ()
    return (TensorShape(tuple(int(size) if isinstance(size, tvm.tirx.IntImm) else -1 for size in sizes), str(kind.dtype)),)


def with_attributes(described: Described, attributes: Mapping[str, Any]) -> Described:
    """The description with attributes as short texts; those that are None say nothing and are left out."""
    return replace(described, attributes={plain(name, _TEXT): short_text(value) for name, value in attributes.items() if value is not None})
