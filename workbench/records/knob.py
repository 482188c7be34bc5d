"""The decisions of a schedule by block and loop, and which of them matter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from workbench.records.decode import decode


@dataclass(frozen=True)
class Knob:
    """One decision of a schedule.

    Attributes:
        knob: Its name, unique within the schedule: ``tile conv2d_nchw/ff``.
        kind: ``tile``, ``unroll``, ``compute at``, ``bind``, ``vectorize``, ``parallel``, and so on.
        block: The block that it is about; empty if it cannot be told.
        loop: Name of the loop that it is about, as the kernel calls it at that point; empty if it is about none.
        value: What was decided: ``1 x 4 x 7 x 2``, ``64``, ``threadIdx.x``.
        sampled: True if a search chooses it; False if it follows from the others or from the space.
        instruction: Place of its instruction in the trace.
    """

    knob: str
    kind: str
    block: str
    loop: str
    value: str
    sampled: bool
    instruction: int

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Knob:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


@dataclass(frozen=True)
class KnobLevel:
    """The trials in which a knob had one value.

    Attributes:
        value: The value, or a range of values.
        trials: How many.
        relative_time: Geometric mean of their times, relative to that of all trials of the same sketch; below 1 is faster.
    """

    value: str
    trials: int
    relative_time: float


@dataclass(frozen=True)
class KnobEffect:
    """How much one knob alone tells of the time.

    Attributes:
        knob: Its name: that of `Knob`, with the factor for a tiling: ``tile conv2d_nchw/ff, factor 4 of 4``.
        share: Share of the variance of the logarithm of the time that it explains alone, less what chance would, 0 to 1.
        p_value: Chance of such a share for any knob of the task if none mattered (permutations, largest of all knobs).
        matters: True if that chance is below 5 %.
        ratio: Geometric mean time at its slowest value divided by that at its fastest, values of at least three trials alone; None if it has
            fewer than two such values.
        ratio_low: Lower end of the ratio's 95 % bootstrap interval.
        ratio_high: Upper end.
        trials: Trials that have this knob.
        levels: Its values, fastest first.
    """

    knob: str
    share: float
    p_value: float
    matters: bool
    ratio: float | None
    ratio_low: float | None
    ratio_high: float | None
    trials: int
    levels: tuple[KnobLevel, ...]


@dataclass(frozen=True)
class KnobEffects:
    """Which knobs matter, over the measured trials of one task.

    Attributes:
        task: The task.
        trials: Trials that were used.
        sketches: Number of sketches that they are of.
        method: How it was found out, in one sentence.
        note: What a reader must know, such as that there are too few trials; empty for nothing.
        effects: The largest share first.
    """

    task: str
    trials: int
    sketches: int
    method: str
    note: str
    effects: tuple[KnobEffect, ...]

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self) | {"effects": [asdict(effect) | {"levels": [asdict(level) for level in effect.levels]} for effect in self.effects]}
