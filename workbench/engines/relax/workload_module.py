"""A kernel as the module that schedules are made of, and what tells two scheduled modules apart; light, for processes that have to start quickly."""

from __future__ import annotations

import tvm
import tvm_ffi

_LAYOUT_ATTRIBUTE = "layout_free_buffers"  # would let a schedule change the layout of the kernel's arguments


def as_main(function: tvm.tirx.PrimFunc) -> tvm.IRModule:
    """A kernel as the module that MetaSchedule calls its workload."""
    function = function.with_attr({"global_symbol": "main", "tirx.noalias": True})
    if function.attrs is not None and _LAYOUT_ATTRIBUTE in function.attrs:
        function = function.without_attr(_LAYOUT_ATTRIBUTE)
    return tvm.IRModule({"main": function})


def fingerprint(module: tvm.IRModule) -> str:
    """Structural hash of a module, in 16 hexadecimal digits."""
    return f"{tvm_ffi.structural_hash(module) & (2**64 - 1):016x}"
