"""What a recorded schedule makes of a kernel, as a module, as code or as a library: replays the trace with the checks that a search leaves out."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir.schedule import LoopRV, SBlockRV, Trace

from workbench.engines.relax.build import compiled, with_default_schedules
from workbench.engines.relax.cuda_code import cuda_source
from workbench.engines.relax.foreign_code import foreign_code, refuse_brought_code
from workbench.engines.relax.space import prepare_intrinsics
from workbench.engines.relax.workload_module import as_main, fingerprint
from workbench.errors import EnvironmentFault, InputError
from workbench.escaping import plain

_TENSORIZE = '"Tensorize"'
_DEFAULTS = "dlight's default schedule, which has no trace"
_UNTUNED = "the untuned kernel, which has no schedule"
_INTRINSICS = "import tvm.s_tir.tensor_intrin  # registers what the schedule tensorizes with"


@dataclass(frozen=True)
class Scheduled:
    """A kernel with a schedule.

    Attributes:
        module: The scheduled kernel as ``main``.
        target: What it is for.
        trace: The trace that was replayed; None for a baseline.
        schedule: What it was replayed on; None for a baseline.
    """

    module: tvm.IRModule
    target: tvm.target.Target
    trace: Any | None
    schedule: Any | None = None

    def variables(self) -> dict[str, str]:
        """What the variables of the printed schedule are in the end: ``l7`` is ``loop ff_0``, ``b2`` is ``block pad_temp``."""
        found: dict[str, str] = {}
        count = 0
        for instruction in () if self.trace is None else self.trace.insts:
            for output in instruction.outputs:
                is_block, is_loop = isinstance(output, SBlockRV), isinstance(output, LoopRV)
                name = f"{'b' if is_block else 'l' if is_loop else 'v'}{count}"  # TVM numbers variables of all kinds together
                count += 1
                if (is_block or is_loop) and (what := _still(self.schedule, output)):
                    found[name] = what
        return found


def scheduled(function: tvm.tirx.PrimFunc, target: tvm.target.Target, trace: str, *, expected: str = "") -> Scheduled:
    """Replay a trace on a kernel.

    Args:
        function: The kernel, unscheduled.
        target: What it is for.
        trace: In TVM's JSON form; empty for the baseline.
        expected: Fingerprint of the module that has to come out; empty takes any.

    Raises:
        InputError: The trace is damaged, is another kernel's, or gives another module than the expected one.
    """
    module = as_main(function)
    if not trace:
        return Scheduled(with_default_schedules(module, target), target, None)
    if _TENSORIZE in trace:
        prepare_intrinsics(target, tensor_cores=True)
    own = tvm.ir.load_json(tvm.ir.save_json(module))  # schedules of one module share its nodes
    try:
        schedule = tvm.s_tir.Schedule(own, seed=1, debug_mask=0, error_render_level="none")
        Trace.apply_json_to_schedule(json.loads(trace), schedule)
        found = fingerprint(schedule.mod)
    except Exception as error:  # a trace from anywhere may raise anything
        reason = plain(str(error).strip().rpartition("\n")[2] or type(error).__name__, 200)
        raise InputError(f"The recorded schedule does not fit the kernel: {reason}", "Search the task again.") from error
    if expected and found != expected:
        raise InputError("The recorded schedule is not the one that was measured: its trace gives another kernel.", "Search the task again.")
    return Scheduled(schedule.mod, target, schedule.trace, schedule)


def untuned_remark(target: tvm.target.Target) -> str:
    """What a baseline is."""
    return _DEFAULTS if target.kind.name == "cuda" else _UNTUNED


def schedule_source(kernel: Scheduled) -> str:
    """Python that makes the same schedule: a function for a ``Schedule`` of a module that holds the untuned kernel as ``main``."""
    remark = "" if kernel.trace is not None else f"  # {untuned_remark(kernel.target)}"
    steps = [] if kernel.trace is None else [str(step) for step in kernel.trace.as_python()]
    lines = [f"    {line}" for step in steps or ["pass"] for line in step.splitlines()]
    intrinsics = [_INTRINSICS] if any("tensorize" in line for line in lines) else []
    return "\n".join(["from tvm import s_tir", *intrinsics, "", "", f"def apply_trace(sch: s_tir.Schedule) -> None:{remark}", *lines, ""])


def generated_source(kernel: Scheduled) -> str:
    """CUDA C, LLVM IR, or what else the target's code generator makes; no device is needed.

    Raises:
        InputError: TVM cannot compile the scheduled kernel.
    """
    kind = kernel.target.kind.name
    try:
        if kind == "cuda":
            return cuda_source(kernel.module, kernel.target)
        library = compiled(lambda: tvm.compile(kernel.module, target=kernel.target), kernel.target)
        return str(library.mod.inspect_source("ll" if kind == "llvm" else ""))
    except EnvironmentFault:
        raise
    except Exception as error:  # code generation raises any class of error
        raise _uncompiled(error) from error


def write_library(kernel: Scheduled, untuned: tvm.tirx.PrimFunc, path: Path, *, name: str, trust: bool) -> None:
    """Compile a scheduled kernel into a library that ``tvm.runtime.load_module`` takes.

    Args:
        kernel: What to compile.
        untuned: The kernel without the schedule.
        path: The library to write.
        name: Name of the function in it.
        trust: True allows a schedule that brings code of its own into the library.

    Raises:
        InputError: TVM cannot compile it, or it needs trust.
    """
    if not trust:
        refuse_brought_code(kernel.module, foreign_code(as_main(untuned)))
    function = kernel.module["main"].with_attr("global_symbol", name)
    try:
        library = compiled(lambda: tvm.compile(tvm.IRModule({name: function}), target=kernel.target), kernel.target)
        library.export_library(str(path))
    except OSError:
        raise
    except Exception as error:  # code generation raises any class of error
        raise _uncompiled(error) from error


def _still(schedule: Any, variable: Any) -> str:
    """What a variable of a schedule is in the end; empty if it was fused, split or inlined away."""
    try:
        found = schedule.get(variable)
    except Exception:  # noqa: BLE001 - TVM has no other way to tell that a variable is gone
        return ""
    if isinstance(found, tvm.tirx.For):
        return f"loop {found.loop_var.name}"
    return f"block {found.name_hint}" if isinstance(found, tvm.s_tir.SBlock) else ""


def _uncompiled(error: Exception) -> InputError:
    return InputError(f"TVM cannot compile the scheduled kernel: {plain(str(error).strip(), 400)}", "Look at another trial; -v shows TVM's own text.")
