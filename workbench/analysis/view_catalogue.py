"""Which views there are of a kernel for a target on this machine, and why not; it makes none."""

from __future__ import annotations

from workbench.records.machine import CudaToolkit
from workbench.records.view import (
    ALL_VIEWS,
    ASM,
    COMPUTE_DAG,
    DECISIONS,
    EFFECTS,
    LOWERED,
    PTX,
    RESOURCES,
    SASS,
    SCHEDULE,
    SOURCE,
    TIR,
    TIR_BEFORE,
    ViewInfo,
)

NO_NVCC = "nvcc is not here"
INSTALL_TOOLKIT = "Install NVIDIA's CUDA toolkit, or set CUDA_HOME; no GPU is needed."
_INSTALL_DISASSEMBLERS = "Install them (pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm), or the whole CUDA toolkit; no GPU is needed."

_LEAST_TRIALS = 8
_SOURCES = {"cuda": ("CUDA C", "cuda"), "llvm": ("LLVM IR", "llvm")}
_TEXTS = {
    COMPUTE_DAG: ("Computation", "text", "What the kernel computes, whatever the schedule"),
    SCHEDULE: ("Schedule", "python", "Python that makes the same schedule of the untuned kernel"),
    DECISIONS: ("Decisions", "text", "Tile sizes, unrolling, bindings and places of computation, by block and loop"),
    TIR_BEFORE: ("TIR before", "python", "The kernel in TVMScript before any schedule"),
    TIR: ("TIR", "python", "The scheduled kernel in TVMScript"),
    LOWERED: ("Lowered TIR", "python", "TIR as it goes to code generation"),
    SOURCE: ("Source", "c", "What TVM's code generator makes; no device is needed"),
    ASM: ("Assembly", "asm", "Assembly of the processor"),
    PTX: ("PTX", "ptx", "Assembly of NVIDIA's virtual machine, from nvcc"),
    SASS: ("SASS", "sass", "Machine code of the GPU, from nvcc and cuobjdump"),
    RESOURCES: ("Resources", "text", "What the kernel takes of the machine, and how far from its limits it is"),
    EFFECTS: ("Effects", "text", "Which decisions matter, over all measured trials of the task"),
}


def view_catalogue(kind: str, toolkit: CudaToolkit, *, measured_trials: int) -> tuple[ViewInfo, ...]:
    """All views in the order in which they are offered.

    Args:
        kind: TVM's target kind: ``llvm``, ``cuda`` or another.
        toolkit: The CUDA toolkit of this machine.
        measured_trials: Trials of the task that have a time.
    """
    return tuple(_info(view, kind, toolkit, measured_trials) for view in ALL_VIEWS)


def _info(view: str, kind: str, toolkit: CudaToolkit, measured_trials: int) -> ViewInfo:
    title, language, description = _TEXTS[view]
    if view == SOURCE:
        title, language = _SOURCES.get(kind, (title, language))
    unavailable, remedy = why_not(view, kind, toolkit)
    if view == EFFECTS and measured_trials < _LEAST_TRIALS:
        unavailable = f"{measured_trials} measured trials are too few to tell which decisions matter"
        remedy = f"Tune the task: {_LEAST_TRIALS} trials are the least, some hundred are good."
    return ViewInfo(view, title, language, description, unavailable, remedy)


def why_not(view: str, kind: str, toolkit: CudaToolkit) -> tuple[str, str]:
    """Why a view cannot be shown, and what would help; both empty if it can."""
    if view == ASM and kind != "llvm":
        return f"a kernel for {kind} has no assembly of a CPU", f"Look at {SOURCE}, {PTX} or {SASS}." if kind == "cuda" else f"Look at {SOURCE}."
    if view in {PTX, SASS} and kind != "cuda":
        return f"a kernel for {kind} has no {view.upper()}", f"Look at {ASM}." if kind == "llvm" else f"Look at {SOURCE}."
    if view == RESOURCES and kind not in _SOURCES:
        return f"the resources of kernels for {kind} cannot be counted", ""
    if view in {PTX, SASS} and toolkit.nvcc_path is None:
        return NO_NVCC, INSTALL_TOOLKIT
    missing = [name for name, path in (("cuobjdump", toolkit.cuobjdump_path), ("nvdisasm", toolkit.nvdisasm_path)) if path is None]
    if view == SASS and missing:
        return f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} not here", _INSTALL_DISASSEMBLERS
    return "", ""
