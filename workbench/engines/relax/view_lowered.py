"""TIR as it goes to code generation, and how its kernels are launched."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import tvm
import tvm_ffi
from tvm.tirx.build import split_host_device_mods

from workbench.engines.relax.build import compiled
from workbench.records.dtype_size import dtype_bits

_AXES = ("x", "y", "z")
_POINTER = re.compile(r'handle\("(\w+)"')
_POINTER_SUFFIX = "_ptr"  # what TVM adds to the name of a tensor for its data


@dataclass(frozen=True)
class LoweredKernel:
    """Host code and device code of a kernel just before code generation.

    Attributes:
        host: What runs on the host; for a CPU target the kernel itself.
        device: What runs on the device; None for a CPU target.
    """

    host: tvm.IRModule
    device: tvm.IRModule | None

    def script(self) -> str:
        """Both as TVMScript, the device code first."""
        return "\n\n".join(str(module.script()) for module in (self.device, self.host) if module is not None)


@dataclass(frozen=True)
class Argument:
    """One argument of a device kernel.

    Attributes:
        name: Its name in the source.
        type: What it is: ``float32*``, ``int32``.
        tensor: Shape and dtype of the tensor of the same name; empty if there is none.
        writes: True if the kernel writes it.
    """

    name: str
    type: str
    tensor: str
    writes: bool


@dataclass(frozen=True)
class Launch:
    """How a device kernel is launched.

    Attributes:
        kernel: Its name.
        grid: Blocks by x, y, z; None where it depends on a dynamic shape.
        block: Threads of a block by x, y, z.
        dynamic_shared_bytes: Dynamic shared memory to ask for.
        arguments: In order.
    """

    kernel: str
    grid: tuple[int | None, ...]
    block: tuple[int | None, ...]
    dynamic_shared_bytes: int
    arguments: tuple[Argument, ...]

    @property
    def threads_per_block(self) -> int | None:
        """Threads of a block; None if they are not known."""
        return _product(self.block)

    @property
    def blocks(self) -> int | None:
        """Blocks of the grid; None if they are not known."""
        return _product(self.grid)


def lowered(module: tvm.IRModule, target: tvm.target.Target) -> LoweredKernel:
    """What ``tvm.compile`` hands to the code generators: the same passes in the same order.

    Raises:
        Exception: Whatever a pass raises.
    """
    is_cpu = target.kind.name == "llvm"
    host = target if is_cpu else target.host or tvm.target.Target("llvm")

    def lower_it() -> tuple[tvm.IRModule, Mapping[Any, tvm.IRModule]]:
        bound = tvm.tirx.transform.BindTarget(target.with_host(host))(module)
        pipeline, finalize_host, finalize_device = tvm.tirx.get_default_tir_pipeline(target)
        on_host, on_devices = split_host_device_mods(pipeline(bound))
        return finalize_host()(on_host), {kind: finalize_device()(device) for kind, device in on_devices.items()}

    on_host, on_devices = compiled(lower_it, target)
    devices = [device for device in on_devices.values() if device.functions]
    return LoweredKernel(on_host, devices[0] if devices else None)


def launches(kernel: LoweredKernel, function: tvm.tirx.PrimFunc) -> tuple[Launch, ...]:
    """How the device kernels are launched, in the order of their names.

    Args:
        kernel: Lowered for a GPU.
        function: The kernel before lowering, whose tensors the arguments are.
    """
    if kernel.device is None:
        return ()
    tensors = {str(parameter.name): parameter.ty for parameter in function.params if isinstance(parameter.ty, tvm.tirx.BufferType)}
    found = {name.name_hint: item for name, item in kernel.device.functions.items() if isinstance(item, tvm.tirx.PrimFunc)}
    return tuple(_launch(name, item, tensors) for name, item in sorted(found.items()))


def _launch(name: str, function: tvm.tirx.PrimFunc, tensors: Mapping[str, Any]) -> Launch:
    extents: dict[str, int | None] = {}
    shared: list[int] = []

    def attribute(statement: Any) -> None:
        if str(statement.attr_key) == "thread_extent":
            extents[str(statement.node.thread_tag)] = _integer(statement.value)

    def allocation(statement: Any) -> None:
        kind = statement.buffer.ty
        if str(kind.storage_scope) == "shared.dyn":
            count = _product(tuple(_integer(size) for size in kind.shape))
            shared.append((count or 0) * (dtype_bits(str(kind.dtype)) or 8) // 8)

    tvm_ffi.structural_walk(function.body, ((tvm.tirx.AttrStmt, attribute), (tvm.tirx.AllocBuffer, allocation)))
    written = _written(function)
    arguments = tuple(_argument(parameter, tensors, written) for parameter in function.params)
    grid = tuple(extents.get(f"blockIdx.{axis}", 1) for axis in _AXES)
    block = tuple(extents.get(f"threadIdx.{axis}", 1) for axis in _AXES)
    return Launch(name, grid, block, sum(shared), arguments)


def _argument(parameter: Any, tensors: Mapping[str, Any], written: set[str]) -> Argument:
    name = str(parameter.name)
    kind = tensors.get(name) or tensors.get(name.removesuffix(_POINTER_SUFFIX))
    tensor = "" if kind is None else f"({', '.join(map(str, kind.shape))}) {kind.dtype}"
    pointer = _POINTER.search(str(parameter.ty))
    text = f"{pointer[1]}*" if pointer else str(getattr(parameter.ty, "dtype", parameter.ty))
    return Argument(name, text, tensor, bool(written & {name, name.removesuffix(_POINTER_SUFFIX)}))


def _written(function: tvm.tirx.PrimFunc) -> set[str]:
    """Names of the buffers that a kernel writes."""
    found: set[str] = set()
    tvm_ffi.structural_walk(function.body, ((tvm.tirx.BufferStore, lambda store: found.add(str(store.buffer.name))),))
    return found


def _integer(value: Any) -> int | None:
    return int(value) if isinstance(value, int | tvm.tirx.IntImm) else None


def _product(sizes: tuple[int | None, ...]) -> int | None:
    result = 1
    for size in sizes:
        if size is None:
            return None
        result *= size
    return result
