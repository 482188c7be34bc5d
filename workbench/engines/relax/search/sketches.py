"""The sketches of a search space as plain decisions: drawn, mutated and crossed in Python, without replaying a schedule."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from tvm.s_tir.schedule import Trace

from workbench.engines.relax.search.thread_extents import thread_extents
from workbench.engines.relax.space import divisors
from workbench.tuning_database.json_text import without_truth_values

_TILE = "SamplePerfectTile"
_PARTITIONED = "SamplePartitionedTile"
_CATEGORICAL = "SampleCategorical"
_LOCATION = "SampleComputeLocation"
_TILINGS = (_TILE, _PARTITIONED)
_OPEN = (_TILE, _CATEGORICAL, _LOCATION)
"""Kinds of instructions that are decided anew; others keep the decision that they have."""

_POSTPROC = "EnterPostproc"
_ROOT, _INLINE = -1, -2
_ATTEMPTS = 20
_LAUNCHABLE_ATTEMPTS = 200
MOST_THREADS = 1024
"""Threads that a block may have where the target does not say so."""

Decision = tuple[int, ...]
Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Genome:
    """A schedule before it is made: the sketch and the value of each of its decisions (one number for all but tilings)."""

    sketch: int
    decisions: tuple[Decision, ...]


@dataclass(frozen=True)
class _Gene:
    """One sampling instruction of a sketch.

    Attributes:
        position: Its place among the sketch's instructions.
        kind: TVM's name of the instruction.
        extent: For a tiling, the product of its factors.
        parts: For a tiling, the number of its factors; 1 otherwise.
        limit: For a tiling, the largest innermost factor, which is its extent if nothing limits it; for a choice, the number of alternatives.
    """

    position: int
    kind: str
    extent: int
    parts: int
    limit: int


class Sketch:
    """One sketch: the instructions of a trace, with their sampling decisions open.

    Args:
        index: Its place among the space's sketches.
        trace: A trace of it, with any decisions.
        most_threads: Threads that a block of the target may have.
    """

    def __init__(self, index: int, trace: Any, *, most_threads: int = MOST_THREADS) -> None:
        self.index = index
        self.instructions = list(trace.insts)
        found = {place: trace.decisions[instruction] for place, instruction in enumerate(self.instructions) if instruction in trace.decisions}
        self.genes = tuple(_gene(place, self.instructions[place], value) for place, value in found.items())
        self.origin = Genome(index, tuple(_decision(value) for value in found.values()))
        self._open = [place for place, gene in enumerate(self.genes) if gene.kind in _OPEN]
        values = trace_json(trace)
        self.signature = signature(values)
        self.kinds = kinds(values)
        self._extents = thread_extents(values[0], most_threads=most_threads)
        self._locations = {place: {_ROOT, value[0]} for place, (gene, value) in enumerate(self._pairs(self.origin)) if gene.kind == _LOCATION}

    def trace(self, genome: Genome) -> Any:
        """The trace of a genome, to be replayed."""
        values = {
            self.instructions[gene.position]: list(decision) if gene.kind in _TILINGS else decision[0] for gene, decision in self._pairs(genome)
        }
        return Trace(self.instructions, values)

    def decided(self, genome: Genome, trace: Any) -> Genome:
        """The genome with the compute locations that a replay really took: TVM takes the nearest one if there is none of that number."""
        if not self._locations:
            return genome
        instructions = trace.insts
        decisions = list(genome.decisions)
        for place in self._locations:
            decisions[place] = _decision(trace.decisions[instructions[self.genes[place].position]])
        return Genome(self.index, tuple(decisions))

    def observe(self, genome: Genome) -> None:
        """Learn which compute locations there are from a schedule that was made."""
        for place, known in self._locations.items():
            known.add(genome.decisions[place][0])

    def random(self, random: np.random.Generator) -> Genome:
        """Random decisions, which a GPU can launch unless that is rare."""
        for _ in range(_LAUNCHABLE_ATTEMPTS):
            genome = Genome(self.index, tuple(self._draw(place, random) for place in range(len(self.genes))))
            if self.is_launchable(genome):
                break
        return genome

    def is_launchable(self, genome: Genome) -> bool:
        """False if a loop is bound to more or fewer threads than a GPU may have there; what else it refuses, a replay tells."""
        decisions = {gene.position: decision for gene, decision in self._pairs(genome)} if self._extents else {}
        return all(extent.allows(decisions) for extent in self._extents)

    def mutated(self, genome: Genome, random: np.random.Generator) -> Genome:
        """Another genome, with one to three decisions changed."""
        if not self._open:
            return genome
        decisions = list(genome.decisions)
        for _ in range(int(random.integers(1, 4))):
            place = self._open[int(random.integers(len(self._open)))]
            gene = self.genes[place]
            decisions[place] = _moved(decisions[place], gene, random) if gene.kind == _TILE else self._draw(place, random)
        return Genome(self.index, tuple(decisions))

    def crossed(self, one: Genome, other: Genome, random: np.random.Generator) -> Genome:
        """A genome that has each decision from one of two parents."""
        chosen = random.integers(0, 2, size=len(one.decisions))
        return Genome(self.index, tuple(pair[side] for pair, side in zip(zip(one.decisions, other.decisions, strict=True), chosen, strict=True)))

    def features(self, genome: Genome) -> list[float]:
        """What the cost model reads: the factors of tilings as powers of two, choices as they are."""
        values: list[float] = []
        for gene, decision in self._pairs(genome):
            values.extend(math.log2(factor) for factor in decision) if gene.kind in _TILINGS else values.append(float(decision[0]))
        return values

    def body(self, genome: Genome) -> float:
        """How large the innermost loops are together, as a power of two: what is unrolled, and so what building takes, grows with it."""
        inner = (decision[-2:] if gene.parts > 2 else decision[-1:] for gene, decision in self._pairs(genome) if gene.kind == _TILE)
        return sum(math.log2(factor) for factors in inner for factor in factors)

    def genome(self, values: Sequence[Any]) -> Genome | None:
        """The genome of recorded decisions, in the order of the genes; None if they are none of this sketch."""
        try:
            decisions = tuple(_decision(value) for value in values)
        except (TypeError, ValueError):
            return None
        fits = len(decisions) == len(self.genes) and all(_fits(decision, gene) for decision, gene in zip(decisions, self.genes, strict=True))
        return Genome(self.index, decisions) if fits else None

    def adapted(self, values: Sequence[Any]) -> Genome | None:
        """The genome nearest to recorded decisions of another kernel's sketch with the same instructions; None if they do not match at all.

        Factors keep their size as far as the new extent has such divisors, from the innermost outwards; the outermost one takes the rest.
        """
        try:
            decisions = [_decision(value) for value in values]
        except (TypeError, ValueError):
            return None
        if [len(decision) for decision in decisions] != [gene.parts for gene in self.genes]:
            return None
        near = tuple(_nearest(decision, gene) for decision, gene in zip(decisions, self.genes, strict=True))
        return Genome(self.index, near) if all(_fits(decision, gene) for decision, gene in zip(near, self.genes, strict=True)) else None

    def likeness(self, values: Sequence[Any]) -> int:
        """How many tilings of recorded decisions have the very extents of this sketch's."""
        return sum(gene.kind == _TILE and math.prod(_decision(value)) == gene.extent for gene, value in zip(self.genes, values, strict=False))

    def _pairs(self, genome: Genome) -> list[tuple[_Gene, Decision]]:
        return list(zip(self.genes, genome.decisions, strict=True))

    def _draw(self, place: int, random: np.random.Generator) -> Decision:
        gene = self.genes[place]
        if gene.kind == _TILE:
            return _tiling(gene, random) or self.origin.decisions[place]
        if gene.kind == _CATEGORICAL:
            return (int(random.integers(gene.limit)),)
        if gene.kind == _LOCATION:
            known = sorted(self._locations[place])
            return (int(random.integers(min(known), max(known) + 2)),)
        return self.origin.decisions[place]


def trace_json(trace: Any) -> Any:
    """A trace as TVM's JSON value ``[instructions, decisions]``, in Python's own types."""
    return json.loads(json.dumps(trace.as_json(), default=_number))


def signature(trace: Any) -> str:
    """What two traces of one sketch have in common: their instructions up to the postprocessing, whatever the decisions."""
    instructions = trace[0]
    end = next((place for place, instruction in enumerate(instructions) if instruction[0] == _POSTPROC), len(instructions))
    return json.dumps(without_truth_values(instructions[:end]))  # records have none


def kinds(trace: Any) -> tuple[str, ...]:
    """What traces of like sketches of different kernels have in common: the kinds of their instructions up to the postprocessing."""
    names = [str(instruction[0]) for instruction in trace[0]]
    return tuple(names[: names.index(_POSTPROC)] if _POSTPROC in names else names)


def recorded_decisions(trace: Any) -> list[Any]:
    """Decisions of a trace's JSON value in the order of their instructions, without those of the postprocessing."""
    instructions, decisions = trace
    end = next((place for place, instruction in enumerate(instructions) if instruction[0] == _POSTPROC), len(instructions))
    return [value for place, value in sorted(decisions, key=lambda item: item[0]) if place < end]


def _gene(position: int, instruction: Any, value: Any) -> _Gene:
    kind = str(instruction.kind.name)
    decision = _decision(value)
    if kind in _TILINGS:
        extent = math.prod(decision)
        limit = int(instruction.attrs[1]) if kind == _TILE else 0
        return _Gene(position, kind, extent, len(decision), limit if limit > 0 else extent)
    alternatives = len(instruction.attrs[0]) if kind == _CATEGORICAL else 0
    return _Gene(position, kind, 0, 1, alternatives)


def _decision(value: Any) -> Decision:
    """A decision of TVM's or of JSON as numbers."""
    if isinstance(value, int) or hasattr(value, "value"):
        return (int(value),)
    return tuple(int(item) for item in value)


def _fits(decision: Decision, gene: _Gene) -> bool:
    if gene.kind in _TILINGS:
        return len(decision) == gene.parts and all(factor > 0 for factor in decision) and math.prod(decision) == gene.extent
    return len(decision) == 1 and (gene.kind != _CATEGORICAL or 0 <= decision[0] < gene.limit) and decision[0] >= _INLINE


def _nearest(decision: Decision, gene: _Gene) -> Decision:
    if gene.kind != _TILE:
        return decision
    factors, left = [], gene.extent
    for place, wanted in enumerate(reversed(decision[1:])):
        largest = max(min(wanted, gene.limit) if place == 0 else wanted, 1)
        factor = max(divisor for divisor in divisors(left) if divisor <= largest)
        factors.append(factor)
        left //= factor
    return (left, *reversed(factors))


def _tiling(gene: _Gene, random: np.random.Generator) -> Decision | None:
    """Each prime factor in a part drawn at random, with the innermost part within its limit."""
    primes = _primes(gene.extent)
    for _ in range(_ATTEMPTS):
        factors = [1] * gene.parts
        for prime, part in zip(primes, random.integers(0, gene.parts, size=len(primes)), strict=True):
            factors[part] *= prime
        if factors[-1] <= gene.limit:
            return tuple(factors)
    return None


def _moved(decision: Decision, gene: _Gene, random: np.random.Generator) -> Decision:
    """A tiling with a divisor of one part moved to another, as TVM's own mutator does."""
    sources = [part for part, factor in enumerate(decision) if factor > 1]
    if not sources or gene.parts < 2:
        return decision
    for _ in range(_ATTEMPTS):
        source = sources[int(random.integers(len(sources)))]
        target = int(random.integers(gene.parts - 1))
        target += target >= source
        choices = divisors(decision[source])[1:]
        divisor = choices[int(random.integers(len(choices)))]
        factors = list(decision)
        factors[source] //= divisor
        factors[target] *= divisor
        if factors[-1] <= gene.limit:
            return tuple(factors)
    return decision


@functools.cache
def _primes(number: int) -> tuple[int, ...]:
    found, prime = [], 2
    while number > 1:
        while number % prime == 0:
            found.append(prime)
            number //= prime
        prime = prime + 1 if prime * prime <= number else number
    return tuple(found)


def _number(value: Any) -> int | float:
    """A number of TVM's as one of JSON's."""
    number = value.value
    return int(number) if isinstance(number, int) else float(number)
