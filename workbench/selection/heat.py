"""Owns how hot tasks are: their order, the share they cover, and what making them faster brings to the model."""

from __future__ import annotations

import math
from dataclasses import dataclass

from workbench.errors import SelectionError
from workbench.escaping import plain
from workbench.records.profile import Profile, Task
from workbench.records.selection import Selection


@dataclass(frozen=True)
class Heat:
    """What each task costs, by one yardstick.

    Attributes:
        measured: True if the costs are times in microseconds, False if they are arithmetic operations, for want of times.
        of: Cost of all rows of a task together, by task identifier.
        total: Cost of all rows, those included that cannot be tuned.
    """

    measured: bool
    of: dict[str, float]
    total: float

    @classmethod
    def from_profile(cls, profile: Profile) -> Heat:
        """Costs by time, or by FLOP where nothing was measured."""
        if profile.rows_us is not None and not profile.unmeasured:
            return cls(measured=True, of={task.task: task.time_us or 0.0 for task in profile.tasks}, total=profile.rows_us)
        return cls(
            measured=False,
            of={task.task: float(task.weight * (task.flop or 0)) for task in profile.tasks},
            total=float(sum(row.flop or 0 for row in profile.rows)),
        )

    def ranked(self, tasks: tuple[Task, ...]) -> tuple[Task, ...]:
        """Hottest first; equally hot ones in the order given."""
        return tuple(sorted(tasks, key=lambda task: -self.of[task.task]))


def hottest(profile: Profile) -> tuple[Task, ...]:
    """All tasks, hottest first: by time, or by FLOP where nothing was measured."""
    return Heat.from_profile(profile).ranked(profile.tasks)


def covered_share(profile: Profile, selection: Selection) -> float | None:
    """Share of all rows' time that the ticked tasks take, 0 to 1; of all rows' FLOP where nothing was measured.

    Returns:
        None if there is neither time nor FLOP to share.

    Raises:
        SelectionError: The selection names a task that the profile does not have.
    """
    heat = Heat.from_profile(profile)
    unknown = [item.task for item in selection.tasks if item.task not in heat.of]
    if unknown:
        raise SelectionError(
            f'The selection names "{plain(unknown[0])}", which is no task of {plain(profile.model)} on {plain(profile.target)}.',
            "Select again from this profile.",
        )
    if heat.total <= 0:
        return None
    return min(1.0, math.fsum(heat.of[item.task] for item in selection.tasks) / heat.total)


def forecast_speedup(profile: Profile, selection: Selection, factor: float) -> float:
    """How much faster the whole model gets if every ticked task gets `factor` times faster (Amdahl's law over the rows' time).

    Raises:
        ValueError: `factor` is not a positive number.
        SelectionError: Nothing was measured, or the selection names a task that the profile does not have.
    """
    if not (math.isfinite(factor) and factor > 0):
        raise ValueError(f"factor must be a positive number, not {factor}")
    share = covered_share(profile, selection)
    if share is None or profile.unmeasured or profile.rows_us is None:
        raise SelectionError("Without measured times no speedup can be forecast.", "Profile on a machine that has the target's device.")
    return 1.0 / ((1.0 - share) + share / factor)
