"""Chooses what to try next: an evolution of decisions under the cost model, of which only the chosen ones are made into schedules."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from workbench.engines.relax.search.cost_model import CostModel
from workbench.engines.relax.search.sampling import Sample, Sampler
from workbench.engines.relax.search.sketches import Genome, Sketch

_ELITES = 32
_POPULATION = 256
_FRESH = 96
_GENERATIONS = 4
_CROSSED = 0.2
_AT_RANDOM = 0.12
"""Share of a round that does not follow the model."""

_NEIGHBOURS = 0.25
"""Share of a round that is the most promising near the fastest schedule so far."""

_MOST_IN_VAIN = 400
"""After so many decisions in a row that gave nothing new, the space is taken to hold no more; on a GPU one of some hundred may be valid."""

_NOTHING_UNTRIED = 16  # so many in vain it counts for that no decision is left that was not tried
_FIRST_DRAW = 4


class Evolution:
    """Proposes schedules that were never proposed before.

    Args:
        sampler: Makes schedules of decisions.
        model: Predicts their speed.
        seed: Equal seeds and equal measured times give equal proposals.
    """

    def __init__(self, sampler: Sampler, model: CostModel, *, seed: int) -> None:
        self._sampler = sampler
        self._model = model
        self._random = np.random.default_rng(seed)
        self._known: set[str] = set()
        self._tried: set[Genome] = set()
        self._elites: list[tuple[float, Genome]] = []

    def forbid(self, fingerprint: str) -> None:
        """Never propose a schedule that was measured already."""
        self._known.add(fingerprint)

    def is_new(self, fingerprint: str) -> bool:
        """True unless a schedule was proposed or forbidden."""
        return fingerprint not in self._known

    def take_note(self, genome: Genome, time_us: float | None, *, build_s: float = 0.0) -> None:
        """Learn from a measured schedule; one of the fastest may have children."""
        self._tried.add(genome)
        self._model.add(genome, time_us, build_s=build_s)
        if time_us is not None:
            self._elites.append((time_us, genome))
            self._elites.sort(key=lambda elite: elite[0])
            del self._elites[_ELITES:]

    def propose(self, count: int) -> list[Sample]:
        """The most promising schedules, some of them picked at random; fewer if the space holds no more."""
        chosen: list[Sample] = []
        in_vain = 0
        while len(chosen) < count and in_vain < _MOST_IN_VAIN:
            genomes = self._ranked(count - len(chosen))
            made = self._make(genomes)
            chosen.extend(made)
            in_vain = 0 if made else in_vain + (len(genomes) or _NOTHING_UNTRIED)
        return chosen

    def _make(self, genomes: Sequence[Genome]) -> list[Sample]:
        """Make schedules; what gives none, or one that is known, is never tried again."""
        self._tried.update(genomes)
        made = []
        for genome, sample in zip(genomes, self._sampler.made(genomes), strict=True):
            if sample is None:
                self._model.add_invalid(genome)
            elif self.is_new(sample.fingerprint):
                self.forbid(sample.fingerprint)
                made.append(sample)
        return made

    def _ranked(self, count: int) -> list[Genome]:
        """Untried decisions for a round, the most promising first."""
        if not self._model.is_fitted:
            drawn = self._new(self._drawn(_FIRST_DRAW * count))
            small = sorted(drawn, key=lambda genome: self._sketch(genome).body(genome))[: max(len(drawn) // 2, count)]
            return [genome for genome in drawn if genome in small][:count]  # the others take ten times as long to build, and seldom win
        population = self._evolved()
        at_random = round(count * _AT_RANDOM)
        near = round(count * _NEIGHBOURS)
        best = self._favourites(population, count - at_random - near)
        taken = set(best)
        neighbours = [genome for genome in self._sorted(self._new(self._children([self._elites[0][1]], _POPULATION // 2))) if genome not in taken]
        best.extend(neighbours[:near])
        taken.update(best)
        others = [genome for genome in [*self._new(self._drawn(_FRESH)), *population] if genome not in taken]
        return [*best, *others[: count - len(best)]]

    def _favourites(self, genomes: Sequence[Genome], count: int) -> list[Genome]:
        """The first choices of each member of the model in turn: few agree on all of them, so that a round is not many times the same idea."""
        rankings = [list(np.argsort(-opinion, kind="stable")) for opinion in self._model.opinions(genomes)]
        chosen: dict[Genome, None] = {}
        for places in zip(*rankings, strict=True):
            for place in places:
                if len(chosen) < count:
                    chosen[genomes[place]] = None
        return list(chosen)

    def _evolved(self) -> list[Genome]:
        """A population that the model likes, none of it tried."""
        parents = [genome for _, genome in self._elites]
        population = self._new([*self._drawn(_FRESH), *self._children(parents, _POPULATION)])
        for _ in range(_GENERATIONS):
            promising = self._sorted(population)[:_ELITES]
            population = self._new([*promising, *self._children([*parents, *promising], _POPULATION)])
        return population

    def _children(self, parents: Sequence[Genome], count: int) -> list[Genome]:
        """Mutations of parents, and crossings of two of the same sketch; the first parents have more."""
        if not parents:
            return []
        weights = 1.0 / (1.0 + np.arange(len(parents)) / 8.0)
        picked = self._random.choice(len(parents), size=(count, 2), p=weights / weights.sum())
        crossed = self._random.random(count) < _CROSSED
        children = []
        for (first, second), cross in zip(picked, crossed, strict=True):
            one, other = parents[first], parents[second]
            sketch = self._sketch(one)
            child = sketch.crossed(one, other, self._random) if cross and one.sketch == other.sketch else one
            children.append(sketch.mutated(child, self._random))
        return children

    def _drawn(self, count: int) -> list[Genome]:
        """Random decisions of all sketches in turn, from one of them on that is random too: the first few of them may be all that is used."""
        sketches = self._sampler.sketches
        first = int(self._random.integers(len(sketches)))
        return [sketches[(first + index) % len(sketches)].random(self._random) for index in range(count)]

    def _new(self, genomes: Sequence[Genome]) -> list[Genome]:
        """Each of the untried ones once, without those that a GPU cannot launch."""
        return [genome for genome in dict.fromkeys(genomes) if genome not in self._tried and self._sketch(genome).is_launchable(genome)]

    def _sorted(self, genomes: Sequence[Genome]) -> list[Genome]:
        speeds = self._model.predict(genomes)
        return [genomes[index] for index in np.argsort(-speeds, kind="stable")]

    def _sketch(self, genome: Genome) -> Sketch:
        return self._sampler.sketches[genome.sketch]
