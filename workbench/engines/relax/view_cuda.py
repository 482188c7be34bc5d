"""Views of CUDA kernels: the source with how it is launched, PTX, SASS, and resources; needs no GPU, and the toolkit only where it says so."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import tvm

from workbench.analysis.occupancy import SOURCE as OCCUPANCY_SOURCE
from workbench.analysis.occupancy import occupancy, sm_limits
from workbench.analysis.view_catalogue import INSTALL_TOOLKIT, NO_NVCC, why_not
from workbench.engines.relax.cuda_code import KernelResources, NotCompiled, cuda_source, ptx_of, ptxas_report, sass_of
from workbench.engines.relax.view_lowered import Launch, launches, lowered
from workbench.machine import cuda_toolkit
from workbench.records.machine import CudaToolkit
from workbench.records.view import PTX, RESOURCES, SASS, SOURCE, ViewText

TOOLKIT_TIMEOUT_S = 50.0


def source_view(module: tvm.IRModule, target: tvm.target.Target) -> ViewText:
    """CUDA C under a comment that says how to launch it."""
    text = cuda_source(module, target)
    found = launches(lowered(module, target), module["main"])
    return ViewText(SOURCE, f"{launch_comment(found)}\n{text}", data={"launches": [launch_dict(launch) for launch in found]})


def ptx_view(module: tvm.IRModule, target: tvm.target.Target) -> ViewText:
    """PTX, from nvcc."""
    toolkit = cuda_toolkit()
    if toolkit.nvcc_path is None:
        return _not_here(PTX, toolkit)
    try:
        return ViewText(PTX, ptx_of(cuda_source(module, target), _arch(target), nvcc=toolkit.nvcc_path, timeout_s=TOOLKIT_TIMEOUT_S))
    except NotCompiled as error:
        return ViewText(PTX, unavailable=f"nvcc refuses the source: {_last_line(error)}", remedy="Look at another trial.")


def sass_view(module: tvm.IRModule, target: tvm.target.Target) -> ViewText:
    """SASS, from nvcc and cuobjdump."""
    toolkit = cuda_toolkit()
    if toolkit.nvcc_path is None or toolkit.cuobjdump_path is None or toolkit.nvdisasm_path is None:
        return _not_here(SASS, toolkit)
    source = cuda_source(module, target)
    try:
        text = sass_of(source, _arch(target), nvcc=toolkit.nvcc_path, cuobjdump=toolkit.cuobjdump_path, timeout_s=TOOLKIT_TIMEOUT_S)
    except NotCompiled as error:
        return ViewText(SASS, unavailable=f"the toolkit refuses the source: {_last_line(error)}", remedy="Look at another trial.")
    return ViewText(SASS, text)


def resources_view(module: tvm.IRModule, target: tvm.target.Target) -> ViewText:
    """What each kernel takes: threads and blocks from TIR; registers, spills and shared memory from ptxas; how full a multiprocessor gets."""
    found = launches(lowered(module, target), module["main"])
    arch = _arch(target)
    nvcc = cuda_toolkit().nvcc_path
    taken: dict[str, KernelResources] = {}
    why = f"{NO_NVCC}. {INSTALL_TOOLKIT}" if nvcc is None else ""
    if nvcc is not None:
        try:
            report = ptxas_report(cuda_source(module, target), arch, timeout_s=TOOLKIT_TIMEOUT_S, nvcc=nvcc)
            taken = {} if report is None else {kernel.kernel: kernel for kernel in report.kernels}
            why = f"nvcc here does not know {arch}" if report is None else ""
        except NotCompiled as error:
            why = f"ptxas refuses the kernel: {_last_line(error)}"
    kernels = [_kernel(launch, taken.get(launch.kernel), arch) for launch in found]
    data = {"kind": "cuda", "arch": arch, "toolkit": why or None, "formula": OCCUPANCY_SOURCE, "kernels": kernels}
    return ViewText(RESOURCES, "\n".join([_kernel_text(kernel, arch, why) for kernel in kernels]), data=data)


def _not_here(view: str, toolkit: CudaToolkit) -> ViewText:
    unavailable, remedy = why_not(view, "cuda", toolkit)
    return ViewText(view, unavailable=unavailable, remedy=remedy)


def launch_dict(launch: Launch) -> dict[str, Any]:
    """A launch as JSON values."""
    values = asdict(launch)
    return {**values, "grid": list(launch.grid), "block": list(launch.block), "arguments": [asdict(argument) for argument in launch.arguments]}


def launch_comment(found: tuple[Launch, ...]) -> str:
    """How to launch each kernel by hand, as a comment of C."""
    lines = []
    for launch in found:
        names = ", ".join(argument.name for argument in launch.arguments)
        shared = f", {launch.dynamic_shared_bytes}" if launch.dynamic_shared_bytes else ""
        lines.append(f"// {launch.kernel}<<<dim3({_sizes(launch.grid)}), dim3({_sizes(launch.block)}){shared}>>>({names})")
        for place, argument in enumerate(launch.arguments):
            tensor = f", tensor {argument.tensor}" if argument.tensor else ""
            lines.append(f"//   argument {place}: {argument.type} {argument.name}{tensor}{', written' if argument.writes else ''}")
    return "\n".join(lines)


def _kernel(launch: Launch, taken: KernelResources | None, arch: str) -> dict[str, Any]:
    values: dict[str, Any] = {**launch_dict(launch), "threads_per_block": launch.threads_per_block, "blocks": launch.blocks}
    values["ptxas"] = None if taken is None else asdict(taken)
    limits = sm_limits(arch)
    values["occupancy"] = None
    if taken is not None and limits is not None and launch.threads_per_block is not None:
        shared = taken.shared_bytes + launch.dynamic_shared_bytes
        full = occupancy(limits, threads_per_block=launch.threads_per_block, registers=taken.registers, shared_bytes=shared)
        values["occupancy"] = {**asdict(full), "limited_by": list(full.limited_by), "share": full.share}
    return values


def _kernel_text(kernel: dict[str, Any], arch: str, why: str) -> str:
    lines = [
        f"{kernel['kernel']} ({arch})",
        f"  grid: {_sizes(kernel['grid'])} = {_shown(kernel['blocks'])} blocks",
        f"  block: {_sizes(kernel['block'])} = {_shown(kernel['threads_per_block'])} threads",
    ]
    taken, full = kernel["ptxas"], kernel["occupancy"]
    if taken is None:
        return "\n".join([*lines, f"  registers, spills, shared memory: not here: {why or 'ptxas does not report this kernel'}", ""])
    dynamic = f" and {kernel['dynamic_shared_bytes']:,} dynamic" if kernel["dynamic_shared_bytes"] else ""
    lines += [
        f"  registers: {taken['registers']} a thread",
        f"  spills: {taken['spill_store_bytes']:,} bytes stored, {taken['spill_load_bytes']:,} loaded, stack frame {taken['stack_bytes']:,} bytes",
        f"  shared memory: {taken['shared_bytes']:,} bytes{dynamic} a block",
    ]
    if full is None:
        return "\n".join([*lines, f"  blocks per SM: the limits of {arch} are not known", ""])
    limit = " and ".join(full["limited_by"])
    lines.append(
        f"  blocks per SM: {full['blocks_per_sm']}, {full['warps_per_sm']} of {full['most_warps']} warps "
        f"(occupancy {100 * full['share']:.0f} %), limited by {limit}"
    )
    return "\n".join([*lines, f"  formula: {OCCUPANCY_SOURCE}", ""])


def _sizes(sizes: Any) -> str:
    return ", ".join(_shown(size) for size in sizes)


def _shown(size: int | None) -> str:
    return "dynamic" if size is None else str(size)


def _arch(target: tvm.target.Target) -> str:
    return str(target.attrs["arch"])


def _last_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[-1][:300] if lines else type(error).__name__
