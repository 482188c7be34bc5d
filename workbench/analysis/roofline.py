"""How far a kernel is from what its device can do at most: the roofline model.

S. Williams, A. Waterman, D. Patterson: Roofline: an insightful visual performance model for multicore architectures. Communications of the ACM 52(4),
2009: attainable FLOP/s = min(peak FLOP/s, peak bandwidth x arithmetic intensity). Here the bytes are those that must be moved at least once (every
input and output once), and the bandwidth is the one measured for a working set of that size, since a small kernel's tensors stay in a cache.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from workbench.records.peaks import Bandwidth, Peaks, Rate
from workbench.records.profile import Profile

SOURCE = "Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009"
COMPUTE = "compute"
MEMORY = "memory"


@dataclass(frozen=True)
class Roofline:
    """One kernel under the roof of its device.

    Attributes:
        flop: Arithmetic operations of a call.
        moved_bytes: Bytes of all inputs and outputs.
        intensity: FLOP a byte; None without bytes.
        limit_us: Least time that the device could take for a call.
        bound: What that limit is by: ``compute`` or ``memory``.
        place: Which memory's bandwidth it is: ``L2``, ``L3``, ``memory``.
        attainable_gflops: Arithmetic at the limit, in 10^9 FLOP/s.
        time_us: Time of a call; None if it is not known.
        gflops: Arithmetic at that time.
        percent: The limit in percent of the time: 100 is as fast as can be.
    """

    flop: int
    moved_bytes: int
    intensity: float | None
    limit_us: float
    bound: str
    place: str
    attainable_gflops: float
    time_us: float | None
    gflops: float | None
    percent: float | None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self)


def roofline(peaks: Peaks | None, *, flop: int | None, moved_bytes: int | None, time_us: float | None = None) -> Roofline | None:
    """A kernel under the roof; None where the device's limits or the kernel's figures are not known, or the kernel does nothing.

    Args:
        peaks: The device's limits.
        flop: Arithmetic operations of one call.
        moved_bytes: Bytes of all inputs and outputs.
        time_us: Time of one call.
    """
    if peaks is None or peaks.flop_per_s is None or not peaks.bandwidths or flop is None or moved_bytes is None:
        return None
    memory = bandwidth_for(peaks, moved_bytes)
    compute_us = flop / peaks.flop_per_s.best * 1e6
    memory_us = moved_bytes / memory.bytes_per_s.best * 1e6
    limit_us = max(compute_us, memory_us)
    if limit_us <= 0:
        return None
    known_us = time_us if time_us is not None and time_us > 0 else None
    return Roofline(
        flop=flop,
        moved_bytes=moved_bytes,
        intensity=flop / moved_bytes if moved_bytes else None,
        limit_us=limit_us,
        bound=COMPUTE if compute_us >= memory_us else MEMORY,
        place=memory.place,
        attainable_gflops=flop / limit_us / 1e3,
        time_us=known_us,
        gflops=None if known_us is None else flop / known_us / 1e3,
        percent=None if known_us is None else 100.0 * limit_us / known_us,
    )


def limit_percent(peaks: Peaks | None, *, flop: int | None, moved_bytes: int | None, time_us: float | None) -> float | None:
    """The least time that the device could take, in percent of the time that a call takes; None where that is not known."""
    found = roofline(peaks, flop=flop, moved_bytes=moved_bytes, time_us=time_us)
    return None if found is None else found.percent


def row_limits(profile: Profile, peaks: Peaks | None) -> dict[int, float]:
    """The least time that the device could take, in percent of each row's time, by the row's number; rows of which it is not known are left out."""
    sizes = {task.task: task.tensor_bytes for task in profile.tasks}
    found = {
        row.row: limit_percent(peaks, flop=row.flop, moved_bytes=sizes.get(row.task or ""), time_us=profile.resolved_us(row.time_us))
        for row in profile.rows
    }
    return {row: percent for row, percent in found.items() if percent is not None}


def bandwidth_for(peaks: Peaks, working_set_bytes: int) -> Bandwidth:
    """The bandwidth of the smallest measured working set that is as large; of the largest one beyond them all."""
    return next((item for item in peaks.bandwidths if working_set_bytes <= item.working_set_bytes), peaks.bandwidths[-1])


def roofline_text(found: Roofline | None, peaks: Peaks | None) -> str:
    """What a reader is told of the limit, as lines of plain text."""
    if found is None or peaks is None or peaks.flop_per_s is None:
        reason = "not measured" if peaks is None else peaks.unmeasured or "the FLOP or the bytes of the kernel are not known"
        return f"limit of the device: {reason}\n"
    memory = bandwidth_for(peaks, found.moved_bytes)
    intensity = "" if found.intensity is None else f", {found.intensity:.3g} FLOP/byte"
    lines = [
        f"device: {peaks.device}",
        f"peak: {_rate(peaks.flop_per_s, 'GFLOP/s')}; {memory.place}: {_rate(memory.bytes_per_s, 'GB/s')}",
        f"work: {found.flop:,} FLOP, {found.moved_bytes:,} bytes at least{intensity}",
        f"limit: {found.limit_us:,.2f} us, by {found.bound} ({found.attainable_gflops:,.1f} GFLOP/s)",
    ]
    if found.time_us is not None and found.gflops is not None and found.percent is not None:
        lines.append(f"time: {found.time_us:,.2f} us ({found.gflops:,.1f} GFLOP/s), {found.percent:.1f} % of the limit")
    return "\n".join([*lines, f"formula: {SOURCE}", ""])


def _rate(rate: Rate, unit: str) -> str:
    return f"{rate.best / 1e9:,.1f} {unit} (median {rate.median / 1e9:,.1f}, IQR {rate.iqr / 1e9:,.2g}, {rate.repeats} times)"
