"""What old TVM does to a program before it fuses: batch norms become arithmetic, biases sums, and what only constants feed is computed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from workbench.matching.shapes import Shape
from workbench.matching.source import Operator, SourceGraph, Tensor

_IDENTITY = {"nn.dropout", "copy", "annotation.stop_fusion", "annotation.simulated_quantize", "on_device", "annotation.checkpoint"}
_RENAMED = {"nn.bias_add": "add", "nn.batch_flatten": "reshape"}
_WITH_TUPLES = {"concatenate", "stack"}
TUPLE = "tuple"
"""Name of the node that gathers the inputs of such an operator: fusion sees it."""


@dataclass(frozen=True)
class Node:
    """One operator as fusion meets it.

    Attributes:
        name: Its Relay name after the passes.
        inputs: Places of the nodes that it reads; None for parameters and constants.
        input_shapes: Their shapes.
        shape: Of its output; None where it is not known.
        attributes: What the text gives.
        origins: Places in the source graph that it comes from.
        optional: True if constant folding may have taken it away: the scale of a batch norm.
    """

    name: str
    inputs: tuple[int | None, ...]
    input_shapes: tuple[Shape | None, ...]
    shape: Shape | None
    attributes: Mapping[str, Any]
    origins: tuple[int, ...]
    optional: bool = False


@dataclass(frozen=True)
class Simplified:
    """Nodes in an order in which they can run, and places of the results."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]


def simplified(graph: SourceGraph) -> Simplified:
    """The program as fusion meets it; operators that nobody reads are left out."""
    return _Simplifier(graph).run()


class _Simplifier:
    def __init__(self, graph: SourceGraph) -> None:
        self._graph = graph
        self._nodes: list[Node] = []
        self._of: dict[int, int | None] = {}  # place of the node that has an operator's value
        self._readers = Counter(tensor.operator for operator in graph.operators for tensor in operator.inputs if tensor.operator is not None)

    def run(self) -> Simplified:
        needed = self._needed()
        for place, operator in enumerate(self._graph.operators):
            if place in needed:
                self._of[place] = self._translate(place, operator)
        outputs = [self._node_of(tensor) for tensor in self._graph.outputs]
        return Simplified(tuple(self._nodes), tuple(place for place in outputs if place is not None))

    def _needed(self) -> set[int]:
        waiting = [tensor.operator for tensor in self._graph.outputs if tensor.operator is not None]
        needed: set[int] = set()
        while waiting:
            place = waiting.pop()
            if place not in needed:
                needed.add(place)
                waiting.extend(tensor.operator for tensor in self._graph.operators[place].inputs if tensor.operator is not None)
        return needed

    def _translate(self, place: int, operator: Operator) -> int | None:
        """The node that has the operator's value; None if it is computed before the program runs."""
        inputs = [self._node_of(tensor) for tensor in operator.inputs]
        if operator.name in _IDENTITY and inputs:
            return inputs[0]
        if all(item is None for item in inputs) and not self._reads_input(operator):
            return None
        if operator.name == "nn.batch_norm" and len(inputs) == 5:
            return self._batch_norm(place, operator, inputs[0])
        shapes = tuple(tensor.shape for tensor in operator.inputs)
        if operator.name in _WITH_TUPLES:
            inputs = [self._add(Node(TUPLE, tuple(inputs), shapes, None, {}, ()))]
        name = _RENAMED.get(operator.name, operator.name)
        return self._add(Node(name, tuple(inputs), shapes, operator.shape, operator.attributes, (place,)))

    def _batch_norm(self, place: int, operator: Operator, data: int | None) -> int:
        """``x * scale + shift``; the scale goes into the weights of a convolution before it, and often of those behind it."""
        source = operator.inputs[0].operator
        follows = source is not None and self._graph.operators[source].name.startswith("nn.conv") and self._readers[source] == 1
        shapes = (operator.shape, None)
        if not follows:
            data = self._add(Node("multiply", (data, None), shapes, operator.shape, {}, (place,), optional=True))
        return self._add(Node("add", (data, None), shapes, operator.shape, {}, (place,)))

    def _reads_input(self, operator: Operator) -> bool:
        """True if what feeds it may be the program's input: data, not weights alone."""
        return any(tensor.operator is None for tensor in operator.inputs[:1]) and operator.name not in {
            "transpose",
            "expand_dims",
            "squeeze",
            "reshape",
        }

    def _node_of(self, tensor: Tensor) -> int | None:
        return None if tensor.operator is None else self._of.get(tensor.operator)

    def _add(self, node: Node) -> int:
        self._nodes.append(node)
        return len(self._nodes) - 1
