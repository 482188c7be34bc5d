"""The same program with kernels that do nothing: what is left of its time is the VM's own.

The instrument cannot say what the VM's builtins cost: they take less time than it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tvm
from tvm import relax

from workbench.engines.relax.rewriting import Binding, Scope, bindings_of, operator_name, rewrite_main


def hollow(module: tvm.IRModule) -> tvm.IRModule:
    """The lowered module with every kernel call going to a kernel without a body: the same calls, allocations and views, without the work."""
    calls = [binding.value for binding in bindings_of(module["main"]) if operator_name(binding.value) == "relax.call_tir"]
    builder = relax.BlockBuilder()
    kernels = {count: builder.add_func(kernel_without_body(count), f"nothing_{count}") for count in sorted(set(map(_argument_count, calls)))}
    emptied = builder.get()
    emptied.update_func(module.get_global_var("main"), module["main"])

    def redirect(binding: Binding, scope: Scope) -> Any:
        del scope
        call = binding.value
        if operator_name(call) != "relax.call_tir":
            return call
        return relax.Call(call.op, [kernels[_argument_count(call)], *call.args[1:]], call.attrs, call.ty_args)

    return rewrite_main(emptied, redirect)


def hollow_machine(module: tvm.IRModule, arguments: Sequence[Any]) -> relax.VirtualMachine:
    """A VM on this CPU that holds the hollow program with its inputs set, so that ``invoke_stateful("main")`` runs it.

    Args:
        module: Lowered module.
        arguments: Arguments of its ``main``, in this machine's memory.
    """
    machine = relax.VirtualMachine(relax.build(hollow(module), tvm.target.Target({"kind": "llvm"})), tvm.cpu())
    machine.set_input("main", *arguments)
    return machine


def _argument_count(call: Any) -> int:
    """Number of tensors that a kernel call passes: inputs and outputs."""
    results = call.ty_args[0]
    return len(call.args[1].fields) + (len(results.fields) if isinstance(results, relax.TupleType) else 1)


def kernel_without_body(arguments: int) -> tvm.tirx.PrimFunc:
    """A kernel that takes so many tensors and does nothing with them; it does not even check their shapes."""
    handles = [tvm.tirx.Var(f"tensor_{index}", "handle") for index in range(arguments)]
    return tvm.tirx.PrimFunc(handles, tvm.tirx.Evaluate(0))
