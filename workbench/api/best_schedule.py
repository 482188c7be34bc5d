"""What `workbench.SearchTask` hands out at the end: one kernel's best schedule, in every form."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from workbench.escaping import plain
from workbench.records.number import microseconds


@dataclass(frozen=True)
class BestSchedule:
    """What a search found for one kernel.

    Attributes:
        kernel: Name of the kernel.
        trial: Number of the winner's trial.
        is_baseline: True if nothing is faster than the untuned kernel, which is then what this is.
        time_us: Its time.
        baseline_us: Time of the untuned kernel.
        verdict: ``faster`` or ``not faster``; None if the search ended before it could say.
        why: The verdict in a sentence with its figures.
        decisions: Sampling decisions in words.
        trace: The schedule in TVM's own form (JSON text); empty for the baseline.
        schedule: Python that makes the same schedule.
        tir: The scheduled kernel in TVMScript.
        library: A library for ``tvm.runtime.load_module``; its function has the kernel's name, and takes inputs and outputs.
    """

    kernel: str
    trial: int
    is_baseline: bool
    time_us: float
    baseline_us: float | None
    verdict: str | None
    why: str
    decisions: tuple[str, ...]
    trace: str
    schedule: str
    tir: str
    library: Path

    def __str__(self) -> str:
        what = "the untuned kernel is kept" if self.is_baseline else f"trial {self.trial}"
        return f"{plain(self.kernel)}: {what}, {microseconds(self.time_us, decimals=1)} us ({plain(self.why, 200)})"
