"""What the operators of the source model are called there, from the spans that the importers of TVM give to their calls."""

from __future__ import annotations

from typing import Any, Sequence

from .held import Operator

_OUTPUT_MARK = "@@"
"""Some builds of TVM write an output's name and this in front of the node's."""


def plain_operators(calls: Sequence[Any]) -> list[Operator]:
    """One operator a call, numbered as Relay's printer does."""
    return [Operator(op_name(call), f"%{number}", "", [number]) for number, call in enumerate(calls)]


def text_operators(calls: Sequence[Any], names: Sequence[Sequence[str]]) -> list[Operator]:
    """One operator a call, with the name that the text binds it to, and its line.

    Args:
        calls: The calls.
        names: For each call its operator, its variable and its line, as the worker read them in the text. If these are other calls, they are
            named as Relay's printer does.
    """
    operators = plain_operators(calls)
    if [operator.op for operator in operators] != [name[0] for name in names]:
        return operators
    return [Operator(op, f"%{variable}" if variable else "result", f"line {line}", [number]) for number, (op, variable, line) in enumerate(names)]


def onnx_operators(calls: Sequence[Any], nodes: Sequence[tuple[str, str]]) -> list[Operator]:
    """One operator an ONNX node, with all calls that it became; a call of which the importer does not say so is the next node's that is known."""
    operators = {name: Operator(op, name, "") for op, name in nodes}
    owners: list[str | None] = [_owner(call, operators) for call in calls]
    following: str | None = None
    for number in range(len(calls) - 1, -1, -1):
        following = owners[number] or following
        if following is None:
            following = next((owner for owner in reversed(owners) if owner), None)
        if following is not None:
            operators[following].calls.insert(0, number)
        else:
            name = f"%{number}"
            operators[name] = Operator(op_name(calls[number]), name, "", [number])
    return list(operators.values())


def op_name(call: Any) -> str:
    """Name of the operator that a call calls."""
    return str(getattr(call.op, "name", "fn"))


def _owner(call: Any, names: Any) -> str | None:
    """The node that the span of a call names, alone or in front of a part of it."""
    name = str(call.span.source_name.name).rpartition(_OUTPUT_MARK)[2] if call.span is not None else ""
    while name and name not in names:
        name = name.rpartition(".")[0]
    return name or None
