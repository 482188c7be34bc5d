"""A CPU form of kernels that were scheduled for a GPU, to check their arithmetic and indexing where there is none.

It says nothing about synchronisation: all threads take a statement before any takes the next, as if there were a barrier between all of them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import tvm
import tvm_ffi
from tvm.tirx.buffer import BufferType

_BARRED_OPERATORS = re.compile(
    r"ptx|mma|matrix|fragment|warp|thread_allreduce|storage_sync|cuda|nvshmem|barrier|cp_async|call_extern|call_pure_extern|access_ptr|address_of"
)
_SERIAL, _VECTORIZED = tvm.tirx.ForKind.SERIAL, tvm.tirx.ForKind.VECTORIZED


class NotCheckable(Exception):  # noqa: N818 - no fault of anybody: the schedule has no CPU form
    """A schedule has no CPU form.

    Args:
        reason: What stands in the way, as the rest of a sentence about the kernel.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def runnable_on_cpu(module: tvm.IRModule) -> tvm.IRModule:
    """The module with its GPU schedules in a form that a CPU can run, to be built for ``llvm``.

    Thread loops become serial loops and all storage becomes global memory. The schedules must be in block form, as schedule primitives leave
    them: every buffer is addressed by coordinates of the whole tensor there, also one that only a thread or a block of threads sees.

    Raises:
        NotCheckable: A kernel computes with what only a GPU has, such as tensor cores.
    """
    kernels = {name: function for name, function in module.functions.items() if isinstance(function, tvm.tirx.PrimFunc)}
    for function in kernels.values():
        _refuse(function)
    changed = {name: _serial(function) for name, function in kernels.items()}
    return tvm.IRModule({**dict(module.functions.items()), **changed}, attrs=module.attrs)


def _refuse(function: tvm.tirx.PrimFunc) -> None:
    """Raise NotCheckable if the body does what a CPU cannot."""
    reasons: list[str] = []

    def call(expression: Any) -> None:
        operator = expression.op.name if isinstance(expression.op, tvm.ir.Op) else ""
        if _BARRED_OPERATORS.search(operator):
            reasons.append(f"it uses {operator.rpartition('.')[2]}, which a CPU does not have")

    def attribute(statement: Any) -> None:
        if str(statement.attr_key) in {"thread_extent", "virtual_thread"}:
            reasons.append("it launches its threads outside of loops")

    tvm_ffi.structural_walk(function.body, ((tvm.ir.Call, call), (tvm.tirx.AttrStmt, attribute)))
    if reasons:
        raise NotCheckable(reasons[0])


def _serial(function: tvm.tirx.PrimFunc) -> tvm.tirx.PrimFunc:
    function = function.with_body(_spread(function.body, ()))
    callbacks = ((BufferType, _in_global_memory), (tvm.tirx.For, _without_thread), (tvm.s_tir.SBlock, _without_annotations))
    serial = tvm_ffi.structural_map(function, callbacks)
    return serial.without_attr("target")


def _spread(statement: Any, threads: tuple[Any, ...]) -> Any:
    """Move loops over threads inwards, past the statements between which a GPU has its barriers.

    A nest that binds a thread axis again, as cooperative fetching does, runs once for all threads of that axis; as a nest inside of the outer loop it
    would be run once for each of them, with the same result but up to a thousand times the work.

    Args:
        statement: Where to.
        threads: The loops over threads around it, outermost first, that are to be put into it.
    """
    if not _binds_threads(statement):
        return _wrap(statement, threads)
    if isinstance(statement, tvm.tirx.SeqStmt):
        return tvm.tirx.SeqStmt([_spread(child, threads) for child in statement])
    if isinstance(statement, tvm.tirx.For):
        if _is_thread(statement):
            axis = _axis(statement)
            outer = tuple(loop for loop in threads if _axis(loop) != axis or _uses(statement, loop.loop_var))
            return _spread(statement.body, (*outer, statement))
        if not any(_uses(bound, loop.loop_var) for loop in threads for bound in (statement.min, statement.extent)):
            return _loop(statement, statement.loop_var, _spread(statement.body, threads))
    if isinstance(statement, tvm.s_tir.SBlockRealize) and not threads:
        block = _with_body(statement.block, _spread(statement.block.body, ()), statement.block.annotations)
        return tvm.s_tir.SBlockRealize(statement.iter_values, statement.predicate, block)
    return _wrap(statement, threads)


def _wrap(statement: Any, threads: tuple[Any, ...]) -> Any:
    """The statement inside of the loops, each with a variable of its own; a virtual thread that it does not use does not repeat it, as on a GPU."""
    for loop in reversed(threads):
        if _axis(loop).startswith("vthread") and not _uses(statement, loop.loop_var):
            continue
        variable = tvm.tirx.Var(loop.loop_var.name, loop.loop_var.ty)
        statement = _loop(loop, variable, tvm_ffi.structural_map(statement, (tvm.ir.Var, _replacement(loop.loop_var, variable))))
    return statement


def _replacement(old: Any, new: Any) -> Callable[[Any], Any]:
    return lambda variable: new if variable.same_as(old) else variable


def _uses(node: Any, variable: Any) -> bool:
    found: list[bool] = []
    tvm_ffi.structural_walk(node, (tvm.ir.Var, lambda other: found.append(True) if other.same_as(variable) else None))
    return bool(found)


def _binds_threads(statement: Any) -> bool:
    found: list[bool] = []
    tvm_ffi.structural_walk(statement, (tvm.tirx.For, lambda loop: found.append(True) if _is_thread(loop) else None))
    return bool(found)


def _is_thread(loop: Any) -> bool:
    """True for a loop over threads that run together; blocks of threads do not."""
    return _axis(loop).startswith(("threadIdx", "vthread"))


def _axis(loop: Any) -> str:
    return str(loop.thread_binding.thread_tag) if loop.thread_binding is not None else ""


def _loop(loop: Any, variable: Any, body: Any) -> Any:
    kind = _VECTORIZED if loop.kind == _VECTORIZED else _SERIAL  # unrolling is no part of the meaning, and costs minutes of compilation
    return tvm.tirx.For(variable, loop.min, loop.extent, kind, body, step=loop.step)


def _without_thread(loop: Any) -> Any:
    return _loop(loop, loop.loop_var, loop.body)


def _without_annotations(block: Any) -> Any:
    return _with_body(block, block.body, {})


def _with_body(block: Any, body: Any, annotations: Any) -> Any:
    return tvm.s_tir.SBlock(
        block.iter_vars, block.reads, block.writes, block.name_hint, body, block.init, block.alloc_buffers, block.match_buffers, annotations
    )


def _in_global_memory(kind: Any) -> Any:
    if kind.storage_scope in {"", "global"}:
        return kind
    return tvm.tirx.decl_buffer(
        kind.shape,
        kind.dtype,
        strides=kind.strides,
        elem_offset=kind.elem_offset,
        scope="global",
        data_alignment=kind.data_alignment,
        offset_factor=kind.offset_factor,
    ).ty
