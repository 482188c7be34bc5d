"""What applying the winners gave: each kernel and the whole model before and after, measured by turns, and whether the results are right.

The JSON form of `Comparison` is the contract of ``apply --json`` (docs/design.md, section 7).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.records.decode import decode

RECORD = "record"
"""A kernel has the schedule of a recorded trial."""

BASELINE = "baseline"
"""A kernel is untuned (on a GPU: with dlight's default schedule)."""

FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no difference"
UNCHANGED = "unchanged"
UNMEASURED = "unmeasured"


@dataclass(frozen=True)
class Timing:
    """One thing before and after, measured by turns; times in microseconds.

    Attributes:
        baseline_us: Median before.
        baseline_us_iqr: Its spread, the distance between the quartiles.
        tuned_us: Median after.
        tuned_us_iqr: Its spread.
        ratio: How many times as fast it is after: the first median divided by the second.
        ratio_error: Half-width of the ratio's confidence interval.
        verdict: ``faster``, ``slower`` or ``no difference`` beyond the noise; ``unchanged`` if it is the same code; ``unmeasured``.
        text: The verdict in a sentence with its figures.
    """

    baseline_us: float | None = None
    baseline_us_iqr: float | None = None
    tuned_us: float | None = None
    tuned_us_iqr: float | None = None
    ratio: float | None = None
    ratio_error: float | None = None
    verdict: str = UNMEASURED
    text: str = ""


@dataclass(frozen=True)
class KernelComparison(Timing):
    """One kernel of the model before and after; its times are of one call inside the model, on average over the rows that call it.

    Attributes:
        kernel: Its name.
        task: The task that it belongs to.
        name: Name of the task's first kernel; kernels of equal structure are one task.
        weight: Rows that call it.
        rows: Those rows.
        used: ``record`` or ``baseline``.
        trial: The trial whose schedule it has; None for the baseline.
        considered: The trial that the search named and that was looked at, even if it is not used; None if there was none.
        considered_fingerprint: Structural hash of that trial's kernel; empty if the session alone speaks against it.
        was_slower: True if it is not used because it was slower within the model.
        why: Why this is used, in a sentence.
        fingerprint: Structural hash of the kernel as it was built; that of its trial where it has a schedule.
    """

    kernel: str = ""
    task: str = ""
    name: str = ""
    weight: int = 0
    rows: tuple[int, ...] = ()
    used: str = BASELINE
    trial: int | None = None
    considered: int | None = None
    considered_fingerprint: str = ""
    was_slower: bool = False
    why: str = ""
    fingerprint: str = ""


@dataclass(frozen=True)
class Difference:
    """A tensor that should equal another one, beside it.

    Attributes:
        what: Whose: ``output 0`` of the model, or of a kernel.
        against: What it is compared with: ``untuned`` or ``onnxruntime``.
        seed: Seed of the model's random inputs.
        kernel: The kernel that wrote it, run on the untuned model's own tensors; empty for an output of the model.
        row: The row that calls it; None for an output of the model.
        max_abs: Largest absolute difference; None if it is no number (NaN in one of the two).
        max_rel: Largest difference relative to the expected value; None as above.
        mismatches: Elements that differ by more than the tolerance.
        elements: Elements compared.
        abs_tolerance: Difference that is allowed everywhere.
        rel_tolerance: Difference that is allowed in addition, relative to the expected value.
        index: Where the difference is farthest beyond the tolerance, or largest.
        found: The value there, as text.
        expected: What it should be.
        dtype: Type of both; empty in a record of an older workbench.
    """

    what: str
    against: str
    seed: int
    kernel: str
    row: int | None
    max_abs: float | None
    max_rel: float | None
    mismatches: int
    elements: int
    abs_tolerance: float
    rel_tolerance: float
    index: tuple[int, ...] = ()
    found: str = ""
    expected: str = ""
    dtype: str = ""

    @property
    def passed(self) -> bool:
        """True if nothing differs by more than the tolerance."""
        return self.mismatches == 0

    def __str__(self) -> str:
        where = f"{self.what} of kernel {self.kernel} (row {self.row})" if self.kernel else f"{self.what} of the model"
        largest = "not a number" if self.max_abs is None else f"{self.max_abs:.3g}"
        place = f"[{', '.join(map(str, self.index))}]"
        return (
            f"{where}, inputs of seed {self.seed}: {self.mismatches:,} of {self.elements:,} elements differ from the {self.against} ones by more "
            f"than the tolerance; the largest difference is {largest}, at {place} it is {self.found} instead of {self.expected}"
        )


@dataclass(frozen=True)
class Verification:
    """Whether the tuned model computes what the untuned one does.

    Attributes:
        verified: True if all outputs agree on all inputs; False if some do not; None if nothing could be run.
        seeds: Seeds of the random inputs that both were run on.
        max_abs_err: Largest absolute difference of an output of the tuned model; None if it is no number, or nothing was compared.
        max_rel_err: Largest relative difference of one; None as above.
        differences: One for each output of the model and each input, and one for each kernel's output that is wrong.
        kernels_checked: How many kernel calls were compared one by one, on the untuned model's own tensors.
        faulty: Names of the kernels that compute something else.
        reason: What is wrong, in a sentence; empty if nothing is.
        onnxruntime: What the comparison with onnxruntime gave, or why there is none.
        random_weights: What a comparison with random weights gave, and why there was one; empty where the model's own prove enough.
    """

    verified: bool | None
    seeds: tuple[int, ...] = ()
    max_abs_err: float | None = None
    max_rel_err: float | None = None
    differences: tuple[Difference, ...] = ()
    kernels_checked: int = 0
    faulty: tuple[str, ...] = ()
    reason: str = ""
    onnxruntime: str = ""
    random_weights: str = ""

    @property
    def failures(self) -> tuple[Difference, ...]:
        """The tensors that differ by more than the tolerance; none where the model could not be built or run."""
        return tuple(difference for difference in self.differences if not difference.passed)

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Verification:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


@dataclass(frozen=True)
class Comparison:
    """The tuned model beside the untuned one.

    Attributes:
        model: What the user called the model.
        engine: The engine that built both.
        target: Label of the target.
        total: Whole runs, without instrumentation.
        kernels: The kernels that rows call, in the order of their first row.
        verification: Whether the results are right.
        applied: True if this is what ``tuned/`` holds.
        applied_at: Unix time.
        rounds: Measured rounds of each of the two.
        profile_id: The profile whose program was built.
        device: Index of the device that both ran on.
        notes: What a reader must know: trials that belong to no task of the profile, a whole that is not faster.
    """

    model: str
    engine: str
    target: str
    total: Timing
    kernels: tuple[KernelComparison, ...]
    verification: Verification
    applied: bool
    applied_at: float
    rounds: int = 0
    profile_id: str = ""
    device: int = 0
    notes: tuple[str, ...] = ()

    @property
    def used_records(self) -> tuple[KernelComparison, ...]:
        """The kernels that have the schedule of a trial."""
        return tuple(kernel for kernel in self.kernels if kernel.used == RECORD)

    @property
    def not_used(self) -> tuple[KernelComparison, ...]:
        """The kernels whose winner was looked at and is not used; ``why`` says why."""
        return tuple(kernel for kernel in self.kernels if kernel.used == BASELINE and kernel.considered is not None)

    def to_dict(self) -> dict[str, Any]:
        """The record as in ``apply --json``: the figures of the whole first, then everything else."""
        total = asdict(self.total)
        values = {
            "model": self.model,
            "engine": self.engine,
            "target": self.target,
            "speedup": self.total.ratio,
            "max_abs_err": self.verification.max_abs_err,
            "max_rel_err": self.verification.max_rel_err,
            "verified": self.verification.verified,
            "applied": self.applied,
            "applied_at": self.applied_at,
            "rounds": self.rounds,
            "profile_id": self.profile_id,
            "device": self.device,
            "notes": list(self.notes),
            "kernels": [{**asdict(kernel), "rows": list(kernel.rows)} for kernel in self.kernels],
            "verification": self.verification.to_dict(),
        }
        return {**total, **values}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Comparison:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, {**values, "total": values} if isinstance(values, Mapping) else values)
