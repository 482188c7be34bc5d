"""Occupancy as NVIDIA's own header calculates it."""

from __future__ import annotations

import pytest

from workbench.analysis.occupancy import Occupancy, occupancy, sm_limits


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
    ],
)
def test_blocks_of_a_multiprocessor(arch: str, taken: tuple[int, int, int], blocks: int, limited_by: tuple[str, ...]) -> None:
    threads, registers, shared = taken
    found = of(arch, threads=threads, registers=registers, shared=shared)
    assert (found.blocks_per_sm, found.limited_by) == (blocks, limited_by)
    assert found.warps_per_sm == blocks * -(-threads // 32)


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
