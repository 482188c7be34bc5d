"""How many blocks of a CUDA kernel fit on one multiprocessor, and what limits them.

The calculation is that of NVIDIA's ``cuda_occupancy.h`` (CUDA toolkit 13.0), the limits those of its ``cudaOcc...`` functions and of the table
"Technical Specifications per Compute Capability" in the CUDA C++ Programming Guide.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

SOURCE = "cuda_occupancy.h of CUDA 13.0, limits of the CUDA C++ Programming Guide"

_ARCH = re.compile(r"sm_(\d+)(\d)[af]?")
_WARP = 32
_KIB = 1024
_REGISTERS = 65536
_REGISTER_UNIT = 256
_MOST_REGISTERS_PER_THREAD = 255
_MOST_THREADS_PER_BLOCK = 1024


@dataclass(frozen=True)
class SmLimits:
    """What one streaming multiprocessor has.

    Attributes:
        arch: Its architecture, e.g. ``sm_90``.
        warps: Warps at once.
        blocks: Blocks at once.
        shared_bytes: Shared memory.
        shared_per_block_bytes: Most shared memory of one block, static memory and what is asked for dynamically together.
        shared_unit_bytes: Shared memory is given out in units of this.
        reserved_bytes: Shared memory of each block that the driver keeps.
        partitions: Parts that the registers are split into.
        partitions_per_block: Parts over which the registers of one block have to fit, all taken alike.
        registers_per_block: Most registers of one block.
    """

    arch: str
    warps: int
    blocks: int
    shared_bytes: int
    shared_per_block_bytes: int
    shared_unit_bytes: int
    reserved_bytes: int
    partitions: int = 4
    partitions_per_block: int = 4
    registers_per_block: int = _REGISTERS


@dataclass(frozen=True)
class Occupancy:
    """How full a multiprocessor can be.

    Attributes:
        blocks_per_sm: Blocks that fit at once; 0 if not even one does.
        warps_per_sm: Their warps.
        most_warps: Warps that the multiprocessor can have.
        limited_by: What allows no more blocks: ``warps``, ``blocks``, ``registers``, ``shared memory``.
    """

    blocks_per_sm: int
    warps_per_sm: int
    most_warps: int
    limited_by: tuple[str, ...]

    @property
    def share(self) -> float:
        """Warps that fit, of those that there could be: 0 to 1."""
        return self.warps_per_sm / self.most_warps


# Warps, blocks, shared KiB of a multiprocessor, and of a block; by compute capability.
_SMS = {
    (5, 0): (64, 32, 64, 48),
    (5, 2): (64, 32, 96, 48),
    (5, 3): (64, 32, 64, 48),
    (6, 0): (64, 32, 64, 48),
    (6, 1): (64, 32, 96, 48),
    (6, 2): (64, 32, 64, 48),
    (7, 0): (64, 32, 96, 96),
    (7, 2): (64, 32, 96, 96),
    (7, 5): (32, 16, 64, 64),
    (8, 0): (64, 32, 164, 163),
    (8, 6): (48, 16, 100, 99),
    (8, 7): (48, 16, 164, 163),
    (8, 9): (48, 24, 100, 99),
    (9, 0): (64, 32, 228, 227),
    (10, 0): (64, 32, 228, 227),
    (10, 3): (64, 32, 228, 227),
    (11, 0): (48, 24, 228, 227),
    (12, 0): (48, 24, 100, 99),
    (12, 1): (48, 24, 100, 99),
}
_REGISTERS_PER_BLOCK = {(5, 3): 32768, (6, 2): 32768}


def sm_limits(arch: str) -> SmLimits | None:
    """The multiprocessor of an architecture; None for one that the table does not have."""
    match = _ARCH.fullmatch(arch)
    key = (int(match[1]), int(match[2])) if match else (0, 0)
    if key not in _SMS:
        return None
    warps, blocks, shared, per_block = _SMS[key]
    return SmLimits(
        arch=arch,
        warps=warps,
        blocks=blocks,
        shared_bytes=shared * _KIB,
        shared_per_block_bytes=per_block * _KIB,
        shared_unit_bytes=128 if key[0] >= 8 else 256,
        reserved_bytes=_KIB if key[0] >= 8 else 0,
        partitions=2 if key == (6, 0) else 4,  # one block of sm_60 has to fit sm_61 too, which has 4
        registers_per_block=_REGISTERS_PER_BLOCK.get(key, _REGISTERS),
    )


def occupancy(limits: SmLimits, *, threads_per_block: int, registers: int, shared_bytes: int) -> Occupancy:
    """How many blocks fit.

    Args:
        limits: Of the multiprocessor.
        threads_per_block: Threads of a block, at least 1.
        registers: Registers of a thread.
        shared_bytes: Shared memory of a block, static and dynamic.
    """
    warps = -(-threads_per_block // _WARP)
    fitting = {"warps": limits.warps // warps if threads_per_block <= _MOST_THREADS_PER_BLOCK else 0, "blocks": limits.blocks}
    if registers:
        fitting["registers"] = _by_registers(limits, warps, registers)
    if shared_bytes + limits.reserved_bytes:
        fitting["shared memory"] = _by_shared_memory(limits, shared_bytes)
    blocks = min(fitting.values())
    return Occupancy(blocks, blocks * warps, limits.warps, tuple(name for name, count in fitting.items() if count == blocks))


def _by_registers(limits: SmLimits, warps: int, registers: int) -> int:
    per_warp = _rounded_up(registers * _WARP, _REGISTER_UNIT)
    if registers > _MOST_REGISTERS_PER_THREAD or per_warp * _rounded_up(warps, limits.partitions_per_block) > limits.registers_per_block:
        return 0
    return _REGISTERS // limits.partitions // per_warp * limits.partitions // warps


def _by_shared_memory(limits: SmLimits, shared_bytes: int) -> int:
    if shared_bytes > limits.shared_per_block_bytes:
        return 0
    return limits.shared_bytes // _rounded_up(shared_bytes + limits.reserved_bytes, limits.shared_unit_bytes)


def _rounded_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit
