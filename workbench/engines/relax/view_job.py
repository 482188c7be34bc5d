"""Runs in the process that makes views: one view of one scheduled kernel a request."""

from __future__ import annotations

import contextlib
import os
import platform
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm

from workbench.analysis.knob_list import knob_table
from workbench.analysis.view_catalogue import why_not
from workbench.analysis.view_links import ambiguous_names, asm_links, cuda_links, llvm_links, schedule_links, tir_links
from workbench.engines.relax import view_cpu, view_cuda
from workbench.engines.relax.compute_dag import compute_dag
from workbench.engines.relax.view_knobs import knobs_of
from workbench.engines.relax.view_lowered import lowered
from workbench.engines.relax.views import Scheduled, generated_source, schedule_source, scheduled, untuned_remark
from workbench.engines.relax.workload_module import as_main
from workbench.engines.targets import to_tvm
from workbench.errors import WorkbenchError
from workbench.isolation import Message
from workbench.machine import cuda_toolkit
from workbench.records.target import TargetSpec
from workbench.records.view import (
    ASM,
    COMPUTE_DAG,
    DECISIONS,
    LOWERED,
    PTX,
    RESOURCES,
    SASS,
    SCHEDULE,
    SOURCE,
    TIR,
    TIR_BEFORE,
    ViewText,
)

_NICENESS = 5
"""Below the processes of a search; the search waits for a view before it measures, so there is no need to starve it."""

_SAME_ARCHITECTURE = (("x86_64", "amd64"), ("aarch64", "arm64"))
_HERE = next((names for names in _SAME_ARCHITECTURE if platform.machine() in names), (platform.machine(),))


@dataclass(frozen=True)
class _Kernel:
    """What views are made of."""

    function: tvm.tirx.PrimFunc
    target: tvm.target.Target
    trace: str
    scheduled: Scheduled

    @property
    def module(self) -> tvm.IRModule:
        return self.scheduled.module


_last: dict[str, Any] = {}


def serve(request: Message) -> Message:
    """Make one view.

    Args:
        request: ``target`` (as `TargetSpec.to_dict`), ``trace``, ``view``, ``expected``; the kernel as TVM's JSON in the blob.

    Returns:
        The view as `ViewText.to_dict`.

    Raises:
        Exception: Whatever code generation raises.
    """
    _step_back()
    values = request.values
    view = str(values["view"])
    try:
        return Message(_made(view, request).to_dict())
    except WorkbenchError as error:
        return Message(ViewText(view, unavailable=error.message.rstrip("."), remedy=error.remedy).to_dict())


def _step_back() -> None:
    """Let others run first, once."""
    if not _last.get("is_nice"):
        with contextlib.suppress(OSError):
            os.nice(_NICENESS)
        _last["is_nice"] = True


def _made(view: str, request: Message) -> ViewText:
    kernel = _kernel(request, replay=view not in {COMPUTE_DAG, TIR_BEFORE})
    kind = str(kernel.target.kind.name)
    why, remedy = why_not(view, kind, cuda_toolkit()) if view in {ASM, PTX, SASS, RESOURCES} else ("", "")
    if why:
        return ViewText(view, unavailable=why, remedy=remedy)
    return _MAKERS[view](kernel)


def _kernel(request: Message, *, replay: bool) -> _Kernel:
    """The kernel of a request with its schedule; the last one is kept, since several views of one trial are asked for in a row.

    Raises:
        InputError: The schedule does not fit.
    """
    values, blob = request.values, request.blobs[0]
    key = (blob, str(values["target"]), values["trace"], values["expected"], replay)
    if _last.get("key") != key:
        target = to_tvm(TargetSpec.from_dict(values["target"]))
        function = tvm.ir.load_json(blob.decode())["main"]
        trace = str(values["trace"]) if replay else ""
        found = scheduled(function, target, trace, expected=str(values["expected"])) if replay else Scheduled(as_main(function), target, None)
        _last.update(key=key, kernel=_Kernel(function, target, trace, found))
    kernel: _Kernel = _last["kernel"]
    return kernel


def _compute_dag(kernel: _Kernel) -> ViewText:
    return ViewText(COMPUTE_DAG, compute_dag(kernel.function))


def _tir_before(kernel: _Kernel) -> ViewText:
    text = str(as_main(kernel.function).script())
    return ViewText(TIR_BEFORE, text, tir_links(text))


def _tir(kernel: _Kernel) -> ViewText:
    text = str(kernel.module.script())
    return ViewText(TIR, text, tir_links(text))


def _schedule(kernel: _Kernel) -> ViewText:
    text = schedule_source(kernel.scheduled)
    return ViewText(SCHEDULE, text, schedule_links(text, kernel.scheduled.variables(), _names(kernel)))


def _decisions(kernel: _Kernel) -> ViewText:
    knobs = knobs_of(kernel.function, kernel.trace)
    text = knob_table(knobs, f"No decisions: it is {untuned_remark(kernel.target)}.")
    return ViewText(DECISIONS, text, data={"knobs": [knob.to_dict() for knob in knobs]})


def _lowered(kernel: _Kernel) -> ViewText:
    text = lowered(kernel.module, kernel.target).script()
    ambiguous = _ambiguous(kernel)
    return ViewText(LOWERED, text, tuple(link for link in tir_links(text) if link.name not in ambiguous))


def _source(kernel: _Kernel) -> ViewText:
    kind = str(kernel.target.kind.name)
    if kind == "cuda":
        view = view_cuda.source_view(kernel.module, kernel.target)
        return ViewText(SOURCE, view.text, cuda_links(view.text, _lowered_names(kernel)), view.data)
    text = generated_source(kernel.scheduled)
    return ViewText(SOURCE, text, llvm_links(text, _lowered_names(kernel)) if kind == "llvm" else ())


def _asm(kernel: _Kernel) -> ViewText:
    text = view_cpu.code_of(kernel.module, kernel.target, "asm")
    return ViewText(ASM, text, asm_links(text, _lowered_names(kernel)))


def _ptx(kernel: _Kernel) -> ViewText:
    return view_cuda.ptx_view(kernel.module, kernel.target)


def _sass(kernel: _Kernel) -> ViewText:
    return view_cuda.sass_view(kernel.module, kernel.target)


def _resources(kernel: _Kernel) -> ViewText:
    if kernel.target.kind.name == "cuda":
        return view_cuda.resources_view(kernel.module, kernel.target)
    local = view_cpu.is_local(kernel.target.attrs.get("mtriple", ""), _HERE)
    return view_cpu.resources_view(kernel.module, kernel.target, local=local)


def _names(kernel: _Kernel) -> set[str]:
    """Loops and blocks of the scheduled TIR whose names stand for one thing."""
    return {link.name for link in tir_links(str(kernel.module.script()))}


def _ambiguous(kernel: _Kernel) -> set[str]:
    """Names of the scheduled TIR that stand for several loops."""
    return ambiguous_names(str(kernel.module.script()))


def _lowered_names(kernel: _Kernel) -> set[str]:
    """Loops of the lowered TIR whose names stand for one loop, there and before."""
    text = lowered(kernel.module, kernel.target).script()
    return {link.name for link in tir_links(text)} - _ambiguous(kernel)


_MAKERS: dict[str, Callable[[_Kernel], ViewText]] = {
    COMPUTE_DAG: _compute_dag,
    SCHEDULE: _schedule,
    DECISIONS: _decisions,
    TIR_BEFORE: _tir_before,
    TIR: _tir,
    LOWERED: _lowered,
    SOURCE: _source,
    ASM: _asm,
    PTX: _ptx,
    SASS: _sass,
    RESOURCES: _resources,
}
