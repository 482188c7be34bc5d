"""Finds the blocks that a graph repeats one after another: the layers of a transformer, the bottlenecks of a ResNet.

Boxes in an order of computation are a sequence, and a repeated block is a run in it that has a period. Two copies are equal if their boxes
have equal labels, read one another in the same way, and read the same things from outside: each what the one before gives, or all one and
the same. Only the first copy reads what comes before, where the next one reads the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

_DEPTH = 3
_PHASES = 4
_FEWEST_SAVED = 3
_MOST_LOOKED_AT = 600_000  # boxes, again and again: a graph whose boxes look alike and hang together at random ends here
Numbers = np.ndarray[tuple[int], np.dtype[np.int64]]


@dataclass(frozen=True)
class Repeat:
    """A block that is there several times, one copy after the other.

    Attributes:
        start: Place of the first box of the first copy; for a repeat inside another one, counted from the start of each copy.
        size: Boxes of one copy.
        copies: Number of copies, at least 2.
        inner: What repeats inside each copy.
    """

    start: int
    size: int
    copies: int
    inner: tuple[Repeat, ...] = ()

    @property
    def end(self) -> int:
        """Place behind the last copy."""
        return self.start + self.size * self.copies


def find_repeats(labels: Sequence[Hashable], reads: Sequence[Sequence[int]]) -> tuple[Repeat, ...]:
    """The repeats of a graph, in order; they do not overlap.

    Args:
        labels: What each box is; boxes of equal labels can stand for one another.
        reads: The boxes that each box reads, by their places; all are before it.
    """
    known: dict[Hashable, int] = {}
    codes = np.array([known.setdefault((label, len(own)), len(known)) for label, own in zip(labels, reads, strict=True)], dtype=np.int64)
    return _Search(codes, reads).between(0, len(codes), depth=_DEPTH)


class _Search:
    """The repeats of one graph.

    A run can be cut into copies at any place. It is cut where the fewest values pass, those from before it that are read from there on; and
    where these are read most often, as what a block and the way around it begin with.
    """

    def __init__(self, codes: Numbers, reads: Sequence[Sequence[int]]) -> None:
        self._codes = codes
        self._reads = reads
        self._looked_at = 0
        last_reader = list(range(len(reads)))
        edges = [(read, place) for place, own in enumerate(reads) for read in own]
        for read, place in edges:
            last_reader[read] = max(last_reader[read], place)
        values = _crossing(enumerate(last_reader), len(reads))
        self._cost = [(value, -edge) for value, edge in zip(values, _crossing(edges, len(reads)), strict=True)]

    def between(self, start: int, end: int, *, depth: int) -> tuple[Repeat, ...]:
        """The repeats among the boxes of a stretch, those that save most boxes first."""
        if not depth:
            return ()
        candidates = [(-_saved(stop - begin, period), begin, stop, period) for period, begin, stop in _runs(self._codes[start:end])]
        heapq.heapify(candidates)
        free = np.ones(end - start, dtype=np.bool_)
        found: list[Repeat] = []
        while candidates and self._looked_at < _MOST_LOOKED_AT:
            _, begin, stop, period = heapq.heappop(candidates)
            if not free[begin:stop].all():
                for part in _true_runs(free[begin:stop]):
                    _push(candidates, begin + part[0], begin + part[1], period)
                continue
            repeat = self._aligned(start + begin, start + stop, period, depth=depth)
            if repeat is None:
                continue
            free[repeat.start - start : repeat.end - start] = False
            found.append(repeat)
            _push(candidates, begin, repeat.start - start, period)
            _push(candidates, repeat.end - start, stop, period)
        return tuple(sorted(found, key=lambda repeat: repeat.start))

    def _aligned(self, begin: int, stop: int, size: int, *, depth: int) -> Repeat | None:
        """The longest series of equal copies in a run, cut where few values cross; None if no two copies are equal."""
        phases = range(begin, begin + min(size, stop - begin - 2 * size + 1))
        best: tuple[tuple[int, int], int, int] | None = None
        for phase in sorted(phases, key=lambda place: (self._cost[place + size], place))[:_PHASES]:
            series = self._longest_series(phase, stop, size)
            if series is None:
                continue
            rank = (self._cost[series[0] + size], -series[1], series[0])
            best = rank if best is None else min(best, rank)
        if best is None or _saved(-best[1] * size, size) < _FEWEST_SAVED:
            return None
        copies, start = -best[1], best[2]
        inner = tuple(
            Repeat(repeat.start - start, repeat.size, repeat.copies, repeat.inner) for repeat in self.between(start, start + size, depth=depth - 1)
        )
        return Repeat(start, size, copies, inner)

    def _longest_series(self, start: int, stop: int, size: int) -> tuple[int, int] | None:
        """Start and number of the most copies in a row that are equal and hang together in the same way."""
        self._looked_at += stop - start
        best = (0, 0)
        first = start
        for copy in range(start, stop - 2 * size + 1, size):
            if not self._follows(copy, size, is_first=copy == first):
                first = copy if copy != first and self._follows(copy, size, is_first=True) else copy + size
            best = max(best, ((copy + 2 * size - first) // size, -first))
        return (-best[1], best[0]) if best[0] > 1 else None

    def _follows(self, copy: int, size: int, *, is_first: bool) -> bool:
        """True if the next copy is like this one.

        Inside, both read the same. From outside the next one reads what this one does, or what stands to it as what this one reads stands to this
        one; only a first copy may read something else there, where the next one reads the first.
        """
        pairs: dict[int, int] = {}
        for place in range(copy, copy + size):
            for one, other in zip(self._reads[place], self._reads[place + size], strict=True):
                if one >= copy or other >= copy + size:
                    if other - one != size:
                        return False
                elif one != other and other - one != size:
                    if not is_first or other < copy or pairs.setdefault(other, one) != one:
                        return False
        return len(set(pairs.values())) == len(pairs)


def _crossing(spans: Iterable[tuple[int, int]], count: int) -> list[int]:
    """For each place, how many of the spans begin before it and reach to it."""
    change = np.zeros(count + 2, dtype=np.int64)
    for begin, last in spans:
        if last > begin:
            change[begin + 1] += 1
            change[last + 1] -= 1
    return [int(value) for value in np.cumsum(change)]


def _saved(length: int, period: int) -> int:
    """Boxes that need not be shown if a run of a period is shown as one copy."""
    return length // period * period - period


def _push(candidates: list[tuple[int, int, int, int]], begin: int, stop: int, period: int) -> None:
    if stop - begin >= 2 * period:
        heapq.heappush(candidates, (-_saved(stop - begin, period), begin, stop, period))


def _runs(codes: Numbers) -> Iterator[tuple[int, int, int]]:
    """Period, start and end of each longest run that holds its period at least twice."""
    for period in range(1, len(codes) // 2 + 1):
        for begin, stop in _true_runs(codes[period:] == codes[:-period], at_least=period):
            yield period, begin, stop + period


def _true_runs(values: np.ndarray[tuple[int], np.dtype[np.bool_]], *, at_least: int = 1) -> list[tuple[int, int]]:
    """Start and end of each stretch of true values that is long enough."""
    edges = np.flatnonzero(~values)
    begins = np.concatenate(([0], edges + 1))
    stops = np.concatenate((edges, [len(values)]))
    long = stops - begins >= at_least
    return [(int(begin), int(stop)) for begin, stop in zip(begins[long], stops[long], strict=True)]
