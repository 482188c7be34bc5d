"""CUDA source of scheduled kernels, and what ptxas says about it; needs no GPU."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tvm

from workbench.engines.relax.build import compiled, unbound_kernels
from workbench.errors import EnvironmentFault
from workbench.escaping import plain

_SOURCE_FILE = "kernels.cu"
_FUNCTION = re.compile(r"Compiling entry function '(?P<name>[^']+)'")
_SPILLS = re.compile(r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads")
_REGISTERS = re.compile(r"Used (?P<registers>\d+) registers")
_SHARED = re.compile(r"(\d+)(?:\+\d+)? bytes smem")
_UNKNOWN_ARCH = re.compile(r"[Uu]nsupported gpu architecture|is not defined for option '(?:gpu-architecture|gpu-name)'")


class NotCompiled(Exception):  # noqa: N818 - a candidate that fails is a value of the search, not a fault
    """The CUDA compiler refused a source, or took too long; the message is its full text."""


@dataclass(frozen=True)
class KernelResources:
    """What one thread or one block of threads of a kernel takes.

    Attributes:
        kernel: Name in the source.
        registers: Registers a thread.
        spill_store_bytes: Bytes a thread that it stores because it has too few registers.
        spill_load_bytes: Bytes a thread that it loads again.
        stack_bytes: Bytes a thread of the stack frame, in slow local memory.
        shared_bytes: Bytes a block of statically allocated shared memory.
    """

    kernel: str
    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_bytes: int
    shared_bytes: int


@dataclass(frozen=True)
class PtxasReport:
    """What ptxas says about the kernels of a source.

    Attributes:
        arch: The architecture it compiled for, such as ``sm_90``.
        kernels: In the order of its report.
    """

    arch: str
    kernels: tuple[KernelResources, ...]


def cuda_source(module: tvm.IRModule, target: tvm.target.Target) -> str:
    """CUDA C of scheduled kernels.

    TVM generates it alone: neither nvcc nor NVRTC has a part in it, because TVM compiles the source only when a kernel is first run.

    Raises:
        EnvironmentFault: The kernels have no thread bindings, or no CUDA code came out.
    """
    unbound = unbound_kernels(module)
    if unbound:
        raise EnvironmentFault(f"These kernels have no GPU schedule: {', '.join(map(plain, unbound[:5]))}.", "Schedule them first.")
    found = _cuda_module(compiled(lambda: tvm.compile(module, target=target), target).mod)
    text = str(found.inspect_source("cuda")) if found is not None else ""
    if not text:
        raise EnvironmentFault("The compiled module holds no CUDA code.", "Check the target's arch with workbench doctor.")
    return text


def _cuda_module(module: Any) -> Any:
    """The CUDA module among the imports of a module; None if there is none."""
    if module.kind == "cuda":
        return module
    return next((found for found in map(_cuda_module, module.imports) if found is not None), None)


def ptxas_report(source: str, arch: str, *, timeout_s: float, nvcc: str | None = None) -> PtxasReport | None:
    """Compile a source with nvcc and read what its kernels take; None where there is no nvcc, or it does not know the architecture.

    Args:
        source: What `cuda_source` returned.
        arch: ``sm_90`` or the like.
        timeout_s: The compiler is ended after this time.
        nvcc: Its path; searched on PATH if not given.

    Raises:
        NotCompiled: The source does not compile for this architecture, for example because it takes too much shared memory.
    """
    nvcc = nvcc or shutil.which("nvcc")
    if nvcc is None:
        return None
    with _folder_of(source) as folder:
        code, text = _run([nvcc, "--cubin", f"-arch={arch}", "-w", "-Xptxas", "-v", "-o", "kernels.cubin", _SOURCE_FILE], folder, timeout_s)
    if code and _UNKNOWN_ARCH.search(text):
        return None
    if code:
        raise NotCompiled(text.strip() or f"nvcc ended with exit code {code}.")
    return PtxasReport(arch, _kernels(text))


def ptx_of(source: str, arch: str, *, nvcc: str, timeout_s: float) -> str:
    """PTX of a source.

    Raises:
        NotCompiled: The source does not compile for this architecture.
    """
    with _folder_of(source) as folder:
        _must_run([nvcc, "--ptx", f"-arch={arch}", "-w", "-o", "kernels.ptx", _SOURCE_FILE], folder, timeout_s)
        return Path(folder, "kernels.ptx").read_text(encoding="utf-8", errors="replace")


def sass_of(source: str, arch: str, *, nvcc: str, cuobjdump: str, timeout_s: float) -> str:
    """Machine code of a source, as text.

    Raises:
        NotCompiled: The source does not compile for this architecture, or its code cannot be read.
    """
    with _folder_of(source) as folder:
        _must_run([nvcc, "--cubin", f"-arch={arch}", "-w", "-o", "kernels.cubin", _SOURCE_FILE], folder, timeout_s)
        return _must_run([cuobjdump, "-sass", "kernels.cubin"], folder, timeout_s)


@contextlib.contextmanager
def _folder_of(source: str) -> Iterator[str]:
    """A folder with the source in it, which goes with the end of the context."""
    with tempfile.TemporaryDirectory(prefix="workbench-nvcc-") as folder:
        Path(folder, _SOURCE_FILE).write_text(source, encoding="utf-8")
        yield folder


def _must_run(command: list[str], folder: str, timeout_s: float) -> str:
    """Output of a program of the toolkit; raises NotCompiled if it fails."""
    code, text = _run(command, folder, timeout_s)
    if code:
        raise NotCompiled(text.strip() or f"{Path(command[0]).name} ended with exit code {code}.")
    return text


def _run(command: list[str], folder: str, timeout_s: float) -> tuple[int, str]:
    """Exit code and output of a compiler; on a timeout, all processes that it started end with it."""
    process = subprocess.Popen(
        command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True
    )
    with process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except BaseException as error:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise NotCompiled(f"{Path(command[0]).name} took more than {timeout_s:g} s.") from error
            raise
    return process.returncode, output.decode(errors="replace")


def _kernels(text: str) -> tuple[KernelResources, ...]:
    kernels = []
    for start, part in _parts(text):
        spills, registers, shared = _SPILLS.search(part), _REGISTERS.search(part), _SHARED.search(part)
        if registers:
            kernels.append(
                KernelResources(
                    kernel=start,
                    registers=int(registers["registers"]),
                    spill_store_bytes=int(spills["stores"]) if spills else 0,
                    spill_load_bytes=int(spills["loads"]) if spills else 0,
                    stack_bytes=int(spills["stack"]) if spills else 0,
                    shared_bytes=int(shared[1]) if shared else 0,
                )
            )
    return tuple(kernels)


def _parts(text: str) -> list[tuple[str, str]]:
    """Name and report of each kernel."""
    starts = list(_FUNCTION.finditer(text))
    ends = [*(match.start() for match in starts[1:]), len(text)]
    return [(match["name"], text[match.end() : end]) for match, end in zip(starts, ends, strict=True)]
