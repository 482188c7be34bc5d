"""The kernels of a lowered module as records: structure, operators, shapes, arithmetic, search space, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm.s_tir.analysis import estimate_tir_flops

from workbench.engines.relax.lowering import Lowered
from workbench.engines.relax.space import prepare_intrinsics, space_size
from workbench.escaping import plain
from workbench.records.profile import Kernel, TensorShape

_REDUCTION = 2  # tvm.tirx.IterVar.CommReduce


def kernel_names(lowered: Lowered) -> list[str]:
    """Names of the kernels: called ones in order of their first call, then the others."""
    names = dict.fromkeys(call.kernel for call in lowered.calls)
    names.update(dict.fromkeys(variable.name_hint for variable, function in lowered.module.functions.items() if is_kernel(function)))
    return list(names)


def is_kernel(function: Any) -> bool:
    """True for a PrimFunc, False for a Relax function."""
    return isinstance(function, tvm.tirx.PrimFunc)


def structural_hash(function: tvm.tirx.PrimFunc) -> str:
    """Hash of the structure, in 16 hexadecimal digits; the kernel's name is no part of it."""
    return f"{tvm_ffi.structural_hash(function.without_attr('global_symbol')) & (2**64 - 1):016x}"


def describe_kernels(lowered: Lowered, target: tvm.target.Target, *, on_kernel: Callable[[int, int], None]) -> list[Kernel]:
    """Describe every kernel of a lowered module.

    Args:
        lowered: The module and its calls.
        target: Decides the search space.
        on_kernel: Told how many kernels are done, and of how many.
    """
    prepare_intrinsics(target)
    names = kernel_names(lowered)
    spaces: dict[str, tuple[int | None, str]] = {}
    kernels = []
    for index, name in enumerate(names):
        on_kernel(index, len(names))
        function = lowered.module[name]
        key = structural_hash(function)
        if key not in spaces:
            spaces[key] = _search_space(function, target)
        size, reason = spaces[key]
        parameters, results = tensors_of(function, lowered.result_counts.get(name, 1))
        kernels.append(
            Kernel(
                name=name,
                structural_hash=key,
                ops=lowered.ops.get(name, ()),
                parameters=parameters,
                results=results,
                flop=_flop(function),
                space_size=size,
                untunable=reason,
            )
        )
    return kernels


def _search_space(function: tvm.tirx.PrimFunc, target: tvm.target.Target) -> tuple[int | None, str]:
    """Size of the search space, or the reason why the kernel has none."""
    reason = untunable_reason(function)
    if reason:
        return None, reason
    try:
        return space_size(function, target), ""
    except Exception as error:  # noqa: BLE001 - a schedule rule may raise anything; the kernel is then shown as untunable, with the text
        lines = [line.strip() for line in str(error).splitlines() if line.strip()]
        return None, f"MetaSchedule cannot schedule it: {plain(lines[-1] if lines else type(error).__name__, 160)}"


def untunable_reason(function: tvm.tirx.PrimFunc) -> str:
    """Why MetaSchedule cannot schedule a kernel; empty if nothing speaks against it."""
    if any(not _is_static(buffer) for buffer in _buffers(function)):
        return "dynamic shape"
    if "tirx.is_scheduled" in (function.attrs or {}) and bool(function.attrs["tirx.is_scheduled"]):
        return "already scheduled"
    return ""


def _flop(function: tvm.tirx.PrimFunc) -> int | None:
    if any(not _is_static(buffer) for buffer in _buffers(function)):
        return None
    try:
        flop = int(estimate_tir_flops(tvm.IRModule({"main": function})))
    except tvm.error.InternalError:
        return None
    return flop if flop >= 0 else None  # what it cannot count, it counts as negative


def longest_reduction(function: tvm.tirx.PrimFunc) -> int:
    """Terms of the longest sum (or other reduction) that a kernel without a schedule computes; 1 if it has none."""
    found = [1]

    def visit(block: Any) -> None:
        extents = [int(axis.dom.extent) for axis in block.iter_vars if axis.iter_type == _REDUCTION and isinstance(axis.dom.extent, tvm.tirx.IntImm)]
        found.append(math.prod(extents))

    tvm_ffi.structural_walk(function.body, ((tvm.s_tir.SBlock, visit),))
    return max(found)


def _buffers(function: tvm.tirx.PrimFunc) -> list[Any]:
    return [parameter.ty for parameter in function.params if isinstance(parameter.ty, tvm.tirx.BufferType)]


def _is_static(buffer: Any) -> bool:
    return all(isinstance(size, tvm.tirx.IntImm) for size in buffer.shape)


def tensors_of(function: tvm.tirx.PrimFunc, result_count: int) -> tuple[tuple[TensorShape, ...], tuple[TensorShape, ...]]:
    """Inputs and outputs of a kernel; a dynamic size is -1."""
    tensors = [
        TensorShape(tuple(int(size) if isinstance(size, tvm.tirx.IntImm) else -1 for size in buffer.shape), str(buffer.dtype))
        for buffer in _buffers(function)
    ]
    return tuple(tensors[:-result_count]), tuple(tensors[-result_count:])
