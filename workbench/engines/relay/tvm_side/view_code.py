"""What becomes of a scheduled kernel on its way to the machine: TIR, lowered TIR, and what the code generator makes; needs no device."""

from __future__ import annotations

from typing import Any

import tvm

from .failing import INPUT, Refusal
from .replaying import Scheduled

_LOOK_ELSEWHERE = "Look at another trial; -v shows TVM's own text."
_PASSES = ("driver.mixed_mod_passes", "driver.device_mod_passes", "driver.host_mod_passes")


def tir_text(scheduled: Scheduled) -> str:
    """The scheduled kernel as ``tvm.lower(..., simple_mode=True)`` shows it."""
    return script(tvm.lower(scheduled.schedule, scheduled.tensors, name=scheduled.kernel.name, simple_mode=True))


def lowered_text(scheduled: Scheduled, target: Any) -> str:
    """TIR as it goes to code generation: device code first where there is any; before that split where this TVM cannot be asked for it."""
    passes = [tvm.get_global_func(name, allow_missing=True) for name in _PASSES]
    module = _module(scheduled)
    if None in passes:
        return script(module)
    mixed, on_device, on_host = passes
    host = target.host if target.host is not None else target
    split = mixed(module, target)(module)
    parts = [on_host(split, host)(split)]
    if target.kind.name != "llvm":
        parts.insert(0, on_device(split, target)(split))
    return "\n\n".join(script(part) for part in parts)


def cpu_code(scheduled: Scheduled, target: Any, kind: str) -> str:
    """What LLVM makes of a kernel: ``ll`` for its IR, ``asm`` for assembly."""
    return str(_built(scheduled, target).get_source(kind))


def device_source(scheduled: Scheduled, target: Any) -> str:
    """The source that the code generator of a GPU makes.

    Raises:
        Refusal: This TVM cannot make it.
    """
    kind = str(target.kind.name)
    with _Uncompiled():
        library = _built(scheduled, target)
    found = [module for module in library.imported_modules if module.type_key == kind]
    if not found:
        raise Refusal(INPUT, f"The compiled kernel holds no code for {kind}.", _LOOK_ELSEWHERE)
    return str(found[0].get_source())


def write_library(scheduled: Scheduled, target: Any, path: str) -> None:
    """Compile a kernel into a library, where its function has the kernel's name."""
    function = scheduled.function.with_attr("global_symbol", scheduled.kernel.name)
    with tvm.transform.PassContext(opt_level=3):
        library = tvm.build(tvm.IRModule({scheduled.kernel.name: function}), target=target)
    library.export_library(path)


def script(module: Any) -> str:
    """A module as text, in the form that this TVM has for it."""
    return str(module.script()) if hasattr(module, "script") else str(module)


class _Uncompiled:
    """Has CUDA C stay what it is: no compiler is asked for, neither nvcc nor NVRTC."""

    _NAME = "tvm_callback_cuda_compile"

    def __init__(self) -> None:
        self._stock: Any = None

    def __enter__(self) -> None:
        self._stock = tvm.get_global_func(self._NAME, allow_missing=True)
        tvm.register_func(self._NAME, lambda source, *_: source, override=True)

    def __exit__(self, *error: object) -> None:
        if self._stock is not None:
            tvm.register_func(self._NAME, self._stock, override=True)


def _module(scheduled: Scheduled) -> Any:
    return tvm.IRModule({scheduled.kernel.symbol: scheduled.function})


def _built(scheduled: Scheduled, target: Any) -> Any:
    with tvm.transform.PassContext(opt_level=3):
        return tvm.build(_module(scheduled), target=target)
