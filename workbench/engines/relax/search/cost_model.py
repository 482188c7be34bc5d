"""Predicts how fast a schedule is from its decisions alone, and learns from what was measured.

What AutoTVM called knob features (Chen et al., Learning to Optimize Tensor Programs, NeurIPS 2018), for the sketches of MetaSchedule: tile factors as
powers of two, choices, and which sketch it is. Within one kernel they rank schedules better than features of the loops
(docs/design.md), and they need no schedule to be made.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.engines.relax.search.sketches import Genome, Sketch
from workbench.escaping import plain

try:
    import xgboost
except Exception as error:  # noqa: BLE001 - a library that does not fit this machine or NumPy raises errors of many kinds
    WITHOUT_XGBOOST = f"No cost model guides the search, because xgboost does not load ({type(error).__name__}: {plain(str(error), 200)})."
else:
    WITHOUT_XGBOOST = ""
"""Why nothing can be learned here, in a sentence; empty if it can."""

LEAST_SAMPLES = 8
_MOST_SAMPLES = 1024
_RECENT = 384
_MOST_INVALID = 384
_ROUNDS = 150
_MEMBERS = 4
"""Models that saw other samples and columns; where they disagree, it pays to look."""

_NEWS = 0.06
"""Share of new samples from which on a fit is worth its time."""

_SLOWEST = -5.0
"""Speeds are logarithms of the best time divided by the schedule's; below this, one is as bad as another."""

_INVALID = -7.0
_BUILD_PRICE = 0.5
_USUAL = 0.4
"""Half as long again as the median is a usual build."""

_PARAMETERS = {
    "max_depth": 4,
    "eta": 0.08,
    "min_child_weight": 0.5,
    "subsample": 0.7,
    "colsample_bytree": 0.5,
    "objective": "reg:squarederror",
    "tree_method": "hist",
    "max_bin": 64,
    "verbosity": 0,
    "nthread": 1,  # so little data is fitted faster by one thread
}

Array = np.ndarray[Any, Any]


class CostModel:
    """Gradient-boosted trees on the logarithm of relative speed: 0 for the task's best, negative for slower ones.

    Equal samples and seeds give equal predictions; a sample is a time and the seconds that its build took, in which no two runs are alike.

    Args:
        sketches: What genomes are of.
        seed: Seed of the sampling of rows and columns.
    """

    def __init__(self, sketches: Sequence[Sketch], *, seed: int) -> None:
        self._seed = seed % 2**31
        self._parameters = {**_PARAMETERS, "seed": self._seed}
        self._sketches = sketches
        structures = list(dict.fromkeys(_structure(sketch) for sketch in sketches))
        widths = [sum(parts for _, _, parts in structure) for structure in structures]
        starts = [sum(widths[:index]) for index in range(len(widths))]
        self._starts = [starts[structures.index(_structure(sketch))] for sketch in sketches]
        self._width = sum(widths)
        self._rows: list[Array] = []
        self._times_us: list[float] = []  # infinity for a failed one
        self._builds_s: list[float] = []
        self._invalid: list[Array] = []
        self._members: list[xgboost.Booster] = []
        self._build_booster: xgboost.Booster | None = None
        self._news = 0

    @property
    def is_fitted(self) -> bool:
        """True once enough is known to predict."""
        return bool(self._members)

    def add(self, genome: Genome, time_us: float | None, *, build_s: float = 0.0) -> None:
        """Take note of a measured schedule; None for one that failed. Building took `build_s` seconds, 0 if that is not known."""
        self._rows.append(self._row(genome))
        self._builds_s.append(build_s)
        self._times_us.append(math.inf if time_us is None else time_us)
        self._news += 1
        if len(self._times_us) >= 2 * _MOST_SAMPLES:
            self._forget()

    def add_invalid(self, genome: Genome) -> None:
        """Take note of decisions that gave no schedule."""
        self._invalid.append(self._row(genome))
        del self._invalid[:-_MOST_INVALID]

    def fit(self) -> None:
        """Fit to what is known, if that is enough and new enough; the time it takes is bounded however much is known."""
        if WITHOUT_XGBOOST or (self._members and self._news < _NEWS * len(self._times_us)):
            return
        times = np.asarray(self._times_us)
        finite = times[np.isfinite(times)]
        if len(times) < LEAST_SAMPLES or not len(finite):
            return
        self._news = 0
        speeds = np.maximum(np.log(finite.min() / times, where=np.isfinite(times), out=np.full(len(times), -math.inf)), _SLOWEST)
        rows = np.stack([*self._rows, *self._invalid])
        labels = np.concatenate([speeds, np.full(len(self._invalid), _INVALID)])
        data = xgboost.DMatrix(rows, label=labels, nthread=1)
        self._members = [
            xgboost.train({**self._parameters, "seed": (self._seed + member) % 2**31}, data, num_boost_round=_ROUNDS) for member in range(_MEMBERS)
        ]
        self._fit_builds()

    def _fit_builds(self) -> None:
        """Learn how many times the usual a build takes, as a logarithm."""
        known = [place for place, seconds in enumerate(self._builds_s) if seconds > 0]
        if len(known) < LEAST_SAMPLES:
            return
        seconds = np.asarray([self._builds_s[place] for place in known])
        rows = np.stack([self._rows[place] for place in known])
        excess = np.log(seconds / np.median(seconds))
        self._build_booster = xgboost.train(self._parameters, xgboost.DMatrix(rows, label=excess, nthread=1), num_boost_round=_ROUNDS)

    def predict(self, genomes: Sequence[Genome]) -> Array:
        """Speeds of schedules in the mean of all members; see `opinions`."""
        means: Array = self.opinions(genomes).mean(axis=0)
        return means

    def opinions(self, genomes: Sequence[Genome]) -> Array:
        """Speeds of schedules as each member of the ensemble sees them, larger for faster ones; all 0 while too little is known.

        Of two that are about as fast, the one that builds in the usual time is preferred: huge unrolled bodies cost ten builds and win nothing.

        Returns:
            Shape (number of members, number of genomes).
        """
        if not self._members or not genomes:
            return np.zeros((1, len(genomes)), np.float32)
        rows = np.stack([self._row(genome) for genome in genomes])
        predicted: Array = np.stack([member.inplace_predict(rows) for member in self._members])
        if self._build_booster is not None:
            excess = self._build_booster.inplace_predict(rows)
            predicted = predicted - _BUILD_PRICE * np.maximum(excess - _USUAL, 0.0)
        return predicted

    def _row(self, genome: Genome) -> Array:
        """Decisions in the columns of the sketch's structure, which alike sketches share; then which sketch it is."""
        row = np.full(self._width + len(self._sketches), np.nan, np.float32)
        row[self._width :] = 0.0
        row[self._width + genome.sketch] = 1.0
        values = self._sketches[genome.sketch].features(genome)
        start = self._starts[genome.sketch]
        row[start : start + len(values)] = values
        return row

    def _forget(self) -> None:
        """Keep the newest samples and the fastest ones, so that memory is bounded."""
        older = len(self._times_us) - _RECENT
        order = sorted(range(older), key=lambda index: (self._times_us[index], index))
        kept = [*sorted(order[: _MOST_SAMPLES - _RECENT]), *range(older, len(self._times_us))]
        self._rows = [self._rows[index] for index in kept]
        self._times_us = [self._times_us[index] for index in kept]
        self._builds_s = [self._builds_s[index] for index in kept]


def _structure(sketch: Sketch) -> tuple[tuple[str, int, int], ...]:
    return tuple((gene.kind, gene.extent, gene.parts) for gene in sketch.genes)
