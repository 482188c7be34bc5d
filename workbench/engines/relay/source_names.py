"""What a Relay text calls the values of its calls, in the order in which the old TVM walks them."""

from __future__ import annotations

from workbench.errors import ModelError
from workbench.legacy.relay import parse_relay
from workbench.matching.source import Operator, source_graph


def names_in_text(text: str) -> list[tuple[str, str, int]]:
    """For each call its operator, the variable that it is bound to, or nothing, and its line; empty if the text cannot be read here.

    The old TVM reads the text itself, and gives the calls in the order of a walk from the result; its own places in the text are those of the
    last use of a value.
    """
    try:
        graph = source_graph(parse_relay(text))
    except ModelError:
        return []
    order: list[int] = []
    done: set[int] = set()
    stack = [(tensor.operator, False) for tensor in reversed(graph.outputs) if tensor.operator is not None]
    while stack:
        place, complete = stack.pop()
        if place in done:
            continue
        if complete:
            done.add(place)
            order.append(place)
            continue
        stack.append((place, True))
        stack.extend((tensor.operator, False) for tensor in reversed(graph.operators[place].inputs) if tensor.operator is not None)
    return [_named(graph.operators[place]) for place in order]


def _named(operator: Operator) -> tuple[str, str, int]:
    return operator.name, operator.variable, operator.line
