"""CUDA source comes out without a GPU or a compiler, and ptxas says what its kernels take where there is one."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
import tvm
from tvm import te, topi

from workbench.engines.relax.build import with_default_schedules
from workbench.engines.relax.cuda_code import KernelResources, NotCompiled, cuda_source, ptxas_report
from workbench.engines.targets import resolve_target, to_tvm
from workbench.errors import EnvironmentFault

needs_nvcc = pytest.mark.skipif(shutil.which("nvcc") is None, reason="no nvcc on PATH")

SHARED = """
extern "C" __global__ void reversed(float* out, const float* in) {{
  __shared__ float tile[{size}];
  tile[threadIdx.x] = in[threadIdx.x];
  __syncthreads();
  out[threadIdx.x] = tile[{size} - 1 - threadIdx.x];
}}
"""

REPORT = """\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'second_kernel' for 'sm_90'
ptxas info    : Function properties for second_kernel
    216 bytes stack frame, 344 bytes spill stores, 352 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 216 bytes cumulative stack size, 6912 bytes smem
ptxas info    : Compile time = 11.940 ms
ptxas info    : Compiling entry function 'first_kernel' for 'sm_90'
ptxas info    : Function properties for first_kernel
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, 352 bytes cmem[0]
"""


@pytest.fixture
def target() -> Any:
    return to_tvm(resolve_target("cuda:sm_90", threads=2))


def matmul() -> Any:
    a, b = te.placeholder((60, 48), name="a"), te.placeholder((48, 40), name="b")
    return tvm.IRModule({"main": te.create_prim_func([a, b, topi.matmul(a, b)]).with_attr("global_symbol", "main")})


def stand_in(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> None:
    """A stand-in for nvcc that does what the script says."""
    path = folder / "nvcc"
    path.write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")


def test_the_source_of_a_scheduled_kernel_is_cuda(target: Any) -> None:
    source = cuda_source(with_default_schedules(matmul(), target), target)
    assert "__global__ void __launch_bounds__" in source
    assert "main_kernel" in source


def test_a_kernel_without_threads_has_no_cuda_source(target: Any) -> None:
    with pytest.raises(EnvironmentFault, match="no GPU schedule: main"):
        cuda_source(matmul(), target)


def test_a_module_without_kernels_has_no_cuda_source(target: Any) -> None:
    with pytest.raises(EnvironmentFault, match="holds no CUDA code"):
        cuda_source(tvm.IRModule(), target)


@pytest.mark.slow
def test_the_source_needs_no_compiler(target: Any) -> None:
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import test_cuda_code as t; t.print_source()"
    child = subprocess.run([sys.executable, "-c", code], env={**os.environ, "PATH": ""}, capture_output=True, text=True, check=True, timeout=100)
    assert child.stdout.strip() == str(len(cuda_source(with_default_schedules(matmul(), target), target)))


def print_source() -> None:
    """What the child process of the test above runs."""
    target = to_tvm(resolve_target("cuda:sm_90", threads=2))
    sys.stdout.write(str(len(cuda_source(with_default_schedules(matmul(), target), target))))


def test_a_report_gives_what_each_kernel_takes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "report").write_text(REPORT, encoding="utf-8")
    stand_in(tmp_path, monkeypatch, f"cat {tmp_path}/report >&2")
    report = ptxas_report("", "sm_90", timeout_s=10)
    assert report is not None
    assert report.arch == "sm_90"
    assert report.kernels == (
        KernelResources("second_kernel", registers=255, spill_store_bytes=344, spill_load_bytes=352, stack_bytes=216, shared_bytes=6912),
        KernelResources("first_kernel", registers=10, spill_store_bytes=0, spill_load_bytes=0, stack_bytes=0, shared_bytes=0),
    )


def test_there_is_no_report_without_a_toolkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert ptxas_report(SHARED.format(size=32), "sm_90", timeout_s=10) is None


def test_a_compiler_that_hangs_is_ended_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stand_in(tmp_path, monkeypatch, f"sleep 600 & echo $! > {tmp_path}/child; wait")
    started = time.monotonic()
    with pytest.raises(NotCompiled, match=r"more than 0\.5 s"):
        ptxas_report("", "sm_90", timeout_s=0.5)
    assert time.monotonic() - started < 10
    child = int((tmp_path / "child").read_text(encoding="utf-8"))
    deadline = time.monotonic() + 10
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(child) or psutil.Process(child).status() == psutil.STATUS_ZOMBIE


@needs_nvcc
def test_the_toolkit_reports_registers_and_shared_memory() -> None:
    report = ptxas_report(SHARED.format(size=256), "sm_90", timeout_s=60)
    assert report is not None
    (kernel,) = report.kernels
    assert kernel.kernel == "reversed"
    assert kernel.shared_bytes == 1024
    assert 0 < kernel.registers <= 255


@needs_nvcc
@pytest.mark.slow
def test_the_toolkit_compiles_what_tvm_generates(target: Any) -> None:
    report = ptxas_report(cuda_source(with_default_schedules(matmul(), target), target), "sm_90", timeout_s=60)
    assert report is not None
    assert [kernel.kernel for kernel in report.kernels] == ["main_kernel"]
    assert report.kernels[0].shared_bytes > 0


@needs_nvcc
def test_a_source_that_does_not_compile_is_refused_with_the_text() -> None:
    with pytest.raises(NotCompiled, match="uses too much shared data"):
        ptxas_report(SHARED.format(size=20000), "sm_90", timeout_s=60)
    with pytest.raises(NotCompiled, match=r'identifier "undefined" is undefined'):
        ptxas_report('extern "C" __global__ void k() { undefined = 1; }', "sm_90", timeout_s=60)


@needs_nvcc
def test_there_is_no_report_for_an_architecture_that_the_toolkit_does_not_know() -> None:
    assert ptxas_report(SHARED.format(size=32), "sm_20", timeout_s=60) is None
