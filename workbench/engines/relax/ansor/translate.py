"""Replays a record of the auto-scheduler as a TensorIR schedule.

Steps that change the workload (inline, cache, rfactor) are done at once. Those that shape a stage's loops are noted, and done from the outputs to
the inputs: a stage that is computed at a loop of its reader gets its loops from there, which is what TE's bounds inference did, and only then are
they split, fused and reordered. An outer part that the reader's loops have taken over has extent 1.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import tvm

from workbench.engines.relax.ansor.marks import mark_loop
from workbench.engines.relax.ansor.stages import (
    FuseLoops,
    Iterator,
    Mark,
    OtherWorkload,
    ReorderLoops,
    SplitLoop,
    Stage,
    Untranslatable,
    new_stage,
    part_extents,
    split_lengths,
    stages_of,
)
from workbench.legacy.auto_scheduler.steps import (
    Annotate,
    CacheRead,
    CacheWrite,
    ComputeAt,
    ComputeInline,
    ComputeRoot,
    FollowFusedSplit,
    FollowSplit,
    Fuse,
    Pragma,
    Reorder,
    Rfactor,
    Split,
    Step,
    StorageAlign,
)


def translate(module: tvm.IRModule, steps: Sequence[Step]) -> tvm.s_tir.Schedule:
    """The schedule that steps of the auto-scheduler make of a kernel.

    Args:
        module: The unscheduled kernel as ``main``, one block an operation, as TE and TOPI make them.
        steps: The steps of a record.

    Raises:
        OtherWorkload: The steps are of another workload than the kernel.
        Untranslatable: A step has no counterpart.
    """
    schedule = tvm.s_tir.Schedule(module, error_render_level="fast")
    replay = _Replay(schedule, stages_of(schedule), steps)
    for number, step in enumerate(steps):
        try:
            replay.note(step)
        except OtherWorkload as error:
            raise OtherWorkload(f"step {number} ({type(step).__name__}): {error}", number) from error
        except Untranslatable as error:
            raise Untranslatable(f"step {number} ({type(step).__name__}): {error}") from error
        except Exception as error:
            raise Untranslatable(f"step {number} ({type(step).__name__}): {_last_line(error)}") from error
    replay.shape_loops()
    return schedule


class _Replay:
    def __init__(self, schedule: tvm.s_tir.Schedule, stages: list[Stage], steps: Sequence[Step]) -> None:
        self._schedule = schedule
        self._stages = stages
        self._steps = steps
        self._loops: dict[Iterator, Any] = {}

    # steps, one by one

    def note(self, step: Step) -> None:
        """Do a step, or note what it does to loops."""
        if isinstance(step, Split | FollowSplit | FollowFusedSplit):
            extent = step.extent if isinstance(step, Split) else None
            self._split(self._stage(step.stage), step.iterator, split_lengths(step, self._steps), extent)
        elif isinstance(step, Annotate | Pragma):
            stage = self._stage(step.stage)
            mark = {"annotation": step.annotation} if isinstance(step, Annotate) else {"pragma": step.pragma}
            stage.changes.append(Mark(self._iterator(stage, step.iterator), **mark))
        else:
            actions: dict[type, Callable[[Any], None]] = {
                Fuse: self._fuse,
                Reorder: self._reorder,
                ComputeAt: self._compute_at,
                ComputeRoot: self._compute_root,
                ComputeInline: self._compute_inline,
                CacheWrite: self._cache_write,
                CacheRead: self._cache_read,
                Rfactor: self._rfactor,
                StorageAlign: self._storage_align,
            }
            actions[type(step)](step)

    def _stage(self, number: int) -> Stage:
        if not 0 <= number < len(self._stages):
            raise OtherWorkload(f"there is no stage {number}: the workload is another one")
        self._stages[number].is_named = True
        return self._stages[number]

    @staticmethod
    def _iterator(stage: Stage, number: int) -> Iterator:
        if not 0 <= number < len(stage.iterators):
            raise OtherWorkload(f"stage {stage.name} has no iterator {number}: the workload is another one")
        return stage.iterators[number]

    def _split(self, stage: Stage, number: int, lengths: tuple[int | None, ...], extent: int | None) -> None:
        iterator = self._iterator(stage, number)
        if None not in (extent, iterator.extent) and extent != iterator.extent:
            raise OtherWorkload(f"iterator {number} of stage {stage.name} has extent {iterator.extent}, not {extent}: the workload is another one")
        parts = tuple(Iterator(iterator.is_reduction, length) for length in part_extents(iterator.extent, lengths))
        stage.iterators[number : number + 1] = parts
        stage.changes.append(SplitLoop(iterator, lengths, parts))
        self._follow(stage, (iterator,), parts[-1])

    def _fuse(self, step: Fuse) -> None:
        if not step.iterators:
            return
        stage, numbers = self._stage(step.stage), step.iterators
        iterators = tuple(self._iterator(stage, number) for number in numbers)
        if list(numbers) != list(range(numbers[0], numbers[0] + len(numbers))):
            raise Untranslatable("iterators that are fused are no neighbours")
        extents = [iterator.extent for iterator in iterators]
        total = None if None in extents else math.prod(extent for extent in extents if extent is not None)
        fused = Iterator(any(iterator.is_reduction for iterator in iterators), total)
        stage.iterators[numbers[0] : numbers[0] + len(numbers)] = [fused]
        stage.changes.append(FuseLoops(iterators, fused))
        self._follow(stage, iterators, fused)

    def _follow(self, stage: Stage, old: Sequence[Iterator], new: Iterator) -> None:
        """Have what is computed at one of the old iterators computed at the new one."""
        for other in self._stages:
            if other.at is not None and other.at[0] is stage and other.at[1] in old:
                other.at = (stage, new)

    def _reorder(self, step: Reorder) -> None:
        stage = self._stage(step.stage)
        order = tuple(self._iterator(stage, place) for place in step.order)
        if len(set(order)) != len(stage.iterators):
            raise Untranslatable("the order does not name every iterator once")
        stage.iterators = list(order)
        stage.changes.append(ReorderLoops(order))

    def _compute_at(self, step: ComputeAt) -> None:
        target, stage = self._stage(step.target), self._stage(step.stage)
        stage.at = (target, self._iterator(target, step.iterator))
        for iterator in stage.iterators:
            iterator.extent = None

    def _compute_root(self, step: ComputeRoot) -> None:
        self._stage(step.stage).at = None

    def _storage_align(self, _step: StorageAlign) -> None:
        raise Untranslatable("the storage of a stage is aligned by an iterator, which TensorIR does by a buffer's axis")

    # steps that change the workload

    def _block(self, stage: Stage) -> Any:
        if stage.is_placeholder:
            raise OtherWorkload(f"{stage.name} is an input, and the step is for what is computed: the workload is another one")
        return self._schedule.get_sblock(stage.name, func_name="main")

    def _name_of(self, block: Any) -> str:
        return str(self._schedule.get(block).name_hint)

    def _compute_inline(self, step: ComputeInline) -> None:
        stage = self._stage(step.stage)
        if stage is self._stages[-1]:
            raise OtherWorkload(f"stage {stage.name} is the result and cannot be computed where it is read: the workload is another one")
        self._schedule.compute_inline(self._block(stage))
        stage.inlined = True

    def _cache_write(self, step: CacheWrite) -> None:
        """The stage computes into a cache from now on; a new stage behind it copies to where it wrote before."""
        stage = self._stage(step.stage)
        if stage.changes:
            raise Untranslatable("a stage is cached after its loops were changed")
        copy = self._schedule.cache_write(self._block(stage), 0, _scope(step.scope))
        spatial = [iterator for iterator in stage.roots if not iterator.is_reduction]
        copied = new_stage(self._name_of(copy), [False] * len(spatial), [iterator.extent for iterator in spatial])
        copied.is_named = stage.is_named
        self._stages.insert(step.stage + 1, copied)

    def _cache_read(self, step: CacheRead) -> None:
        """A new stage behind the stage copies its result, and the readers read the copy."""
        stage = self._stage(step.stage)
        readers = [self._stage(number) for number in step.readers]
        if not readers:
            raise Untranslatable("a cache has no reader")
        first = self._block(readers[0])
        reads = [str(region.source.name) for region in self._schedule.get(first).reads]
        wanted = stage.name if stage.is_placeholder else str(self._schedule.get(self._block(stage)).writes[0].source.name)
        if wanted not in reads:
            raise Untranslatable(f"stage {readers[0].name} does not read {wanted}")
        copy = self._schedule.cache_read(first, reads.index(wanted), _scope(step.scope), consumer_blocks=[self._block(item) for item in readers])
        rank = len(self._schedule.get(copy).iter_vars)
        self._stages.insert(step.stage + 1, new_stage(self._name_of(copy), [False] * rank))

    def _rfactor(self, step: Rfactor) -> None:
        """A new stage before the stage sums up along all iterators but one; the stage sums its results up along that one."""
        stage = self._stage(step.stage)
        iterator = self._iterator(stage, step.iterator)
        if stage.at is not None:
            raise Untranslatable("a stage that is computed at another one's loop is factored")
        self._shape(stage)
        name = stage.name
        partial = self._schedule.rfactor(self._loops[iterator], step.factor_iterator)
        factored = new_stage(self._name_of(partial), [])
        spatial = [item for item in stage.iterators if not item.is_reduction]
        rest = [item for item in stage.iterators if item.is_reduction and item is not iterator]
        own = Iterator(is_reduction=False)
        places = [*spatial[: step.factor_iterator], own, *spatial[step.factor_iterator :], *rest]
        loops = dict(zip(stage.iterators, self._schedule.get_loops(partial), strict=True))
        loops[own] = loops.pop(iterator)
        self._schedule.reorder(*(loops[item] for item in places))
        fresh = [Iterator(item.is_reduction) for item in places]
        factored.iterators, factored.roots = list(fresh), tuple(fresh)
        others = [place for place in range(len(places)) if place != step.factor_iterator]
        factored.block_order = (step.factor_iterator, *others)
        remaining = [*(Iterator(is_reduction=False) for _ in spatial), Iterator(is_reduction=True)]
        stage.name, stage.iterators, stage.roots, stage.changes = name, list(remaining), tuple(remaining), []
        stage.block_order = (len(spatial), *range(len(spatial)))
        self._stages.insert(step.stage, factored)

    # loops

    def shape_loops(self) -> None:
        """Do all that was noted, from the outputs to the inputs.

        Raises:
            OtherWorkload: No step named the result: the log's workload ends before it.
            Untranslatable: A loop cannot be made what a step wants.
        """
        if self._steps and not self._stages[-1].is_named:
            raise OtherWorkload(f"no step schedules {self._stages[-1].name}: the workload is another one", len(self._steps))
        done: set[int] = set()
        for stage in reversed(self._stages):
            self._place(stage, done)
        for stage in self._stages:
            if not stage.is_placeholder and not stage.inlined:
                self._separate_start(stage)

    def _place(self, stage: Stage, done: set[int]) -> None:
        if id(stage) in done or stage.is_placeholder or stage.inlined:
            return
        done.add(id(stage))
        if stage.at is not None:
            target, iterator = stage.at
            self._place(target, done)
            if iterator not in self._loops:
                raise Untranslatable(f"stage {stage.name} is computed at a loop of {target.name} that is no more")
            try:
                self._schedule.compute_at(self._block(stage), self._loops[iterator], preserve_unit_loops=True)
            except Exception as error:
                raise Untranslatable(f"stage {stage.name} cannot be computed at a loop of {target.name}: {_last_line(error)}") from error
        try:
            self._shape(stage)
        except Untranslatable:
            raise
        except Exception as error:
            raise Untranslatable(f"the loops of stage {stage.name}: {_last_line(error)}") from error

    def _shape(self, stage: Stage) -> None:
        """Split, fuse, reorder and mark the loops of a stage."""
        schedule, loops = self._schedule, self._loops
        found = schedule.get_loops(self._block(stage))
        if len(found) < len(stage.roots):
            raise Untranslatable(f"stage {stage.name} has {len(found)} loops and should have {len(stage.roots)}")
        own = found[len(found) - len(stage.roots) :]
        if stage.at is not None and stage.block_order:  # loops that were made anew stand in the order of the block's axes
            own = [own[stage.block_order.index(place)] for place in range(len(own))]
            schedule.reorder(*own)
        loops.update(zip(stage.roots, own, strict=True))
        for change in stage.changes:
            match change:
                case SplitLoop():
                    made = schedule.split(loops.pop(change.iterator), [None if length is None else length for length in change.lengths])
                    loops.update(zip(change.parts, made, strict=True))
                case FuseLoops():
                    loops[change.fused] = schedule.fuse(*(loops.pop(iterator) for iterator in change.iterators))
                case ReorderLoops():
                    schedule.reorder(*(loops[iterator] for iterator in change.order))
                case Mark():
                    mark_loop(schedule, loops[change.iterator], change)

    def _separate_start(self, stage: Stage) -> None:
        """Set a sum to its start value before its first reducing loop, as TE did, not within the innermost one."""
        block = self._block(stage)
        if self._schedule.get(block).init is None:
            return
        reducing = [self._loops[iterator] for iterator in stage.iterators if iterator.is_reduction and iterator in self._loops]
        if reducing:
            self._schedule.decompose_reduction(block, reducing[0])


def _scope(scope: str) -> str:
    return {"local": "local", "shared": "shared"}.get(scope, "global") if scope else "global"


def _last_line(error: Exception) -> str:
    lines = [line for line in str(error).strip().splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else type(error).__name__
