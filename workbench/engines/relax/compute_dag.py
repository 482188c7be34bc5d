"""What a kernel computes, without its loops: a line an input and a line a computed tensor, as the auto-scheduler printed its ComputeDAG."""

from __future__ import annotations

import re
from typing import Any

import tvm
import tvm_ffi

_REDUCTION = 2  # tvm.tirx.IterVar.CommReduce
_DECLARATION = re.compile(r"\w+ = T\.(?:Buffer|handle|bool|u?int\d+|b?float\w*)\(.*\)")
_LITERAL = re.compile(r"T\.(?:bool|u?int\d+|b?float\w+)\(([-+.\w]+)\)")
_ANNOTATION = re.compile(r"^(\w+): T\.let\[[^=]*\](?= = )")
_LANGUAGE = re.compile(r"\bT\.(?=\w+\()")
_OF_A_BLOCK = "v_"  # what TVM puts before the names of a block's axes
_COMBINERS = {"Add": "+=", "Mul": "*=", "Max": "max=", "Min": "min="}


def compute_dag(function: tvm.tirx.PrimFunc) -> str:
    """The listing of a kernel without a schedule: placeholders, then the computed tensors in order, each with the extents of its axes."""
    blocks: list[Any] = []
    tvm_ffi.structural_walk(function.body, ((tvm.s_tir.SBlock, blocks.append),))
    blocks = [block for block in blocks if str(block.name_hint) != "root"]
    written = [region.source for block in blocks for region in block.writes]
    inputs = [parameter for parameter in function.params if not any(parameter.same_as(tensor) for tensor in written)]
    return "\n".join([*map(_placeholder, inputs), *(line for block in blocks for line in _computed(block))])


def _placeholder(parameter: Any) -> str:
    if not isinstance(parameter.ty, tvm.tirx.BufferType):
        return f"{parameter.name} = PARAMETER {parameter.ty}"
    return f"{parameter.name} = PLACEHOLDER [{', '.join(map(str, parameter.ty.shape))}] {parameter.ty.dtype}"


def _computed(block: Any) -> list[str]:
    """What one block computes: a line for the usual single tensor, several for reductions of several tensors."""
    text = _reduced(block) if isinstance(block.body, tvm.tirx.BufferStore) else ""
    lines = [text] if text else [line for line in str(block.body).splitlines() if not _DECLARATION.fullmatch(line)]
    lines = [_readable(line, block) for line in lines]
    return [f"{lines[0]}  # {_axes(block)}", *lines[1:]] if lines and block.iter_vars else lines


def _reduced(block: Any) -> str:
    """``C[i, j] += A[i, k] * B[k, j]`` for a reduction; empty for everything else."""
    value = block.body.value
    sign = _COMBINERS.get(type(value).__name__)
    if block.init is None or sign is None:
        return ""
    target = f"{block.body.buffer.name}[{', '.join(map(str, block.body.indices))}]"
    return f"{target} {sign} {value.b}" if str(value.a) == target else ""


def _axes(block: Any) -> str:
    shown: dict[bool, list[str]] = {False: [], True: []}
    for axis in block.iter_vars:
        shown[axis.iter_type == _REDUCTION].append(_readable(f"{axis.var.name} < {axis.dom.extent}", block))
    return " over ".join(filter(None, (", ".join(shown[False]), ", ".join(shown[True]))))


def _readable(line: str, block: Any) -> str:
    """A line of TVMScript with short names of axes, and without what only a parser needs."""
    words = set(re.findall(r"\w+", line))
    for axis in block.iter_vars:
        name = str(axis.var.name)
        short = name.removeprefix(_OF_A_BLOCK)
        if short != name and short.isidentifier() and short not in words:
            line = re.sub(rf"\b{re.escape(name)}\b", short, line)
    return _LANGUAGE.sub("", _LITERAL.sub(r"\1", _ANNOTATION.sub(r"\1", line)))
