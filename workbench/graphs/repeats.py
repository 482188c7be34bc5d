"""Finds the blocks that a graph repeats one after another: the layers of a transformer, the bottlenecks of a ResNet.

Boxes in an order of computation are a sequence, and a repeated block is a run in it that has a period. Two copies are equal if their boxes
have equal labels, read one another in the same way, and read the same things from outside: each what the one before gives, or all one and
the same. Only the first copy reads what comes before, where the next one reads the first.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

_DEPTH = 4
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

    What repeats becomes one box, inside of which is looked for more, and then what repeats of such boxes is looked for.

    Args:
        labels: What each box is; boxes of equal labels can stand for one another.
        reads: The boxes that each box reads, by their places; all are before it.
    """
    tokens = [_Token(place, 1, label, tuple(own)) for place, (label, own) in enumerate(zip(labels, reads, strict=True))]
    return tuple(token.repeat for token in _searched(tokens, _DEPTH) if token.repeat is not None)


@dataclass(frozen=True)
class _Token:
    """A box, or a repeat that was found, from place `start` on; it reads other tokens."""

    start: int
    size: int
    label: Hashable
    reads: tuple[int, ...]
    repeat: Repeat | None = None


@dataclass(frozen=True)
class _Series:
    """Copies of `size` tokens from token `start` on."""

    start: int
    size: int
    copies: int

    @property
    def end(self) -> int:
        return self.start + self.size * self.copies


def _searched(tokens: list[_Token], depth: int) -> list[_Token]:
    """The tokens with one for each series, of series too, until there are no more."""
    for left in range(depth, 0, -1):
        found = _Search(tokens).found()
        if not found:
            break
        tokens = _collapsed(tokens, found, left - 1)
    return tokens


def _collapsed(tokens: Sequence[_Token], found: Sequence[_Series], depth: int) -> list[_Token]:
    """The tokens with one for each series."""
    starts = {series.start: series for series in found}
    place: dict[int, int] = {}
    made: list[_Token] = []
    index = 0
    while index < len(tokens):
        series = starts.get(index, _Series(index, 1, 1))
        own = tokens[index : series.end]
        place.update(dict.fromkeys(range(index, series.end), len(made)))
        reads = tuple(dict.fromkeys(place[read] for token in own for read in token.reads if place[read] != len(made)))
        made.append(replace(own[0], reads=reads) if series.copies == 1 else _block(own, series, reads, depth))
        index = series.end
    return made


def _block(own: Sequence[_Token], series: _Series, reads: tuple[int, ...], depth: int) -> _Token:
    copy = own[: series.size]
    start, size = copy[0].start, sum(token.size for token in copy)
    parts = _searched(_alone(copy, series.start), depth)
    inner = tuple(replace(token.repeat, start=token.start - start) for token in parts if token.repeat is not None)
    label = ("repeat", series.copies, tuple(token.label for token in copy))
    return _Token(start, size * series.copies, label, reads, Repeat(start, size, series.copies, inner))


def _alone(copy: Sequence[_Token], first: int) -> list[_Token]:
    """The tokens of a copy that begins with token `first` as a sequence of their own, behind one token for each value from outside."""
    outside = list(dict.fromkeys(read for token in copy for read in token.reads if read < first))
    place = {read: index for index, read in enumerate(outside)}
    strangers = [_Token(0, 0, ("outside", read), ()) for read in outside]
    moved = (tuple(place[read] if read < first else read - first + len(outside) for read in token.reads) for token in copy)
    return [*strangers, *(replace(token, reads=own) for token, own in zip(copy, moved, strict=True))]


class _Search:
    """The repeats of one sequence of tokens.

    A run can be cut into copies at any place. It is cut where the fewest values pass, those from before it that are read from there on; and
    where these are read most often, as what a block and the way around it begin with.
    """

    def __init__(self, tokens: Sequence[_Token]) -> None:
        known: dict[Hashable, int] = {}
        self._codes = np.array([known.setdefault((token.label, len(token.reads)), len(known)) for token in tokens], dtype=np.int64)
        self._reads = [token.reads for token in tokens]
        self._looked_at = 0
        last_reader = list(range(len(tokens)))
        edges = [(read, place) for place, own in enumerate(self._reads) for read in own]
        for read, place in edges:
            last_reader[read] = max(last_reader[read], place)
        values = _crossing(enumerate(last_reader), len(tokens))
        self._cost = [(value, -edge) for value, edge in zip(values, _crossing(edges, len(tokens)), strict=True)]

    def found(self) -> list[_Series]:
        """The series of most copies, and of those the ones that save most boxes, as long as they do not overlap."""
        candidates: list[tuple[int, int, int, int, int]] = []
        for period, begin, stop in _runs(self._codes):
            _push(candidates, begin, stop, period)
        free = np.ones(len(self._codes), dtype=np.bool_)
        found: list[_Series] = []
        while candidates and self._looked_at < _MOST_LOOKED_AT:
            *_, begin, stop, period = heapq.heappop(candidates)
            if not free[begin:stop].all():
                for first, last in _true_runs(free[begin:stop]):
                    _push(candidates, begin + first, begin + last, period)
                continue
            series = self._aligned(begin, stop, period)
            if series is None:
                continue
            free[series.start : series.end] = False
            found.append(series)
            _push(candidates, begin, series.start, period)
            _push(candidates, series.end, stop, period)
        return found

    def _aligned(self, begin: int, stop: int, size: int) -> _Series | None:
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
        return _Series(best[2], size, -best[1])

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
                is_shifted = other - one == size
                if one >= copy or other >= copy + size:
                    fits = is_shifted
                elif is_first and one != other:
                    fits = other >= copy and pairs.setdefault(other, one) == one
                else:
                    fits = is_shifted or one == other
                if not fits:
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


def _push(candidates: list[tuple[int, int, int, int, int]], begin: int, stop: int, period: int) -> None:
    saved = _saved(stop - begin, period)
    if stop - begin >= 2 * period and saved >= _FEWEST_SAVED:
        heapq.heappush(candidates, (-((stop - begin) // period), -saved, begin, stop, period))


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
