"""Chooses candidates: an evolution whose population lives on between rounds, so that a round replays new schedules only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.engines.relax.search.cost_model import CostModel
from workbench.engines.relax.search.sampling import Sample, Sampler

_INITIAL = 48
_FRESH = 8
_GENERATIONS = 2
_CHILDREN = 24
_PARENTS = 32
_KEPT = 192
_RANDOM_SHARE = 0.1
_FRUITLESS_ROUNDS = 8


@dataclass(frozen=True)
class Elite:
    """A measured schedule that may become a parent."""

    trace: Any
    time_us: float


class Evolution:
    """Proposes samples that were never proposed before.

    Args:
        sampler: Makes the schedules.
        model: Predicts their speed.
        seed: Equal seeds and equal measured times give equal proposals.
    """

    def __init__(self, sampler: Sampler, model: CostModel, *, seed: int) -> None:
        self._sampler = sampler
        self._model = model
        self._random = np.random.default_rng(seed)
        self._pool: dict[str, Sample] = {}
        self._known: set[str] = set()
        self._elites: list[Elite] = []

    def forbid(self, fingerprint: str) -> None:
        """Never propose a schedule that was measured already."""
        self._known.add(fingerprint)
        self._pool.pop(fingerprint, None)

    def is_new(self, fingerprint: str) -> bool:
        """True unless a schedule was proposed or forbidden."""
        return fingerprint not in self._known

    def add_elite(self, trace: Any, time_us: float) -> None:
        """Let a measured schedule have children, if it is one of the fastest."""
        self._elites.append(Elite(trace, time_us))
        self._elites.sort(key=lambda elite: elite.time_us)
        del self._elites[_PARENTS:]

    def propose(self, count: int) -> list[Sample]:
        """The most promising samples, some of them picked at random; fewer if the space holds no more."""
        self._breed(count)
        ranked = self._ranked()
        chosen_at_random = min(round(count * _RANDOM_SHARE), len(ranked)) if self._model.is_fitted else min(count, len(ranked))
        best = ranked[: max(count - chosen_at_random, 0)]
        others = ranked[len(best) :]
        picked = self._random.permutation(len(others))[:chosen_at_random]
        chosen = [*best, *(others[int(index)] for index in sorted(picked))]
        for sample in chosen:
            self.forbid(sample.fingerprint)
        self._pool = {sample.fingerprint: sample for sample in self._ranked()[:_KEPT]}
        return chosen

    def _breed(self, count: int) -> None:
        """Have enough unmeasured schedules: fresh random ones, and generations of children of the best."""
        if not self._elites and not self._pool:
            self._sample(max(_INITIAL, 2 * count))
        else:
            self._sample(_FRESH)
        if self._model.is_fitted:
            for _ in range(_GENERATIONS):
                self._mutate(_CHILDREN)
        fruitless = 0
        while len(self._pool) < 2 * count and fruitless < _FRUITLESS_ROUNDS:  # most decisions give no valid schedule on a GPU
            before = len(self._pool)
            self._sample(_INITIAL)
            self._mutate(_CHILDREN)
            fruitless = fruitless + 1 if len(self._pool) == before else 0

    def _sample(self, count: int) -> None:
        self._admit(self._sampler.random(self._seeds(count)))

    def _mutate(self, count: int) -> None:
        """Children of the fastest measured and of the most promising unmeasured schedules, the better the more."""
        parents = [elite.trace for elite in self._elites]
        promising = [sample.trace for sample in self._ranked()[:_PARENTS]]
        mixed = [trace for pair in zip(parents, promising, strict=False) for trace in pair]
        mixed.extend(parents[len(promising) :])
        mixed.extend(promising[len(parents) :])
        if not mixed:
            return
        weights = 1.0 / (1.0 + np.arange(len(mixed)) / 4.0)
        picked = self._random.choice(len(mixed), size=count, p=weights / weights.sum())
        self._admit(self._sampler.mutated([(mixed[index], seed) for index, seed in zip(picked, self._seeds(count), strict=True)]))

    def _admit(self, samples: list[Sample | None]) -> None:
        for sample in samples:
            if sample is not None and sample.fingerprint not in self._known:
                self._pool.setdefault(sample.fingerprint, sample)

    def _seeds(self, count: int) -> list[int]:
        return [int(seed) for seed in self._random.integers(1, 2**31 - 2, size=count)]

    def _ranked(self) -> list[Sample]:
        """The unmeasured schedules, most promising first; in order of their making while nothing is known."""
        samples = list(self._pool.values())
        speeds = self._model.predict([sample.features for sample in samples]) if samples else None
        if speeds is None:
            return samples
        return [samples[index] for index in np.argsort(-speeds, kind="stable")]
