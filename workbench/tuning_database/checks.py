"""Whether a JSON value is a workload or a record of MetaSchedule's format, as far as that can be known without TVM."""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
from collections.abc import Sequence
from typing import Any

from workbench.tuning_database.content import TuningRecord, Workload
from workbench.tuning_database.json_text import FormatError, canonical, without_truth_values

_LONGEST_HASH = 100
_LENGTH_BYTES = 8
_INSTRUCTION = re.compile(r"[A-Za-z_]\w{0,99}")
_DTYPE = re.compile(r"(?:bool|handle|void|u?int\d{1,3}|b?float\d{1,3}(?:_\w{1,20})?)(?:x\d{1,5})?")

_RENAMED = {"GetBlock": "GetSBlock"}
"""Instructions that TVM up to 0.24 called otherwise; all else in its traces reads the same."""

Slot = Workload | str
"""A line of the workload file: the workload, or what is wrong with the line."""


def check_workload(value: Any) -> Workload:
    """The workload in a line; raises FormatError."""
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(item, str) for item in value):
        raise FormatError("it is not [hash, module], two texts")
    structural_hash, module = value
    if len(structural_hash) > _LONGEST_HASH:
        raise FormatError("its hash is too long")
    canonical(structural_hash)
    _check_module(module)
    return Workload(structural_hash, module)


def check_record(value: Any, slots: Sequence[Slot], line: int) -> TuningRecord:
    """The record in a line; raises FormatError.

    Args:
        value: The line's JSON value.
        slots: The lines of the workload file.
        line: Number of the line, from 1.
    """
    if not isinstance(value, list) or len(value) != 2 or not isinstance(value[1], list) or len(value[1]) != 4:
        raise FormatError("it is not [workload, [trace, run_secs, target, args_info]]")
    index, (trace, run_secs, target, args_info) = value
    workload = _workload(index, slots)
    _check_trace(trace)
    seconds = _seconds(run_secs)
    if target is not None and not (isinstance(target, dict) and isinstance(target.get("kind"), str)):
        raise FormatError("its target is neither null nor an object with a kind")
    _check_args_info(args_info)
    return TuningRecord(
        workload=workload,
        trace_json=canonical(_with_present_names(without_truth_values(trace))),
        run_secs=seconds,
        target_json=sys.intern(canonical(target, sort_keys=True)),
        args_info_json=sys.intern(canonical(args_info)),
        line=line,
    )


def is_integer(value: Any) -> bool:
    """Whether it is a whole number and no truth value, which is one for Python."""
    return isinstance(value, int) and not isinstance(value, bool)


def _check_module(module: str) -> None:
    """A module is Base64 of its length in 8 bytes and of the JSON text of a graph of nodes."""
    try:
        raw = base64.b64decode(module, validate=True)
    except (ValueError, binascii.Error) as error:
        raise FormatError("its module is not Base64: cut off or edited") from error
    if len(raw) < _LENGTH_BYTES or int.from_bytes(raw[:_LENGTH_BYTES], "little") != len(raw) - _LENGTH_BYTES:
        raise FormatError("its module has another length than it says: cut off or edited")
    try:
        graph = json.loads(raw[_LENGTH_BYTES:])
    except (ValueError, RecursionError) as error:
        raise FormatError("its module is not valid JSON") from error
    if not isinstance(graph, dict) or not isinstance(graph.get("nodes"), list):
        raise FormatError("its module is no graph of nodes")


def _workload(index: Any, slots: Sequence[Slot]) -> Workload:
    if not is_integer(index):
        raise FormatError("its workload is not a whole number")
    if not 0 <= index < len(slots):
        raise FormatError(f"its workload is {index}, and the workload file has {len(slots)} lines, counted from 0")
    slot: Slot = slots[index]
    if isinstance(slot, str):
        raise FormatError(f"its workload, line {index + 1} of the workload file, cannot be used: {slot}")
    return slot


def _check_trace(trace: Any) -> None:
    if not isinstance(trace, list) or len(trace) != 2 or not all(isinstance(part, list) for part in trace):
        raise FormatError("its trace is not [instructions, decisions]")
    instructions, decisions = trace
    for number, item in enumerate(instructions):
        _check_instruction(item, f"instruction {number} of its trace")
    for item in decisions:
        if not isinstance(item, list) or len(item) != 2 or not is_integer(item[0]):
            raise FormatError("a decision of its trace is not [instruction, value]")
        if not 0 <= item[0] < len(instructions):
            raise FormatError(f"its trace has a decision for instruction {item[0]}, and {len(instructions)} instructions, counted from 0")
        _check_decision(instructions[item[0]], item[1])


def _with_present_names(trace: Any) -> Any:
    """A trace of any version as today's TVM writes it."""
    instructions, decisions = trace
    return [[[_RENAMED.get(kind, kind), *rest] for kind, *rest in instructions], decisions]


def _check_instruction(item: Any, where: str) -> None:
    if not isinstance(item, list) or len(item) != 4:
        raise FormatError(f"{where} is not [kind, inputs, attributes, outputs]")
    kind, inputs, attributes, outputs = item
    if not isinstance(kind, str) or not _INSTRUCTION.fullmatch(kind):
        raise FormatError(f"{where} has a kind that is no name")
    if not all(isinstance(part, list) for part in (inputs, attributes, outputs)) or not all(isinstance(name, str) for name in outputs):
        raise FormatError(f"{where} has inputs, attributes or outputs of a wrong type")


def _check_decision(instruction: list[Any], decision: Any) -> None:
    kind, _, attributes, _ = instruction
    if not kind.startswith("Sample"):
        raise FormatError(f"its trace has a decision for {kind}, which decides nothing")
    if kind == "SampleCategorical":
        candidates = attributes[0] if attributes else None
        if not isinstance(candidates, list) or not is_integer(decision) or not 0 <= decision < len(candidates):
            raise FormatError("its trace chooses a candidate that does not exist")


def _seconds(values: Any) -> tuple[float, ...] | None:
    if values is None:
        return None
    if not isinstance(values, list):
        raise FormatError("its times are neither null nor a list")
    if not all(is_integer(value) or isinstance(value, float) for value in values):
        raise FormatError("one of its times is not a number")
    return tuple(float(value) for value in values)


def _check_args_info(args_info: Any) -> None:
    if args_info is None:
        return
    if not isinstance(args_info, list) or not all(_is_tensor(item) for item in args_info):
        raise FormatError("its arguments are not a list of tensors")


def _is_tensor(item: Any) -> bool:
    if not isinstance(item, list) or len(item) != 3 or item[0] != "TENSOR":
        return False
    _, dtype, shape = item
    return isinstance(dtype, str) and bool(_DTYPE.fullmatch(dtype)) and isinstance(shape, list) and all(is_integer(size) for size in shape)
