"""Lowers one fused function of the optimised model by itself, with the schedule that TVM has for it or with another one."""

from __future__ import annotations

import contextlib
from typing import Any, Callable, Iterator

import tvm
from tvm import autotvm, relay
from tvm.relay.backend import graph_executor_codegen

from .failing import INPUT, Refusal
from .held import Held
from .wire import Blob

_HOOK = "auto_scheduler.relay_integration.auto_schedule_topi_compute"
_AUTO_SCHEDULED = "relay.backend.use_auto_scheduler"

Schedule = Callable[[Any], Any]
"""Makes the `te.Schedule` of a kernel from its output tensors; None leaves it to TVM."""


def find_kernel(held: Held, name: str) -> Any:
    """A kernel of the lowered model; raises Refusal if there is none of that name."""
    kernel = held.ready().kernels.get(name)
    if kernel is None:
        raise Refusal(INPUT, f"The lowered model has no kernel {name}.", "See: workbench tasks.")
    return kernel


def text(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> str:
    """The function of a ``kernel`` as JSON."""
    del blobs, progress
    return to_text(find_kernel(held, arguments["kernel"]).function)


def from_text(text: str) -> Any:
    """A fused function that `to_text` wrote."""
    return tvm.ir.load_json(text)["main"]


def to_text(function: Any) -> str:
    """A fused function as JSON."""
    return str(tvm.ir.save_json(tvm.IRModule.from_expr(function)))


def lower(function: Any, target: Any, schedule: Schedule | None = None) -> tuple[str, Any]:
    """The function's symbol, and its TIR as `tvm.build` takes it.

    Args:
        function: A `relay.Function` that TVM's fusion made.
        target: The `tvm.target.Target`, with its host.
        schedule: Asked with the computation as the auto-scheduler is given it; None lowers the function as a build without records does.
    """
    with _scheduled_by(schedule), tvm.transform.PassContext(opt_level=3, config={_AUTO_SCHEDULED: schedule is not None}):
        module = _calling(function, target)
        codegen = graph_executor_codegen.GraphExecutorCodegen(None, target)
        _, lowered, _ = codegen.codegen(module, module["main"])
    names = [name.name_hint for part in _parts(lowered) for name in part.get_global_vars()]
    return _entry(names), lowered


def traced_templates(function: Any, target: Any) -> list[tuple[str, Any]]:
    """Names and arguments of the AutoTVM templates that TVM considers for a kernel."""
    env = autotvm.task.TaskExtractEnv.get()
    env.reset(None)
    with env:
        lower(function, target)
    return list(env.get_tasks())


def _calling(function: Any, target: Any) -> Any:
    """A module whose main calls the function and nothing else, ready for code generation."""
    arguments = [relay.var(f"argument{place}", parameter.checked_type) for place, parameter in enumerate(function.params)]
    module = tvm.IRModule.from_expr(relay.Function(arguments, relay.Call(function, arguments)))
    module = relay.transform.InferType()(module)
    if hasattr(tvm.target, "make_compilation_config"):  # since 0.9 each expression has a device
        config = tvm.target.make_compilation_config(tvm.transform.PassContext.current(), target)
        module = relay.transform._ffi_api.PlanDevices(config)(module)  # noqa: SLF001 - the public wrapper is broken in some builds
    return module


@contextlib.contextmanager
def _scheduled_by(schedule: Schedule | None) -> Iterator[None]:
    """Have TVM's lowering ask for schedules here instead of asking the auto-scheduler's records."""
    stock = tvm.get_global_func(_HOOK)
    tvm.register_func(_HOOK, lambda _, outs: None if schedule is None else schedule(outs), override=True)
    try:
        yield
    finally:
        tvm.register_func(_HOOK, stock, override=True)


def _parts(lowered: Any) -> list[Any]:
    return [lowered] if isinstance(lowered, tvm.IRModule) else [part for _, part in lowered.items()]


def _entry(names: list[str]) -> str:
    """The kernel's own symbol: the shortest that names what was fused; parts of it on a device have longer names, made of this one."""
    fused = [name for name in names if "fused" in name] or names
    return min(fused, key=len)


CALLS = {"text": text}
