"""Occupancy as NVIDIA's own header calculates it."""

from __future__ import annotations

import itertools
import subprocess
from pathlib import Path

import pytest

from workbench.analysis.occupancy import Occupancy, SmLimits, occupancy, sm_limits
from workbench.machine import c_compiler, cuda_toolkit

ARCHITECTURES = [
    *("sm_50", "sm_52", "sm_53", "sm_60", "sm_61", "sm_62", "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_89", "sm_90"),
    *("sm_100", "sm_103", "sm_110", "sm_120", "sm_121"),
]
THREADS = (32, 64, 96, 160, 256, 288, 320, 512, 640, 768, 992, 1024)
REGISTERS = (16, 24, 33, 41, 56, 64, 65, 97, 128, 168, 170, 255)
SHARED_BYTES = (0, 1, 129, 4096, 12000, 24576, 49152, 101376, 166912, 232448)
NVIDIA = r"""
#include <cstdio>
#include <cstring>
#include <cuda_occupancy.h>
int main() {
  cudaOccDeviceProp device;
  cudaOccFuncAttributes kernel;
  cudaOccDeviceState state;
  cudaOccResult found;
  int block;
  device.maxThreadsPerBlock = kernel.maxThreadsPerBlock = 1024;
  device.warpSize = 32;
  device.numSms = 1;
  device.regsPerMultiprocessor = 65536;
  kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
  kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
  kernel.numBlockBarriers = 1;
  state.cacheConfig = CACHE_PREFER_SHARED;
  state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
  while (scanf("%d %d %d %d %zu %zu %zu %d %d %zu", &device.computeMajor, &device.computeMinor, &device.maxThreadsPerMultiprocessor,
               &device.regsPerBlock, &device.sharedMemPerMultiprocessor, &device.sharedMemPerBlockOptin, &device.reservedSharedMemPerBlock,
               &block, &kernel.numRegs, &kernel.sharedSizeBytes) == 10) {
    device.sharedMemPerBlock = device.sharedMemPerBlockOptin;
    kernel.maxDynamicSharedSizeBytes = device.sharedMemPerBlockOptin;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&found, &device, &kernel, &state, block, 0) != CUDA_OCC_SUCCESS) return 1;
    printf("%d %u\n", found.activeBlocksPerMultiprocessor, found.limitingFactors);
  }
}
"""
NVIDIAS_WORDS = {1: "warps", 2: "registers", 4: "shared memory", 8: "blocks"}


def of(arch: str, *, threads: int, registers: int, shared: int = 0) -> Occupancy:
    limits = sm_limits(arch)
    assert limits is not None
    return occupancy(limits, threads_per_block=threads, registers=registers, shared_bytes=shared)


@pytest.mark.parametrize(
    ("arch", "taken", "blocks", "limited_by"),
    [
        ("sm_90", (256, 32, 0), 8, ("warps", "registers")),  # 2048 threads, and 65536 registers of which each takes 32
        ("sm_86", (256, 32, 0), 6, ("warps",)),  # 48 warps
        ("sm_90", (256, 128, 0), 2, ("registers",)),
        ("sm_90", (256, 33, 0), 6, ("registers",)),  # 33 * 32 is rounded up to 1280: 12 warps in each quarter
        ("sm_90", (32, 16, 0), 32, ("blocks",)),
        ("sm_86", (32, 16, 0), 16, ("blocks",)),
        ("sm_90", (128, 32, 48 * 1024), 4, ("shared memory",)),  # 228 KiB, each block one more for the driver
        ("sm_86", (128, 32, 48 * 1024), 2, ("shared memory",)),
        ("sm_75", (128, 32, 32 * 1024), 2, ("shared memory",)),  # 64 KiB, and nothing for the driver
        ("sm_90", (1024, 64, 0), 1, ("registers",)),
        ("sm_90", (1024, 65, 0), 0, ("registers",)),  # 72 registers of 32 warps are more than there are
        ("sm_90", (128, 255, 0), 2, ("registers",)),
        ("sm_86", (64, 32, 100 * 1024), 0, ("shared memory",)),  # a block may have 99 KiB
        ("sm_75", (32, 16, 0), 16, ("blocks",)),  # no shared memory is asked for or taken: it limits nothing
        ("sm_60", (288, 170, 0), 0, ("registers",)),  # would fit its two partitions, but has to fit the four of sm_61
        ("sm_110", (256, 32, 0), 6, ("warps",)),
    ],
)
def test_blocks_of_a_multiprocessor(arch: str, taken: tuple[int, int, int], blocks: int, limited_by: tuple[str, ...]) -> None:
    threads, registers, shared = taken
    found = of(arch, threads=threads, registers=registers, shared=shared)
    assert (found.blocks_per_sm, found.limited_by) == (blocks, limited_by)
    assert found.warps_per_sm == blocks * -(-threads // 32)


@pytest.fixture(scope="module")
def nvidias(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program made of NVIDIA's own header."""
    nvcc = cuda_toolkit().nvcc_path
    if nvcc is None or c_compiler() is None:
        pytest.skip("no nvcc, or no C compiler: install the CUDA toolkit or set CUDA_HOME")
    folder = tmp_path_factory.mktemp("occupancy")
    (folder / "calculator.cpp").write_text(NVIDIA, encoding="utf-8")
    command = [nvcc, "-O1", "--cudart", "none", "-o", "calculator", "calculator.cpp"]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    if "cuda_occupancy.h" in made.stderr:
        pytest.skip("the CUDA toolkit here has no cuda_occupancy.h")
    assert made.returncode == 0, made.stderr
    return folder / "calculator"


@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_the_blocks_and_their_limits_are_those_of_nvidias_header(arch: str, nvidias: Path) -> None:
    limits = sm_limits(arch)
    assert limits is not None
    fitting = [shared for shared in SHARED_BYTES if shared <= limits.shared_per_block_bytes]
    cases = list(itertools.product(THREADS, REGISTERS, fitting))
    told = "".join(f"{_device(limits)} {threads} {registers} {shared}\n" for threads, registers, shared in cases)
    said = subprocess.run([nvidias], input=told, capture_output=True, text=True, timeout=60, check=True).stdout.split("\n")[:-1]
    for (threads, registers, shared), line in zip(cases, said, strict=True):
        blocks, bits = map(int, line.split())
        found = occupancy(limits, threads_per_block=threads, registers=registers, shared_bytes=shared)
        words = {word for bit, word in NVIDIAS_WORDS.items() if bits & bit}
        assert (found.blocks_per_sm, set(found.limited_by)) == (blocks, words), (threads, registers, shared)


def _device(limits: SmLimits) -> str:
    version = limits.arch.removeprefix("sm_")
    return (
        f"{version[:-1]} {version[-1]} {32 * limits.warps} {limits.registers_per_block} "
        f"{limits.shared_bytes} {limits.shared_per_block_bytes} {limits.reserved_bytes}"
    )


def test_the_share_is_that_of_the_warps() -> None:
    assert of("sm_90", threads=256, registers=128).share == pytest.approx(16 / 64)
    assert of("sm_86", threads=33, registers=16).warps_per_sm == 32  # 16 blocks of two warps


@pytest.mark.parametrize("arch", ["sm_20", "sm_999", "", "gfx90a", "sm_"])
def test_an_architecture_that_the_table_lacks_has_no_limits(arch: str) -> None:
    assert sm_limits(arch) is None


def test_features_of_an_architecture_change_no_limits() -> None:
    limits, accelerated = sm_limits("sm_90"), sm_limits("sm_90a")
    assert limits is not None
    assert accelerated is not None
    assert (limits.warps, limits.shared_bytes) == (accelerated.warps, accelerated.shared_bytes)
