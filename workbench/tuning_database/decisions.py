"""A trace's sampling decisions as short texts for people."""

from __future__ import annotations

from typing import Any

from workbench.escaping import plain
from workbench.tuning_database.checks import is_integer

_TEXT_LIMIT = 60
_MOST_DECISIONS = 200
_MOST_FACTORS = 16
_NAMES = {"unroll_explicit": "unroll", "unroll_implicit": "unroll"}
_PLACES = {-1: "root", -2: "inline"}


def decisions(trace: Any) -> tuple[str, ...]:
    """The sampling decisions of a trace in the order of its instructions: ``tile 1 4 7 2``, ``unroll 64``, ``compute at 3``.

    Args:
        trace: The JSON value ``[instructions, decisions]``, as anybody may have written it; what cannot be read is left out.
    """
    if not isinstance(trace, list | tuple) or len(trace) != 2 or not all(isinstance(part, list | tuple) for part in trace):
        return ()
    instructions, decided = trace
    values = {item[0]: item[1] for item in decided if isinstance(item, list | tuple) and len(item) == 2 and is_integer(item[0])}
    uses: dict[str, str] | None = None
    texts: list[str] = []
    for number in sorted(values):
        if not 0 <= number < len(instructions) or len(texts) == _MOST_DECISIONS:
            continue
        instruction = instructions[number]
        if not isinstance(instruction, list | tuple) or len(instruction) != 4 or not isinstance(instruction[0], str):
            continue
        if uses is None:
            uses = _uses(instructions)
        texts.append(plain(_text(instruction, values[number], uses), _TEXT_LIMIT))
    return tuple(text for text in texts if text)


def _text(instruction: Any, decision: Any, uses: dict[str, str]) -> str:
    """One decision, or nothing if it cannot be read."""
    kind, _, attributes, outputs = instruction
    if kind in {"SamplePerfectTile", "SamplePartitionedTile"}:
        if not isinstance(decision, list | tuple) or not decision:
            return ""
        return " ".join(["tile", *(_short(factor) for factor in decision[:_MOST_FACTORS])])
    if kind == "SampleCategorical":
        candidates = attributes[0] if isinstance(attributes, list | tuple) and attributes else None
        if not isinstance(candidates, list | tuple) or not is_integer(decision) or not 0 <= decision < len(candidates):
            return ""
        output = outputs[0] if isinstance(outputs, list | tuple) and outputs else None
        use = uses.get(output, "categorical") if isinstance(output, str) else "categorical"
        return f"{use} {_short(candidates[decision])}"
    if kind == "SampleComputeLocation":
        return f"compute at {_PLACES.get(decision) or _short(decision)}" if is_integer(decision) else ""
    return f"{kind[:_TEXT_LIMIT]} {_short(decision)}"


def _uses(instructions: Any) -> dict[str, str]:
    """What the variables of a trace are used for, as the annotations say that take them: ``v26`` is for ``unroll``."""
    uses: dict[str, str] = {}
    for item in instructions:
        if not isinstance(item, list | tuple) or len(item) != 4 or item[0] != "Annotate":
            continue
        _, inputs, attributes, _ = item
        if not isinstance(inputs, list | tuple) or not isinstance(attributes, list | tuple) or len(inputs) != 2 or len(attributes) != 1:
            continue
        (annotation,) = attributes
        if isinstance(inputs[1], str) and isinstance(annotation, str):
            name = annotation[:_TEXT_LIMIT].removeprefix("meta_schedule.")
            uses.setdefault(inputs[1], _NAMES.get(name, name.replace("_", " ")))
    return uses


def _short(value: Any) -> str:
    """A value on the way to a short text, itself bounded: a list of strangers may be huge, and a number too long to be printed."""
    if isinstance(value, str):
        return value[:_TEXT_LIMIT]
    if is_integer(value):
        return str(value) if abs(value) < 10**18 else "…"
    if value is None or isinstance(value, bool | float):
        return str(value)
    if isinstance(value, list | tuple):
        return " ".join("…" if isinstance(item, list | tuple | dict) else _short(item) for item in value[:_MOST_FACTORS])
    return "…"
