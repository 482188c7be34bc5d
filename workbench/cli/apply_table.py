"""Owns the table of an applied model: each kernel before and after, what it uses and why, the whole, and how it was verified; decides nothing."""

from __future__ import annotations

from collections.abc import Iterator

from rich.console import Group, RenderableType

from workbench.analysis.roofline import limit_percent
from workbench.cli import formats
from workbench.cli.grid import Column, Grid, Line, Sentence
from workbench.escaping import plain
from workbench.records.comparison import FASTER, RECORD, SLOWER, Comparison, KernelComparison, Timing, Verification
from workbench.records.peaks import Peaks
from workbench.records.profile import Profile

_COLUMNS = (
    Column("Kernel", priority=0, least=12),
    Column("Calls", priority=7, right=True),
    Column("Used", priority=1),
    Column("Before(us)", priority=3, right=True),
    Column("IQR", priority=8, right=True),
    Column("After(us)", priority=2, right=True),
    Column("IQR", priority=9, right=True),
    Column("Gain", priority=4, right=True, style="green"),
    Column("Verdict", priority=5),
    Column("Limit(%)", priority=10, right=True),
    Column("Why", priority=6, least=24),
)
_STYLES = {FASTER: "", SLOWER: "red"}
_MOST_FAULTS = 5


def apply_table(comparison: Comparison, profile: Profile | None = None, peaks: Peaks | None = None) -> RenderableType:
    """What came of applying.

    Args:
        comparison: What applying gave.
        profile: What it was applied to; with `peaks`, the table says how close each kernel comes to the device's limit.
        peaks: The limits of the device.
    """
    limits = _limits(comparison, profile, peaks)
    sentences = [*_totals(comparison), *_verification(comparison.verification)]
    sentences += [("yellow", remark) for remark in comparison.notes]
    return Group(
        Grid(
            _COLUMNS, tuple(_line(kernel, limits.get(kernel.kernel, "")) for kernel in comparison.kernels), remedy="widen the terminal, or use --json"
        ),
        *(Sentence(words, style=style) for style, words in sentences),
    )


def gain_text(timing: Timing) -> str:
    """``1.90x ± 0.05``; ``-`` if it was not measured."""
    if timing.ratio is None:
        return "-"
    return f"{timing.ratio:.2f}x" + (f" ± {timing.ratio_error:.2f}" if timing.ratio_error is not None else "")


def _limits(comparison: Comparison, profile: Profile | None, peaks: Peaks | None) -> dict[str, str]:
    """The least time that the device could take for a call, in percent of the time that it takes now, by kernel."""
    tasks = {} if profile is None else {task.task: task for task in profile.tasks}
    found = {}
    for kernel in comparison.kernels:
        task = tasks.get(kernel.task)
        if profile is not None and task is not None:
            percent = limit_percent(peaks, flop=task.flop, moved_bytes=task.tensor_bytes, time_us=profile.resolved_us(kernel.tuned_us))
            found[kernel.kernel] = "" if percent is None else formats.gflops(percent)
    return found


def _line(kernel: KernelComparison, limit: str) -> Line:
    is_tuned = kernel.used == RECORD
    return Line(
        cells=(
            kernel.kernel,
            str(kernel.weight),
            f"trial {kernel.trial}" if is_tuned else "baseline",
            formats.microseconds(kernel.baseline_us),
            formats.microseconds(kernel.baseline_us_iqr),
            formats.microseconds(kernel.tuned_us),
            formats.microseconds(kernel.tuned_us_iqr),
            gain_text(kernel) if is_tuned else "",
            kernel.verdict,
            limit,
            kernel.why,
        ),
        style=_STYLES.get(kernel.verdict, "dim") if is_tuned else "dim",
    )


def _totals(comparison: Comparison) -> Iterator[tuple[str, str]]:
    total = comparison.total
    calls = sum(kernel.weight for kernel in comparison.used_records)
    yield "bold", f"{len(comparison.used_records)} of {len(comparison.kernels)} kernels have the schedule of a trial, in {calls:,} calls"
    if total.baseline_us is not None:
        before, after = formats.microseconds(total.baseline_us), formats.microseconds(total.tuned_us)
        spreads = f"IQR {formats.microseconds(total.baseline_us_iqr)} and {formats.microseconds(total.tuned_us_iqr)}"
        yield "bold", f"the whole model: {before} to {after} us ({spreads}; {comparison.rounds} rounds by turns): {total.verdict}, {gain_text(total)}"


def _verification(found: Verification) -> Iterator[tuple[str, str]]:
    if found.verified:
        error = "not a number" if found.max_abs_err is None else f"{found.max_abs_err:.3g}"
        kernels = f"; {found.kernels_checked:,} kernel calls checked one by one" if found.kernels_checked else ""
        yield "green", f"verified: the outputs agree on {len(found.seeds)} random inputs, the largest difference is {error}{kernels}"
    else:
        yield "red", f"not verified: {plain(found.reason, 560)}"
        for difference in found.failures[:_MOST_FAULTS]:
            yield "red", f"  {difference}"
    if found.verified and found.reason:
        yield "yellow", found.reason
    if found.random_weights:
        yield "", f"random weights: {found.random_weights}"
    if found.onnxruntime:
        yield "", f"onnxruntime: {found.onnxruntime}"
