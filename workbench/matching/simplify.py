"""What old TVM does to a program before it fuses: norms become arithmetic, biases sums, equal operators one, and constants are computed.

After ``simplify_inference.cc``, ``canonicalize_ops.cc`` and ``fold_constant.cc`` of TVM's ``src/relay/transforms``.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from workbench.matching.equal import merged_equals, needed_operators
from workbench.matching.norms import NORMS, unpacked_l2_normalize, unpacked_norm
from workbench.matching.scales import SCALED, Scale, folded_scales, weight_axes_behind
from workbench.matching.shapes import Shape
from workbench.matching.source import Operator, SourceGraph, Tensor

_IDENTITY = {"nn.dropout", "copy", "annotation.stop_fusion", "annotation.simulated_quantize", "on_device", "annotation.checkpoint"}
_RENAMED = {"nn.bias_add": "add", "nn.batch_flatten": "reshape"}
_NEVER_FOLDED = {"full", "full_like", "zeros_like", "ones_like"}
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
        items: Of each tensor that the operator reads, which output of an operator with several it is; old TVM compiles a function for each.
    """

    name: str
    inputs: tuple[int | None, ...]
    input_shapes: tuple[Shape | None, ...]
    shape: Shape | None
    attributes: Mapping[str, Any]
    origins: tuple[int, ...]
    optional: bool = False
    items: tuple[int, ...] = ()


@dataclass(frozen=True)
class Simplified:
    """Nodes in an order in which they can run, and places of the results."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]


def simplified(graph: SourceGraph) -> Simplified:
    """The program as fusion meets it; operators that nobody reads are left out. Of a program that old TVM has fused already, what it is."""
    if graph.is_fused:
        return _Simplifier(graph, {}, {}).run()
    merged, equals = merged_equals(graph)
    return _Simplifier(merged, equals, folded_scales(merged)).run()


class _Simplifier:
    def __init__(self, graph: SourceGraph, equals: Mapping[int, tuple[int, ...]], scales: Mapping[int, Scale]) -> None:
        self._graph = graph
        self._equals = equals
        self._scales = scales
        self._nodes: list[Node] = []
        self._inputs_at: set[int] = set()  # operators that only hand an input on
        self._of: dict[int, int | None] = {}  # place of the node that has an operator's value
        self._inputs = {tensor.parameter for tensor in graph.inputs}
        self._needed = needed_operators(graph)
        self._readers = Counter(tensor.operator for place in self._needed for tensor in graph.operators[place].inputs if tensor.operator is not None)

    def run(self) -> Simplified:
        for place, operator in enumerate(self._graph.operators):
            if place in self._needed:
                self._of[place] = self._translate(place, operator)
        outputs = [self._node_of(tensor) for tensor in self._graph.outputs]
        return Simplified(tuple(self._nodes), tuple(place for place in outputs if place is not None))

    def _translate(self, place: int, operator: Operator) -> int | None:
        """The node that has the operator's value; None if it is computed before the program runs."""
        inputs = [self._node_of(tensor) for tensor in operator.inputs]
        if operator.name in _IDENTITY and inputs:
            return self._pass_on(place, operator.inputs[0])
        if operator.inputs and all(item is None for item in inputs) and not self._reads_input(operator) and operator.name not in _NEVER_FOLDED:
            return None
        if operator.name == "nn.batch_norm" and len(inputs) == 5:
            return self._batch_norm(place, operator, inputs[0])
        if operator.name == "multiply" and (scale := self._scales.get(place)) is not None:
            return self._pass_on(place, operator.inputs[1 - scale.position])
        if operator.name in NORMS and len(inputs) == 3:
            return unpacked_norm(operator, inputs, partial(self._part, place))
        if operator.name == "nn.l2_normalize" and inputs:
            return unpacked_l2_normalize(operator, inputs[0], partial(self._part, place))
        shapes = tuple(tensor.shape for tensor in operator.inputs)
        if operator.name in _WITH_TUPLES:
            inputs = [self._add(Node(TUPLE, tuple(inputs), shapes, None, {}, ()))]
        source = operator.inputs[0].operator if operator.name in SCALED and len(inputs) == 2 else None
        if source is not None and (scale := self._scales.get(source)) is not None:
            inputs[1] = self._scaled_weight(operator, scale)
        name = _RENAMED.get(operator.name, operator.name)
        items = () if operator.name.startswith("nn.conv") else tuple(tensor.output for tensor in operator.inputs)  # a change of layout comes between
        return self._add(Node(name, tuple(inputs), shapes, operator.shape, operator.attributes, self._origins(place), items=items))

    def _origins(self, place: int) -> tuple[int, ...]:
        """An operator and its equals."""
        return (place, *self._equals.get(place, ()))

    def _pass_on(self, place: int, tensor: Tensor) -> int | None:
        """The node of what an operator only hands on, which may be the program's input itself."""
        if self._is_input(tensor):
            self._inputs_at.add(place)
        return self._node_of(tensor)

    def _is_input(self, tensor: Tensor) -> bool:
        """True for the program's input itself, which no node has."""
        return tensor.operator in self._inputs_at if tensor.operator is not None else tensor.parameter in self._inputs

    def _batch_norm(self, place: int, operator: Operator, data: int | None) -> int:
        """``x * scale + shift``; the scale goes into the weights of a convolution before it, and often of those behind it."""
        source = operator.inputs[0].operator
        follows = source is not None and self._readers[source] == 1 and _is_about_channels(operator, self._graph.operators[source])
        shapes = (operator.shape, None)
        if not follows:
            data = self._add(Node("multiply", (data, None), shapes, operator.shape, {}, self._origins(place), optional=True))
        return self._add(Node("add", (data, None), shapes, operator.shape, {}, self._origins(place)))

    def _scaled_weight(self, operator: Operator, scale: Scale) -> int | None:
        """A weight that is multiplied in each run, with what the data was multiplied with; None if that is a constant, too."""
        tensor, weight = self._graph.operators[scale.place].inputs[scale.position], operator.inputs[1].shape
        node = self._node_of(tensor)
        if node is None and not self._is_input(tensor):
            return None
        add, shape = partial(self._part, scale.place), tensor.shape
        if shape is not None and len(shape) > 1:
            shape = (shape[scale.axis - scale.base],)
            node = add("squeeze", [(node, tensor.shape)], shape)
        if behind := weight_axes_behind(operator):
            grown = None if shape is None else (*shape, *[1] * behind)
            node, shape = add("expand_dims", [(node, shape)], grown), grown
        return add("multiply", [(None, weight), (node, shape)], weight)

    def _part(self, place: int, name: str, inputs: Sequence[tuple[int | None, Shape | None]], shape: Shape | None) -> int:
        """One operator of those that one of the program becomes."""
        return self._add(Node(name, tuple(source for source, _ in inputs), tuple(item for _, item in inputs), shape, {}, self._origins(place)))

    def _reads_input(self, operator: Operator) -> bool:
        """True if what feeds it may be the program's input: data, not weights alone."""
        if any(map(self._is_input, operator.inputs)):
            return True
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


def _is_about_channels(norm: Operator, source: Operator) -> bool:
    """True if a batch norm has a number for each channel of the convolution that it follows."""
    if not source.name.startswith("nn.conv"):
        return False
    layout = str(source.attributes.get("out_layout") or source.attributes.get("data_layout") or "NCHW")
    axis = norm.attributes.get("axis", 1)
    return isinstance(axis, int) and "C" in layout and axis % len(layout) == layout.index("C")
