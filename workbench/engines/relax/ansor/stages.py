"""The auto-scheduler's own view of a workload and a schedule: stages in its order, with iterators that steps split, fuse and reorder.

Nothing is scheduled here: steps are numbers that refer to the state before them, and are turned into references to stages and iterators.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tvm import te

from workbench.legacy.auto_scheduler.steps import FollowFusedSplit, FollowSplit, Split, Step


class Untranslatable(Exception):  # noqa: N818 - it says what a record is, not that something went wrong here
    """A record has no TensorIR schedule; the text names the step and the reason."""


@dataclass(eq=False)
class Iterator:
    """One loop of a stage; `is_reduction` if it sums up."""

    is_reduction: bool


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
    """

    name: str
    is_placeholder: bool
    iterators: list[Iterator] = field(default_factory=list)
    roots: tuple[Iterator, ...] = ()
    changes: list[Change] = field(default_factory=list)
    at: tuple[Stage, Iterator] | None = None
    inlined: bool = False
    block_order: tuple[int, ...] = ()


def stages_of(outputs: Sequence[te.Tensor]) -> list[Stage]:
    """The stages of a workload in the order of the auto-scheduler's compute DAG."""
    return [_stage(operation) for operation in _in_order([tensor.op for tensor in outputs])]


def new_stage(name: str, reductions: Sequence[bool]) -> Stage:
    """A stage that a step adds; `reductions` says of each loop whether it sums up."""
    roots = tuple(Iterator(is_reduction) for is_reduction in reductions)
    return Stage(name, is_placeholder=False, iterators=list(roots), roots=roots)


def _stage(operation: Any) -> Stage:
    if isinstance(operation, te.PlaceholderOp):
        return Stage(str(operation.name), is_placeholder=True)
    return new_stage(str(operation.name), [*(False for _ in operation.axis), *(True for _ in operation.reduce_axis)])


def _in_order(outputs: Sequence[Any]) -> list[Any]:
    """The order of ``TopoSortOps`` (``src/auto_scheduler/compute_dag.cc``): of those whose inputs are done, the one met last comes first."""
    operations: list[Any] = []
    priority: dict[Any, int] = {}
    readers: dict[Any, list[Any]] = {}
    missing: dict[Any, int] = {}
    waiting = list(outputs)
    while waiting:
        operation = waiting.pop()
        if operation in priority:
            continue
        priority[operation] = len(operations)
        operations.append(operation)
        sources = [] if isinstance(operation, te.PlaceholderOp) else [tensor.op for tensor in operation.input_tensors]
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
