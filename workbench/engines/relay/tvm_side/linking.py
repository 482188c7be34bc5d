"""Ties the operators of an optimised model to the calls of its source; knows graphs of names, and no TVM.

What an optimisation keeps of a call has the call's number. A call that it replaced (a batch normalisation by a multiplication and an addition)
has lost it, and what stands there instead has none: it is of the same kind, and lies between the same neighbours. Where several are alike, their
order decides: both graphs are walked in the same way, and an optimisation changes neither the order of arguments nor that of results.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Iterable, Sequence

IDLE = {"nn.dropout", "copy", "identity", "annotation.stop_fusion", "device_copy"}
"""Operators of which nothing is left at inference."""

MOVES = {"layout_transform", "expand_dims", "squeeze", "reshape", "transpose", "nn.batch_flatten", "cast"}
"""Operators that compute nothing; an optimisation puts in its own."""

_START, _END = -1, -2
_KIND = re.compile(r"(?:nn\.)?(?:contrib_)?(?:depthwise_)?(\w+?)(?:_NCHWc|_NHWC|_pack|_nopack|_winograd\w*|_without_weight_transform)*$")
_BECOMES = {
    **dict.fromkeys(("bias_add", "batch_norm", "layer_norm", "group_norm", "instance_norm"), "add"),
    "matmul": "dense",
}
"""What the last operator is of those that stand in the place of another; by the kind of that."""

_COMPOSITE = {"nn.batch_norm", "nn.layer_norm", "nn.group_norm", "nn.instance_norm"}


@dataclass
class Nodes:
    """Operators in the order of their computation.

    Attributes:
        ops: Name of each.
        reads: What each reads, in the order of its arguments; those within tuples one by one, constants and inputs left out.
        numbers: Its call in the source; None for what an optimisation made.
        results: For each result of the model, what gives it.
    """

    ops: Sequence[str]
    reads: Sequence[Sequence[int]]
    numbers: Sequence[int | None]
    results: Sequence[Sequence[int]]


def link(source: Nodes, made: Nodes, rows: Sequence[int | None]) -> dict[int, list[int]]:
    """By each operator of the optimised model, the numbers of the source's calls that it computes.

    Args:
        source: The calls of the source; each has its own place as its number.
        made: The operators of the optimised model.
        rows: The row that runs each of these; None for one that no row runs.
    """
    kept = {number for number in made.numbers if number is not None}
    lost = [number for number, op in enumerate(source.ops) if number not in kept and op not in IDLE]
    before = Nodes(source.ops, source.reads, [number if number in kept else None for number in range(len(source.ops))], source.results)
    meeting = _Meeting(_surroundings(before), _surroundings(made), [place for place, number in enumerate(made.numbers) if number is None])
    links: dict[int, list[int]] = {place: [number] for place, number in enumerate(made.numbers) if number is not None}
    _pair(lost, source, made, meeting, links)
    _complete(lost, source, made, meeting, links)
    _moved(made, rows, links)
    return links


@dataclass(frozen=True)
class _Surroundings:
    """The nearest numbered operators before and after one.

    Attributes:
        before: Their numbers.
        after: Their numbers, each with the place among what it reads.
    """

    before: frozenset[int]
    after: frozenset[tuple[int, int]]


@dataclass
class _Meeting:
    """What lies around each operator of both graphs.

    Attributes:
        source: Around each call of the source.
        made: Around each operator of the optimised model.
        unknown: Those of the latter that have no number.
    """

    source: Sequence[_Surroundings]
    made: Sequence[_Surroundings]
    unknown: Sequence[int]

    def near(self, number: int, among: Sequence[int]) -> list[int]:
        """The places between the same neighbours as a call: between all of them, or else between some."""
        for alike in (_equal, _tagged, _loose):
            found = [place for place in among if alike(self.source[number], self.made[place])]
            if found:
                return found
        return []

    def alike(self, place: int, among: Sequence[int]) -> list[int]:
        """The calls that read what a place reads, and give to all that it gives to."""
        own = self.made[place]
        return [number for number in among if self.source[number].before == own.before and own.after and own.after <= self.source[number].after]

    def meet(self, number: int, place: int) -> bool:
        """True if a call and a place have neighbours in common on both sides."""
        return _loose(self.source[number], self.made[place])


def _equal(one: _Surroundings, other: _Surroundings) -> bool:
    return one == other


def _tagged(one: _Surroundings, other: _Surroundings) -> bool:
    return bool(one.before & other.before) and bool(one.after & other.after)


def _loose(one: _Surroundings, other: _Surroundings) -> bool:
    return bool(one.before & other.before) and bool({number for number, _ in one.after} & {number for number, _ in other.after})


def _kind(op: str) -> str:
    match = _KIND.match(op)
    name = match.group(1) if match else op
    return _BECOMES.get(name, name)


def _pair(lost: Sequence[int], source: Nodes, made: Nodes, meeting: _Meeting, links: dict[int, list[int]]) -> None:
    """Tie the calls that lost their numbers to operators of the same kind; as many calls as operators in their order, and otherwise each to all."""
    kinds: dict[str, list[int]] = {}
    for place in meeting.unknown:
        kinds.setdefault(_kind(made.ops[place]), []).append(place)
    rivals: dict[tuple[int, ...], list[int]] = {}
    for number in lost:
        alike = meeting.near(number, kinds.get(_kind(source.ops[number]), ()))
        if alike:
            rivals.setdefault(tuple(alike), []).append(number)
    for places, numbers in rivals.items():
        if len(places) == len(numbers):
            for place, number in zip(places, numbers):
                links.setdefault(place, []).append(number)
        else:
            for place in places:
                links.setdefault(place, []).extend(numbers)


def _complete(lost: Sequence[int], source: Nodes, made: Nodes, meeting: _Meeting, links: dict[int, list[int]]) -> None:
    """Tie what is left: the other operators of a call that became several, and calls that became something of another kind."""
    composite = {number for number in lost if source.ops[number] in _COMPOSITE}
    working = [place for place in meeting.unknown if made.ops[place] not in MOVES]
    readers = _readers(made.reads)
    for place in reversed(working):
        if place not in links:
            parts = {number for reader in readers[place] for number in links.get(reader, ()) if number in composite}
            whole = sorted(number for number in parts if meeting.meet(number, place))
            if whole:
                links[place] = whole
    tied = {number for numbers in links.values() for number in numbers}
    free = [place for place in working if place not in links]
    for number in lost:
        if number not in tied:
            for place in meeting.near(number, free) or meeting.near(number, working) or meeting.near(number, meeting.unknown):
                links.setdefault(place, []).append(number)
    kinds = [_kind(op) for op in source.ops]
    for place in working:
        if place not in links:  # perhaps a second form of a call whose number another place has
            again = meeting.alike(place, [number for number, kind in enumerate(kinds) if kind == _kind(made.ops[place])])
            if again:
                links[place] = again


def _moved(made: Nodes, rows: Sequence[int | None], links: dict[int, list[int]]) -> None:
    """Tie the rows that only move data to all that read them; those that nobody reads to what they read."""
    readers = _readers(made.reads)
    by_row: dict[int, list[int]] = {}
    for place, row in enumerate(rows):
        if row is not None:
            by_row.setdefault(row, []).append(place)
    own = {place: list(numbers) for place, numbers in links.items()}
    for places in by_row.values():
        if not any(place in own for place in places):
            found = _reached(places, readers, own) or _reached(places, made.reads, own)
            if found:
                links[places[0]] = sorted(found)


def _reached(places: Iterable[int], steps: Sequence[Sequence[int]], links: dict[int, list[int]]) -> set[int]:
    """The calls of the nearest tied operators that are reached by steps."""
    found: set[int] = set()
    waiting, seen = list(places), set(places)
    while waiting:
        for place in steps[waiting.pop()]:
            if place in links:
                found.update(links[place])
            elif place not in seen:
                seen.add(place)
                waiting.append(place)
    return found


def _readers(reads: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in reads]
    for place, items in enumerate(reads):
        for item in items:
            found[item].append(place)
    return found


def _surroundings(nodes: Nodes) -> list[_Surroundings]:
    """What is around each operator; the start and the end of the graph count as numbered operators."""
    before: list[set[int]] = []
    for items in nodes.reads:
        found: set[int] = set() if items else {_START}
        for item in items:
            number = nodes.numbers[item]
            found |= before[item] if number is None else {number}
        before.append(found)
    after: list[set[tuple[int, int]]] = [set() for _ in nodes.reads]
    for position, result in enumerate(nodes.results):
        for place in result:
            after[place].add((_END, position))
    for place in range(len(nodes.reads) - 1, -1, -1):
        number = nodes.numbers[place]
        for position, item in enumerate(nodes.reads[place]):
            after[item] |= after[place] if number is None else {(number, position)}
    return [_Surroundings(frozenset(one), frozenset(other)) for one, other in zip(before, after)]
