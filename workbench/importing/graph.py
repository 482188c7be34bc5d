"""The graph of an imported model: the operators of its program, and its calls as the compiled graph or the program ties them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from workbench.escaping import plain, short_text
from workbench.importing.kernel_graph import compiled_kernels, matched_kernels
from workbench.importing.program import ImportedProgram
from workbench.importing.rows import ImportedCalls
from workbench.legacy.relay import syntax
from workbench.matching.source import Operator, SourceGraph, Tensor
from workbench.records.graph import INPUT, OPERATOR, OUTPUT, ModelGraph, SourceNode
from workbench.records.origin import Origin
from workbench.records.profile import Row, TensorShape

_LONGEST_NAME = 80


def imported_graph(
    program: ImportedProgram | None, found: ImportedCalls, rows: Sequence[Row], operators: Mapping[int, Sequence[int]]
) -> ModelGraph | None:
    """Both graphs; None if nothing says what reads what.

    Args:
        program: Its operators; None leaves the source graph empty.
        found: What tables and graphs say.
        rows: The rows of the profile.
        operators: For each row the places of its operators in the program.
    """
    if not rows or (program is None and found.graph is None):
        return None
    if found.graph is not None and all(call.order is not None for call in found.calls):
        inputs = {tensor.parameter for tensor in program.graph.inputs} if program is not None else set()
        kernels = compiled_kernels(found.graph, rows, inputs)
    elif program is not None:
        kernels = matched_kernels(program.graph, rows, operators)
    else:
        return None
    return ModelGraph(source=() if program is None else _source(program, operators), kernels=kernels)


def _source(program: ImportedProgram, operators: Mapping[int, Sequence[int]]) -> tuple[SourceNode, ...]:
    graph = program.graph
    nodes = [SourceNode(INPUT, Origin("", tensor.parameter), outputs=_shapes([tensor])) for tensor in graph.inputs]
    inputs = {tensor.parameter: place for place, tensor in enumerate(graph.inputs)}
    rows: dict[int, list[int]] = {}
    for row, places in operators.items():
        for place in places:
            rows.setdefault(place, []).append(row)
    for place, operator in enumerate(graph.operators):
        nodes.append(
            SourceNode(
                OPERATOR,
                program.origin(place),
                reads=_reads(operator.inputs, inputs),
                outputs=_shapes(operator.outputs),
                weights=_shapes([tensor for tensor in operator.inputs if tensor.operator is None and tensor.parameter not in inputs]),
                attributes=_attributes(operator),
                rows=tuple(sorted(rows.get(place, ()))),
            )
        )
    return (*nodes, *_outputs(graph, inputs))


def _outputs(graph: SourceGraph, inputs: Mapping[str, int]) -> list[SourceNode]:
    names = [f"output {place}" for place in range(len(graph.outputs))] if len(graph.outputs) > 1 else ["output"]
    return [
        SourceNode(OUTPUT, Origin("", name), reads=_reads([tensor], inputs), outputs=_shapes([tensor]))
        for name, tensor in zip(names, graph.outputs, strict=False)
    ]


def _reads(tensors: Sequence[Tensor], inputs: Mapping[str, int]) -> tuple[int, ...]:
    """Numbers of the nodes that tensors come from; operators stand behind the inputs."""
    found = [len(inputs) + tensor.operator if tensor.operator is not None else inputs.get(tensor.parameter) for tensor in tensors]
    return tuple(place for place in found if place is not None)


def _shapes(tensors: Sequence[Tensor]) -> tuple[TensorShape, ...]:
    return tuple(TensorShape(tensor.shape, tensor.dtype) for tensor in tensors if tensor.shape is not None)


def _attributes(operator: Operator) -> dict[str, str]:
    """The attributes as short texts; what the text does not tell is left out."""
    return {
        plain(name, _LONGEST_NAME): short_text(value)
        for name, value in operator.attributes.items()
        if value is not None and not isinstance(value, syntax.MetaRef | syntax.Opaque)
    }
