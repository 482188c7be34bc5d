"""Compiles a lowered module, and refuses results that would not run where they should."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import tvm
import tvm_ffi
from tvm import relax
from tvm.s_tir import dlight

from workbench.errors import EnvironmentFault
from workbench.escaping import plain

_REUSED_BUFFER = "tvm_access_ptr"

Compiled = TypeVar("Compiled")

_GPU_DEFAULTS = (
    dlight.gpu.Matmul,
    dlight.gpu.GEMV,
    dlight.gpu.Reduction,
    dlight.gpu.GeneralReduction,
    dlight.gpu.Fallback,
)


@dataclass(frozen=True)
class Built:
    """An executable, and the device it is for.

    Attributes:
        executable: What a Relax VM runs.
        module: What was compiled: the kernels with the schedules that they have in the executable.
        device: Where it runs.
        floats_only: True if no kernel reads or writes anything but floating point: then none can fault on values that it does not expect.
    """

    executable: Any
    module: tvm.IRModule
    device: tvm.runtime.Device
    floats_only: bool


def compiled(compile_it: Callable[[], Compiled], target: tvm.target.Target, *, trusted_caller: bool = False) -> Compiled:
    """What compilation gives, in the one way that whole models and single candidates share.

    On a GPU, TVM's storage rewriting may reuse a buffer of another type, and then refuses to take its address (tensor cores with 16-bit inputs and
    32-bit sums). Static shared memory is merged then instead, which in turn other kernels cannot bear.

    Args:
        compile_it: Compiles; called a second time if need be.
        target: What is compiled for.
        trusted_caller: True leaves out the checks of a kernel's arguments, which take a sixth of the time of a small kernel's compilation.
    """
    config = {"tirx.disable_assert": True} if trusted_caller else {}
    try:
        with tvm.transform.PassContext(config=config):
            return compile_it()
    except Exception as error:
        if target.kind.name != "cuda" or _REUSED_BUFFER not in str(error):
            raise
    with tvm.transform.PassContext(config={**config, "tirx.merge_static_smem": True}):
        return compile_it()


def with_default_schedules(module: tvm.IRModule, target: tvm.target.Target) -> tvm.IRModule:
    """Give every kernel without a schedule dlight's default one where the target is a GPU.

    On a GPU a kernel without thread bindings would be compiled, without a word, for the host. On a CPU an unscheduled kernel is what
    stock TVM runs: it stays as it is.
    """
    if target.kind.name != "cuda":
        return module
    own = tvm.IRModule(dict(module.functions.items()), attrs=module.attrs)  # the pass writes into the module that it is given
    with target:
        return dlight.ApplyDefaultSchedule(*(rule() for rule in _GPU_DEFAULTS))(own)


def unbound_kernels(module: tvm.IRModule) -> list[str]:
    """Names of the kernels without thread bindings, which a GPU target would compile for the host."""
    return [name.name_hint for name, function in module.functions.items() if isinstance(function, tvm.tirx.PrimFunc) and not _is_bound(function)]


def _is_bound(function: tvm.tirx.PrimFunc) -> bool:
    found: list[bool] = []
    loop = (tvm.tirx.For, lambda statement: found.append(statement.thread_binding is not None))
    launch = (tvm.tirx.AttrStmt, lambda statement: found.append(str(statement.attr_key) == "thread_extent"))
    tvm_ffi.structural_walk(function.body, (loop, launch))
    return any(found)


def build(module: tvm.IRModule, target: tvm.target.Target) -> Built:
    """Compile a lowered module with default schedules where it has none.

    Raises:
        EnvironmentFault: Code generation fails, or a CUDA target yields no CUDA code.
    """
    scheduled = with_default_schedules(module, target)
    unbound = unbound_kernels(scheduled) if target.kind.name == "cuda" else []
    if unbound:
        names = ", ".join(map(plain, unbound[:5]))
        raise EnvironmentFault(f"TVM has no GPU schedule for {len(unbound)} kernels of the model: {names}.", "Profile it on the CPU.")
    try:
        executable = compiled(lambda: relax.build(scheduled, target), target)
    except Exception as error:  # code generation raises any class of error
        raise EnvironmentFault(
            f"TVM cannot compile the model: {plain(str(error).strip(), 400)}", "See workbench doctor; -v shows TVM's own text."
        ) from error
    if target.kind.name == "cuda" and not has_import(executable.mod, "cuda"):
        raise EnvironmentFault("The compiled module holds no CUDA code.", "Check the target's arch with workbench doctor.")
    device = tvm.device(target.kind.name if target.kind.name != "llvm" else "cpu", 0)
    return Built(executable=executable, module=scheduled, device=device, floats_only=_floats_only(module))


def _floats_only(module: tvm.IRModule) -> bool:
    kernels = [function for function in module.functions.values() if isinstance(function, tvm.tirx.PrimFunc)]
    tensors = [parameter.ty for kernel in kernels for parameter in kernel.params if isinstance(parameter.ty, tvm.tirx.BufferType)]
    return all("float" in str(tensor.dtype) for tensor in tensors)


def has_import(module: Any, kind: str) -> bool:
    """True if a built module holds code of a kind; for a kernel that no thread is bound in, TVM makes host code alone and says nothing."""
    return any(item.kind == kind or has_import(item, kind) for item in module.imports)
