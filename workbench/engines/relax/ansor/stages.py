"""The auto-scheduler's own view of a workload and a schedule: stages in its order, with iterators that steps split, fuse and reorder.

Nothing is scheduled here: steps are numbers that refer to the state before them, and are turned into references to stages and iterators.
"""

from __future__ import annotations

import heapq
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tvm
import tvm_ffi

from workbench.legacy.auto_scheduler.steps import FollowFusedSplit, FollowSplit, Split, Step


class Untranslatable(Exception):  # noqa: N818 - it says what a record is, not that something went wrong here
    """A record has no TensorIR schedule; the text names the step and the reason."""


class OtherWorkload(Untranslatable):
    """A record is of another workload: its steps do not fit the kernel's stages.

    Args:
        text: Why.
        fitting: How many steps fit.
    """

    def __init__(self, text: str, fitting: int = 0) -> None:
        super().__init__(text)
        self.fitting = fitting


@dataclass(eq=False)
class Iterator:
    """One loop of a stage; `is_reduction` if it sums up, `extent` None where it follows from another stage's loops."""

    is_reduction: bool
    extent: int | None = None


@dataclass(frozen=True)
class SplitLoop:
    """An iterator that becomes several, outermost first; one of the lengths is None: what is left."""

    iterator: Iterator
    lengths: tuple[int | None, ...]
    parts: tuple[Iterator, ...]


@dataclass(frozen=True)
class FuseLoops:
    """Neighbouring iterators that become one."""

    iterators: tuple[Iterator, ...]
    fused: Iterator


@dataclass(frozen=True)
class ReorderLoops:
    """All iterators of the stage in their new order."""

    order: tuple[Iterator, ...]


@dataclass(frozen=True)
class Mark:
    """An iterator that is run in a way of its own, or carries a pragma."""

    iterator: Iterator
    annotation: str = ""
    pragma: str = ""


Change = SplitLoop | FuseLoops | ReorderLoops | Mark


@dataclass(eq=False)
class Stage:
    """One operation of the workload, or one that a step added.

    Attributes:
        name: Name of the operation, and so of its block.
        is_placeholder: True for an input of the workload.
        iterators: Its loops now, outermost first.
        roots: Its loops before any change.
        changes: What steps did to them, in order.
        at: The stage and the iterator that it is computed at; None for loops of its own.
        inlined: True if it is computed where it is read.
        block_order: For each axis of its block the place of its loop among the roots; empty if they stand in the same order.
        is_named: True once a step named it.
    """

    name: str
    is_placeholder: bool
    iterators: list[Iterator] = field(default_factory=list)
    roots: tuple[Iterator, ...] = ()
    changes: list[Change] = field(default_factory=list)
    at: tuple[Stage, Iterator] | None = None
    inlined: bool = False
    block_order: tuple[int, ...] = ()
    is_named: bool = False


def stages_of(schedule: tvm.s_tir.Schedule) -> list[Stage]:
    """The stages of an unscheduled kernel in the order of the auto-scheduler's compute DAG.

    Args:
        schedule: Of the kernel as ``main``, one block an operation.

    Raises:
        Untranslatable: The kernel is not made of such blocks.
    """
    parameters = list(schedule.mod["main"].params)
    blocks = [schedule.get(block) for block in schedule.get_child_blocks(schedule.get_sblock("root"))]
    buffers = list(parameters)
    computed: dict[int, Any] = {}
    for block in blocks:
        place = _place(block.writes[0].source, buffers) if len(block.writes) == 1 else None
        if place is None or place in computed:
            raise Untranslatable(f"the block {block.name_hint} does not write one buffer of its own")
        computed[place] = block
    sources = {place: _read(block, buffers) for place, block in computed.items()}
    read = {source for found in sources.values() for source in found}
    outputs = [place for place in range(len(parameters)) if place in computed and place not in read]
    return [_stage(buffers[place], computed.get(place)) for place in _in_order(outputs, sources)]


def _place(buffer: Any, buffers: list[Any]) -> int:
    """The place of a buffer in the list, which gets it if it lacks it."""
    for place, known in enumerate(buffers):
        if known.same_as(buffer):
            return place
    buffers.append(buffer)
    return len(buffers) - 1


def _read(block: Any, buffers: list[Any]) -> list[int]:
    """The buffers that a block reads, its own left out, in the order in which its expression names them."""
    loads: list[Any] = []
    tvm_ffi.structural_walk(block.body, ((tvm.ir.TensorLoad, loads.append),))
    own = _place(block.writes[0].source, buffers)
    return [place for place in dict.fromkeys(_place(load.source, buffers) for load in loads) if place != own]


def new_stage(name: str, reductions: Sequence[bool], extents: Iterable[int | None] | None = None) -> Stage:
    """A stage that a step adds; `reductions` says of each loop whether it sums up, `extents` how long it is where that is known."""
    lengths = [None] * len(reductions) if extents is None else list(extents)
    roots = tuple(Iterator(is_reduction, extent) for is_reduction, extent in zip(reductions, lengths, strict=True))
    return Stage(name, is_placeholder=False, iterators=list(roots), roots=roots)


def _stage(buffer: Any, block: Any) -> Stage:
    if block is None:
        return Stage(str(buffer.name), is_placeholder=True)
    kinds = [axis.iter_type == tvm.tirx.IterVar.CommReduce for axis in block.iter_vars]
    return new_stage(str(block.name_hint), kinds, [_constant(axis.dom.extent) for axis in block.iter_vars])


def _constant(value: Any) -> int | None:
    return int(value) if isinstance(value, tvm.tirx.IntImm) else None


def _in_order(outputs: Sequence[int], sources_of: dict[int, list[int]]) -> list[int]:
    """The order of ``TopoSortOps`` (``src/auto_scheduler/compute_dag.cc``): of those whose inputs are done, the one met last comes first."""
    operations: list[int] = []
    priority: dict[int, int] = {}
    readers: dict[int, list[int]] = {}
    missing: dict[int, int] = {}
    waiting = list(outputs)
    while waiting:
        operation = waiting.pop()
        if operation in priority:
            continue
        priority[operation] = len(operations)
        operations.append(operation)
        sources = sources_of.get(operation, [])
        missing[operation] = len(sources)
        for source in sources:
            readers.setdefault(source, []).append(operation)
            waiting.append(source)
    ready = [(-priority[operation], priority[operation]) for operation in operations if not missing[operation]]
    heapq.heapify(ready)
    order = []
    while ready:
        operation = operations[heapq.heappop(ready)[1]]
        order.append(operation)
        for reader in readers.get(operation, ()):
            missing[reader] -= 1
            if not missing[reader]:
                heapq.heappush(ready, (-priority[reader], priority[reader]))
    return order


def part_extents(extent: int | None, lengths: Sequence[int | None]) -> list[int | None]:
    """How long the parts of a split are; what is left is rounded up."""
    if extent is None:
        return [None if length is None else length for length in lengths]
    rest = math.prod(length for length in lengths if length is not None)
    return [-(-extent // rest) if length is None else length for length in lengths]


def split_lengths(step: Split | FollowSplit | FollowFusedSplit, steps: Sequence[Step]) -> tuple[int | None, ...]:
    """Lengths of the loops that a split makes, outermost first; None for what is left.

    Raises:
        Untranslatable: The step follows one that is no split, or a length was never filled in.
    """
    match step:
        case Split():
            known = _filled(step.lengths)
            return (None, *known) if step.inner_to_outer else (*known, None)
        case FollowSplit():
            source = _followed(steps, step.source)
            rest = 1
            for length in _filled(source.lengths[step.parts - 1 :]):
                rest *= length
            return (None, *_filled(source.lengths[: step.parts - 1]), rest)
        case FollowFusedSplit():
            product = 1
            for number in step.sources:
                lengths = _filled(_followed(steps, number).lengths)
                if not 0 <= step.level < len(lengths):
                    raise Untranslatable(f"FFSP follows level {step.level} of a split into {len(lengths) + 1}")
                product *= lengths[step.level]
            return (None, product) if step.by_factor else (product, None)


def _filled(lengths: Sequence[int | None]) -> tuple[int, ...]:
    if any(length is None or length < 1 for length in lengths):
        raise Untranslatable("a split has a length that was never filled in")
    return tuple(length for length in lengths if length is not None)


def _followed(steps: Sequence[Step], number: int) -> Split:
    step = steps[number] if 0 <= number < len(steps) else None
    if not isinstance(step, Split):
        raise Untranslatable(f"a split follows step {number}, which is no split")
    return step
