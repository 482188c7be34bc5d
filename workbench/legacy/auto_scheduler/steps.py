"""Transform steps of the auto-scheduler: how a log tells a schedule.

Stages and iterators are numbers, counted in the state before the step; formats by ``src/auto_scheduler/transform_step.cc`` of TVM 0.8 to 0.18.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from workbench.escaping import plain
from workbench.legacy.lines import LineError, integer, integers, items, text

ANNOTATIONS = (
    "none",
    "unroll",
    "vectorize",
    "parallel",
    "vthread",
    "blockIdx.x",
    "threadIdx.x",
    "blockIdx.y",
    "threadIdx.y",
    "blockIdx.z",
    "threadIdx.z",
    "tensorize",
)
"""``IteratorAnnotation`` by number."""


@dataclass(frozen=True)
class Annotate:
    """``AN``: an iterator is run in a way of its own; `annotation` is one of `ANNOTATIONS`."""

    stage: int
    iterator: int
    annotation: str


@dataclass(frozen=True)
class Fuse:
    """``FU``: neighbouring iterators become one."""

    stage: int
    iterators: tuple[int, ...]


@dataclass(frozen=True)
class Pragma:
    """``PR``: e.g. ``auto_unroll_max_step$512``."""

    stage: int
    iterator: int
    pragma: str


@dataclass(frozen=True)
class Reorder:
    """``RE``: all iterators of the stage in their new order."""

    stage: int
    order: tuple[int, ...]


@dataclass(frozen=True)
class Split:
    """``SP``: an iterator becomes several; `lengths` leaves out the outermost one's, or the innermost one's if not `inner_to_outer`.

    A length of None was never filled in: the record is of a sketch.
    """

    stage: int
    iterator: int
    extent: int | None
    lengths: tuple[int | None, ...]
    inner_to_outer: bool


@dataclass(frozen=True)
class FollowSplit:
    """``FSP``: split as an earlier step did, into `parts` + 1 iterators."""

    stage: int
    iterator: int
    source: int
    parts: int


@dataclass(frozen=True)
class FollowFusedSplit:
    """``FFSP``: split by the product of the lengths that earlier steps gave at a level."""

    stage: int
    iterator: int
    sources: tuple[int, ...]
    level: int
    by_factor: bool


@dataclass(frozen=True)
class StorageAlign:
    """``SA``: the stride of an axis is made ``k * factor + offset``."""

    stage: int
    iterator: int
    factor: int
    offset: int


@dataclass(frozen=True)
class ComputeAt:
    """``CA``: the stage is computed within a loop of another one."""

    stage: int
    target: int
    iterator: int


@dataclass(frozen=True)
class ComputeInline:
    """``CI``: the stage is computed where it is read."""

    stage: int


@dataclass(frozen=True)
class ComputeRoot:
    """``CR``: the stage has loops of its own."""

    stage: int


@dataclass(frozen=True)
class CacheRead:
    """``CHR``: a new stage reads this one's buffer into a scope for some readers."""

    stage: int
    scope: str
    readers: tuple[int, ...]


@dataclass(frozen=True)
class CacheWrite:
    """``CHW``: the stage is computed into a scope, and a new stage copies from there."""

    stage: int
    scope: str


@dataclass(frozen=True)
class Rfactor:
    """``RF``: a reduction iterator becomes one of a new stage of partial results."""

    stage: int
    iterator: int
    factor_iterator: int


Step = (
    Annotate
    | Fuse
    | Pragma
    | Reorder
    | Split
    | FollowSplit
    | FollowFusedSplit
    | StorageAlign
    | ComputeAt
    | ComputeInline
    | ComputeRoot
    | CacheRead
    | CacheWrite
    | Rfactor
)


def parse_step(value: Any) -> Step:
    """Read one step, e.g. ``["SP", 3, 0, 64, [4, 8], 1]``; raises LineError."""
    name, *arguments = items(value, "a step", least=1)
    if not isinstance(name, str) or name not in _PARSERS:
        raise LineError(f"there is no step {plain(repr(name))}")
    parser, least = _PARSERS[name]
    if len(arguments) < least:
        raise LineError(f"the step {name} has {len(arguments)} arguments instead of {least}")
    return parser(arguments)


def _annotate(values: list[Any]) -> Annotate:
    code = integer(values[2], "an annotation")
    if not 0 <= code < len(ANNOTATIONS):
        raise LineError(f"there is no annotation {code}")
    return Annotate(_stage(values), _iterator(values), ANNOTATIONS[code])


def _split(values: list[Any]) -> Split:
    extent, lengths, inner_to_outer = values[2:5]
    return Split(
        _stage(values),
        _iterator(values),
        None if extent in (None, 0) else integer(extent, "an extent"),
        tuple(None if length is None else integer(length, "a length") for length in items(lengths, "lengths")),
        bool(integer(inner_to_outer, "the direction of a split") if not isinstance(inner_to_outer, bool) else inner_to_outer),
    )


def _follow_fused(values: list[Any]) -> FollowFusedSplit:
    return FollowFusedSplit(
        _stage(values), _iterator(values), integers(values[2], "the steps that are followed"), integer(values[3], "a level"), bool(values[4])
    )


def _stage(values: list[Any]) -> int:
    return integer(values[0], "a stage")


def _iterator(values: list[Any]) -> int:
    return integer(values[1], "an iterator")


_PARSERS: dict[str, tuple[Callable[[list[Any]], Step], int]] = {
    "AN": (_annotate, 3),
    "FU": (lambda values: Fuse(_stage(values), integers(values[1], "the fused iterators")), 2),
    "PR": (lambda values: Pragma(_stage(values), _iterator(values), text(values[2], "a pragma")), 3),
    "RE": (lambda values: Reorder(_stage(values), integers(values[1], "an order")), 2),
    "SP": (_split, 5),
    "FSP": (lambda values: FollowSplit(_stage(values), _iterator(values), integer(values[2], "a step"), integer(values[3], "a number of parts")), 4),
    "FFSP": (_follow_fused, 5),
    "SA": (lambda values: StorageAlign(_stage(values), _iterator(values), integer(values[2], "a factor"), integer(values[3], "an offset")), 4),
    "CA": (lambda values: ComputeAt(_stage(values), integer(values[1], "a target stage"), integer(values[2], "an iterator")), 3),
    "CI": (lambda values: ComputeInline(_stage(values)), 1),
    "CR": (lambda values: ComputeRoot(_stage(values)), 1),
    "CHR": (lambda values: CacheRead(_stage(values), text(values[1], "a scope"), integers(values[2], "readers")), 3),
    "CHW": (lambda values: CacheWrite(_stage(values), text(values[1], "a scope")), 2),
    "RF": (lambda values: Rfactor(_stage(values), _iterator(values), integer(values[2], "an iterator")), 3),
}
