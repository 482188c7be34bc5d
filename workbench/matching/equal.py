"""One is kept of operators that do the same with the same, as old TVM's ``EliminateCommonSubexpr`` does."""

from __future__ import annotations

from dataclasses import replace

from workbench.matching.source import Operator, SourceGraph, Tensor


def needed_operators(graph: SourceGraph) -> set[int]:
    """Places of the operators that a result needs."""
    waiting = [tensor.operator for tensor in graph.outputs if tensor.operator is not None]
    needed: set[int] = set()
    while waiting:
        place = waiting.pop()
        if place not in needed:
            needed.add(place)
            waiting.extend(tensor.operator for tensor in graph.operators[place].inputs if tensor.operator is not None)
    return needed


def merged_equals(graph: SourceGraph) -> tuple[SourceGraph, dict[int, tuple[int, ...]]]:
    """The same operators, each of which reads the first of all that are equal, so that nothing needs the others.

    Returns:
        The graph, whose operators keep their places, and for each first one the places of the needed ones that are equal to it.
    """
    needed, firsts, kept = needed_operators(graph), dict[str, int](), dict[int, int]()
    equals: dict[int, tuple[int, ...]] = {}
    operators: list[Operator] = []
    for place, before in enumerate(graph.operators):
        operator = replace(before, inputs=tuple(_redirected(tensor, kept) for tensor in before.inputs))
        operators.append(operator)
        if place not in needed or any(tensor.operator is None and not tensor.parameter for tensor in operator.inputs):
            continue  # of a constant the text's value is not kept: two may differ
        first = firsts.setdefault(_key(operator), place)
        if first != place:
            kept[place] = first
            equals[first] = (*equals.get(first, ()), place)
    outputs = [_redirected(tensor, kept) for tensor in graph.outputs]
    return replace(graph, operators=operators, outputs=outputs), equals


def _redirected(tensor: Tensor, kept: dict[int, int]) -> Tensor:
    return tensor if tensor.operator is None or tensor.operator not in kept else replace(tensor, operator=kept[tensor.operator])


def _key(operator: Operator) -> str:
    """What makes two operators equal."""
    read = [(tensor.operator, tensor.output, tensor.parameter) for tensor in operator.inputs]
    return repr((operator.name, sorted((name, str(value)) for name, value in operator.attributes.items()), operator.shape, read))
