"""What applying the winners gave, for Python users: the records, and a data frame of the kernels."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from workbench.escaping import plain
from workbench.records.comparison import Comparison as ComparisonRecord
from workbench.records.comparison import KernelComparison, Timing, Verification

if TYPE_CHECKING:
    import pandas as pd


class Comparison:
    """The tuned model beside the untuned one.

    Attributes:
        record: All of it as plain data.
        path: The folder of the applied model: ``model.so``, its parameters, ``load.py`` and its records.
    """

    def __init__(self, record: ComparisonRecord, path: Path) -> None:
        self.record = record
        self.path = path

    @property
    def applied(self) -> bool:
        """True if the model was verified and is now the session's applied model; if not, that is what it was before."""
        return self.record.applied

    @property
    def verified(self) -> bool | None:
        """True if the outputs of both models agree on all inputs."""
        return self.record.verification.verified

    @property
    def verification(self) -> Verification:
        """What was compared, and what differs."""
        return self.record.verification

    @property
    def total(self) -> Timing:
        """The whole model before and after."""
        return self.record.total

    @property
    def speedup(self) -> float | None:
        """How many times as fast the whole model is; None if it was not measured."""
        return self.record.total.ratio

    @property
    def kernels(self) -> tuple[KernelComparison, ...]:
        """Each kernel before and after, what it uses, and why."""
        return self.record.kernels

    def frame(self) -> pd.DataFrame:
        """One row a kernel, indexed by its name; times are of one call in microseconds. ``attrs["notes"]`` lists what a reader must know."""
        import pandas as pd  # noqa: PLC0415 - pandas takes 0.3 s to load, and only this method needs it

        timing = [item.name for item in fields(Timing)]
        order = [item.name for item in fields(KernelComparison) if item.name not in ("kernel", *timing)]
        records = [vars(kernel) for kernel in self.record.kernels]
        frame = pd.DataFrame.from_records(records, columns=["kernel", *order, *timing], index="kernel")
        frame.attrs["notes"] = list(self.record.notes)
        return frame

    def to_dict(self) -> dict[str, Any]:
        """The comparison as in ``apply --json``."""
        return self.record.to_dict()

    def __repr__(self) -> str:
        record = self.record
        if not record.applied:
            return f"<Comparison {plain(record.model)}: nothing was applied: {plain(record.verification.reason, 200)}>"
        speed = record.total.text or "not measured"
        return f"<Comparison {plain(record.model)}: {len(record.used_records)} of {len(record.kernels)} kernels tuned, {plain(speed, 200)}>"
