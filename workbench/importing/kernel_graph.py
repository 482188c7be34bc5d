"""The calls of an imported model as a graph: as the compiled graph has them, or as the operators that they are matched with read each other."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from workbench.legacy.debug.graph import ExecutedGraph, GraphNode
from workbench.legacy.relay.roles import is_weight_name
from workbench.matching.source import SourceGraph, Tensor
from workbench.records.graph import INPUT, KERNEL, OUTPUT, KernelNode
from workbench.records.profile import Row, TensorShape

_FOLDED = re.compile(r"p\d+")
"""Names that the compiler gives to constants."""


def compiled_kernels(graph: ExecutedGraph, rows: Sequence[Row], inputs: Collection[str]) -> tuple[KernelNode, ...]:
    """The kernel graph as the compiled graph has it.

    Args:
        graph: Has all rows, in their order.
        rows: The rows.
        inputs: Names of the program's inputs; empty if no program is there.
    """
    row_of = {row.node_name: row for row in rows}
    given = _inputs(graph, inputs)
    nodes = [KernelNode(INPUT, graph.nodes[place].name, outputs=_tensors(graph.nodes[place])) for place in given]
    sources: dict[int, tuple[int, ...]] = {place: (number,) for number, place in enumerate(given)}
    for place, node in enumerate(graph.nodes):
        if place in sources:
            continue
        reads = tuple(dict.fromkeys(number for item in node.inputs for number in sources[item]))
        row = row_of.get(node.name) if node.function else None
        sources[place] = reads  # a weight has none, and what has no row only looks at a value another way
        if row is not None:
            sources[place] = (len(nodes),)
            weights = tuple(tensor for item in node.inputs if not sources[item] for tensor in _tensors(graph.nodes[item]))
            nodes.append(KernelNode(KERNEL, str(row.kernel), reads, _tensors(node), weights, row.row))
    results = graph.results or (len(graph.nodes) - 1,)
    for number, place in enumerate(results):
        name = f"output {number}" if len(results) > 1 else "output"
        nodes.append(KernelNode(OUTPUT, name, sources[place], _tensors(graph.nodes[place])[:1]))
    return tuple(nodes)


def matched_kernels(graph: SourceGraph, rows: Sequence[Row], operators: Mapping[int, Sequence[int]]) -> tuple[KernelNode, ...]:
    """The kernel graph as the program has it: a call reads those whose operators its own ones read; rows without operators are tied to nothing.

    Args:
        graph: The program.
        rows: In the order of the program, so that none reads a later one.
        operators: For each row the places of its operators.
    """
    inputs = {tensor.parameter: place for place, tensor in enumerate(graph.inputs)}
    nodes = [KernelNode(INPUT, tensor.parameter, outputs=_shapes([tensor])) for tensor in graph.inputs]
    last = {place: len(inputs) + row for row, places in sorted(operators.items()) for place in places}
    sources: list[tuple[int, ...]] = [(last[place],) if place in last else () for place in range(len(graph.operators))]

    def behind(tensors: Sequence[Tensor]) -> tuple[int, ...]:
        found = [sources[item.operator] if item.operator is not None else (inputs.get(item.parameter),) for item in tensors]
        return tuple(dict.fromkeys(number for numbers in found for number in numbers if number is not None))

    for place, operator in enumerate(graph.operators):
        if place not in last:  # nothing runs for it
            sources[place] = behind(operator.inputs)
    for row in rows:
        read = [tensor for place in operators.get(row.row, ()) for tensor in graph.operators[place].inputs]
        constants = [tensor for tensor in read if tensor.operator is None and tensor.parameter not in inputs]
        reads = tuple(number for number in behind(read) if number < len(nodes))
        outputs = _shapes([tensor for place in operators.get(row.row, ())[-1:] for tensor in graph.operators[place].outputs[:1]])
        nodes.append(KernelNode(KERNEL, str(row.kernel), reads, outputs, _shapes(constants), row.row))
    for number, tensor in enumerate(graph.outputs):
        name = f"output {number}" if len(graph.outputs) > 1 else "output"
        nodes.append(KernelNode(OUTPUT, name, behind([tensor]), _shapes([tensor])))
    return tuple(nodes)


def _inputs(graph: ExecutedGraph, names: Collection[str]) -> list[int]:
    """Places of the inputs among what calls no function: those of the program, or else what is not named as constants and weights are."""
    given = [place for place, node in enumerate(graph.nodes) if not node.function]
    named = [place for place in given if graph.nodes[place].name in names]
    likely = [place for place in given if not (_FOLDED.fullmatch(graph.nodes[place].name) or is_weight_name(graph.nodes[place].name))]
    return named or likely or given[:1]


def _tensors(node: GraphNode) -> tuple[TensorShape, ...]:
    dtypes = node.dtypes or ("",) * len(node.shapes)
    return tuple(TensorShape(shape, dtype) for shape, dtype in zip(node.shapes, dtypes, strict=False))


def _shapes(tensors: Sequence[Tensor]) -> tuple[TensorShape, ...]:
    return tuple(TensorShape(tensor.shape, tensor.dtype) for tensor in tensors if tensor.shape is not None)
