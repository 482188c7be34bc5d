"""Two sessions side by side: which kernels they share, how fast each is there, and whether that is a difference or noise."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.records.profile import Profile, Task
from workbench.records.tuning import TaskProgress

_NOTCH = 1.57
"""Half-width of a median's 95 % interval in IQR / sqrt(n) (McGill, Tukey and Larsen, 1978)."""

SECOND_FASTER = "second faster"
FIRST_FASTER = "first faster"
NO_DIFFERENCE = "no difference"
UNKNOWN = "unknown"

BOTH, ONLY_FIRST, ONLY_SECOND = "both", "first", "second"


@dataclass(frozen=True)
class Side:
    """One session.

    Attributes:
        name: What to call it.
        profile: Its profile.
        hashes: Structural hash of each task's kernels.
        tasks: How far each task is.
        facts: What decides whether times can be compared, by name: processor, threads, target, versions.
        tuned: One run of the model with what was applied, end to end; None if nothing was.
    """

    name: str
    profile: Profile
    hashes: Mapping[str, str]
    tasks: Sequence[TaskProgress]
    facts: Mapping[str, str]
    tuned: Known | None = None


@dataclass(frozen=True)
class Known:
    """A time and how well it is known.

    Attributes:
        median_us: The time.
        half_width_us: Half of the median's confidence interval; None where no spread is known.
    """

    median_us: float
    half_width_us: float | None

    def scaled(self, factor: float) -> Known:
        """The same for so many calls."""
        return Known(self.median_us * factor, None if self.half_width_us is None else self.half_width_us * factor)


@dataclass(frozen=True)
class Judged:
    """One time in both sessions; each may be missing.

    Attributes:
        first: In the first session.
        second: In the second.
        ratio: The first divided by the second: above 1 the second is faster.
        ratio_error: Half-width of the ratio's confidence interval; None where a spread is not known.
        verdict: ``second faster``, ``first faster``, ``no difference`` beyond the noise, or ``unknown``.
    """

    first: Known | None
    second: Known | None
    ratio: float | None = None
    ratio_error: float | None = None
    verdict: str = UNKNOWN

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {
            "first_us": None if self.first is None else self.first.median_us,
            "second_us": None if self.second is None else self.second.median_us,
            "ratio": self.ratio,
            "ratio_error": self.ratio_error,
            "verdict": self.verdict,
        }


@dataclass(frozen=True)
class KernelPair:
    """One kernel in both sessions, or in one of them.

    Attributes:
        kernel: Its name.
        found: ``both``, ``first`` or ``second``.
        calls: Rows that call it, in each.
        untuned: All its calls in one run of the model, untuned.
        best: One call with what the search found; the untuned kernel where nothing was faster.
        trials: Trials in each.
    """

    kernel: str
    found: str
    calls: tuple[int, int]
    untuned: Judged
    best: Judged
    trials: tuple[int, int]

    @property
    def difference_us(self) -> float:
        """How far apart one run of the model is because of it."""
        first, second = (0.0 if side is None else side.median_us for side in (self.untuned.first, self.untuned.second))
        return abs(first - second)

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {
            "kernel": self.kernel,
            "found": self.found,
            "calls": list(self.calls),
            "untuned": self.untuned.to_dict(),
            "best": self.best.to_dict(),
            "trials": list(self.trials),
        }


@dataclass(frozen=True)
class SessionPair:
    """Two sessions.

    Attributes:
        first: Name of the first.
        second: Name of the second.
        total: One run of the untuned model, end to end.
        tuned: The same of the applied one; None of a session in which nothing was applied.
        kernels: The kernels, the largest differences first.
        notes: What makes the times of the two more than a matter of kernels.
    """

    first: str
    second: str
    total: Judged
    tuned: Judged
    kernels: tuple[KernelPair, ...]
    notes: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """As in ``compare --json``."""
        return {
            "first": self.first,
            "second": self.second,
            "total": self.total.to_dict(),
            "tuned": self.tuned.to_dict(),
            "kernels": [kernel.to_dict() for kernel in self.kernels],
            "notes": list(self.notes),
        }


def side_by_side(first: Side, second: Side) -> SessionPair:
    """Compare two sessions, kernel by kernel."""
    pairs = _pairs(first, second)
    kernels = [_kernel(first, second, ours, theirs) for ours, theirs in pairs]
    total = judged(*(known(side.profile.total_us, side.profile.total_us_iqr, side.profile.repeats) for side in (first, second)))
    largest_first = tuple(sorted(kernels, key=lambda kernel: -kernel.difference_us))
    return SessionPair(first.name, second.name, total, judged(first.tuned, second.tuned), largest_first, _notes(first, second))


def judged(first: Known | None, second: Known | None) -> Judged:
    """Say which of two times is less, if that is more than the noise."""
    if first is None or second is None or first.median_us <= 0 or second.median_us <= 0:
        return Judged(first, second)
    ratio = first.median_us / second.median_us
    if first.half_width_us is None or second.half_width_us is None:
        return Judged(first, second, ratio)
    noise = math.hypot(first.half_width_us, second.half_width_us)
    error = ratio * math.hypot(first.half_width_us / first.median_us, second.half_width_us / second.median_us)
    difference = first.median_us - second.median_us
    verdict = NO_DIFFERENCE if abs(difference) <= noise else SECOND_FASTER if difference > 0 else FIRST_FASTER
    return Judged(first, second, ratio, error, verdict)


def known(median_us: float | None, iqr_us: float | None, count: int) -> Known | None:
    """A median and how well so many times tell it; None without one."""
    if median_us is None:
        return None
    return Known(median_us, None if iqr_us is None or count < 3 else _NOTCH * iqr_us / math.sqrt(count))


def _pairs(first: Side, second: Side) -> list[tuple[Task | None, Task | None]]:
    """Tasks that are the same kernel: of equal structure; of what is left then, of equal name and shapes, since another TVM hashes otherwise."""
    left = {task.task: task for task in second.profile.tasks}
    found: dict[str, Task] = {}
    for same in (_structure, _name_and_shapes):
        of_key = {key: task for task in left.values() if (key := same(second, task)) is not None}
        for task in first.profile.tasks:
            key = None if task.task in found else same(first, task)
            if key in of_key:
                found[task.task] = left.pop(of_key.pop(key).task)
    return [*((task, found.get(task.task)) for task in first.profile.tasks), *((None, task) for task in left.values())]


def _structure(side: Side, task: Task) -> str | None:
    return side.hashes.get(task.task)


def _name_and_shapes(_: Side, task: Task) -> tuple[str, tuple[str, ...]]:
    return task.name, tuple(task.shapes)


def _kernel(first: Side, second: Side, ours: Task | None, theirs: Task | None) -> KernelPair:
    sides = ((first, ours), (second, theirs))
    found = BOTH if ours is not None and theirs is not None else ONLY_FIRST if theirs is None else ONLY_SECOND
    name = ours.name if ours is not None else theirs.name if theirs is not None else ""
    one, other = (None if task is None else _untuned(side.profile, task) for side, task in sides)
    best, other_best = (None if task is None else _best(side, task) for side, task in sides)
    counts = [0 if task is None else _trials(side, task) for side, task in sides]
    calls = [0 if task is None else task.weight for _, task in sides]
    return KernelPair(name, found, (calls[0], calls[1]), judged(one, other), judged(best, other_best), (counts[0], counts[1]))


def _untuned(profile: Profile, task: Task) -> Known | None:
    """All calls of a task in one run of the model."""
    rows = [profile.rows[row] for row in task.rows if row < len(profile.rows)]
    if task.time_us is None or not rows:
        return None
    times = [known(row.time_us, row.time_us_iqr, profile.repeats) for row in rows]
    widths = [item.half_width_us for item in times if item is not None and item.half_width_us is not None]
    return Known(task.time_us, math.hypot(*widths) if len(widths) == len(rows) else None)


def _best(side: Side, task: Task) -> Known | None:
    progress = next((item for item in side.tasks if item.task == task.task), None)
    if progress is None:
        return None
    final = progress.final
    if final is None:
        return None if progress.best_us is None else Known(progress.best_us, None)
    iqr = final.winner_us_iqr if final.winner else final.baseline_us_iqr
    return known(final.used_us, iqr, final.rounds)


def _trials(side: Side, task: Task) -> int:
    return next((item.trials for item in side.tasks if item.task == task.task), 0)


def _notes(first: Side, second: Side) -> tuple[str, ...]:
    """What else differs between the two."""
    names = sorted({*first.facts, *second.facts})
    different = [name for name in names if first.facts.get(name) != second.facts.get(name)]
    return tuple(f"{name}: {first.facts.get(name, 'unknown')} in the first, {second.facts.get(name, 'unknown')} in the second" for name in different)
