"""What a search chose in a recorded trace, and which sketch the trace is of; reads strangers' JSON without TVM."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from workbench.tuning_database.checks import is_integer
from workbench.tuning_database.json_text import without_truth_values

_POSTPROC = "EnterPostproc"
_TILINGS = ("SamplePerfectTile", "SamplePartitionedTile")
_MOST_FACTORS = 16
_PLACES = {-1: "root", -2: "inline"}
_MOST_DIGITS_VALUE = 10**15

Value = str | int | float


@dataclass(frozen=True)
class Sampled:
    """The sampling decisions of one trace.

    Attributes:
        sketch: Digest of its instructions up to the postprocessing: equal for two schedules that differ in decisions alone.
        values: By place of the instruction: a tuple of factors for a tiling; one value for all else.
    """

    sketch: str
    values: dict[int, Value | tuple[int, ...]]


def sampled(trace: str) -> Sampled | None:
    """What a trace (JSON text, as anybody may have written it) decided; None if it is none."""
    try:
        instructions, decided = json.loads(trace)
        kinds = [str(instruction[0]) for instruction in instructions]
        end = kinds.index(_POSTPROC) if _POSTPROC in kinds else len(kinds)
        sketch = hashlib.sha256(json.dumps(without_truth_values(instructions[:end])).encode()).hexdigest()[:16]
        chosen = {place: value for place, value in decided if is_integer(place) and 0 <= place < end}
        values = {place: _value(instructions[place], value) for place, value in sorted(chosen.items())}
    except (ValueError, TypeError, KeyError, IndexError, RecursionError):
        return None
    return Sampled(sketch, {place: value for place, value in values.items() if value is not None})


def _value(instruction: Any, decision: Any) -> Value | tuple[int, ...] | None:
    """One decision; None if it cannot be read."""
    kind, _, attributes, _ = instruction
    if kind in _TILINGS:
        factors = tuple(factor for factor in decision[:_MOST_FACTORS] if is_integer(factor) and 0 < factor < _MOST_DIGITS_VALUE)
        return factors if len(factors) == len(decision) else None
    if not is_integer(decision):
        return None
    if kind == "SampleCategorical":
        candidate = attributes[0][decision] if decision >= 0 else None
        return candidate if isinstance(candidate, int | float) and abs(candidate) < _MOST_DIGITS_VALUE else None
    if kind == "SampleComputeLocation":
        return _PLACES.get(decision) or f"loop {min(decision, 10**6)}"
    return None
