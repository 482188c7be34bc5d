"""MetaSchedule's search spaces by name, and spaces of the user's own; none of them changes the layout of a kernel's arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.s_tir import meta_schedule

from workbench.engines.relax.space import prepare_intrinsics
from workbench.errors import TargetError
from workbench.escaping import plain

_FIRST_TENSOR_CORES = 70
_FIRST_MMA = 75
_LAYOUT_CHANGING = "s_tir.meta_schedule.RewriteLayout"
_ON_TENSOR_CORES = "s_tir.meta_schedule.MultiLevelTilingTensorCore"
_WITH_INTRINSIC = "s_tir.meta_schedule.MultiLevelTilingWithIntrin"

ScheduleFunction = Callable[[tvm.s_tir.Schedule], tvm.s_tir.Schedule | list[tvm.s_tir.Schedule] | None]
"""What a user writes instead of rules: it schedules in place, or returns one or several schedules; its ``sample_*`` calls are the space."""


@dataclass(frozen=True)
class SearchSpace:
    """Where a search takes its schedules from.

    Attributes:
        name: One of `space_names`, or the name of the user's function.
        generator: A MetaSchedule ``SpaceGenerator`` with its postprocessors and mutators. A ``TuneContext`` ties it to a kernel: each kernel needs
            one of its own.
    """

    name: str
    generator: Any


@dataclass(frozen=True)
class _Rules:
    """Schedule rules, postprocessors and mutators with their probabilities."""

    schedule: list[Any]
    postprocs: list[Any]
    mutators: dict[Any, float]


def space_names(target: tvm.target.Target) -> tuple[str, ...]:
    """Names of the spaces that a target offers.

    ``default``: MetaSchedule's rules for the target. On a CPU with instructions for dot products (VNNI, AVX-512, ASIMD, RVV), an integer kernel
    that can use them always does; ``plain`` leaves them out. On a GPU, every kernel that can use tensor cores does in ``tensorcore``, and none in
    ``default``.
    """
    if target.kind.name == "cuda":
        return ("default", "tensorcore") if _compute_capability(target) >= _FIRST_TENSOR_CORES else ("default",)
    return ("default", "plain") if any(str(rule).startswith(_WITH_INTRINSIC) for rule in _default_rules(target).schedule) else ("default",)


def make_space(name: str, target: tvm.target.Target) -> SearchSpace:
    """A new generator for the space of that name.

    Raises:
        TargetError: The target has no space of that name.
    """
    names = space_names(target)
    if name not in names:
        raise TargetError(f"There is no search space {plain(name, 60)!r} for {target.kind.name}.", f"Give {' or '.join(names)}.")
    prepare_intrinsics(target, tensor_cores=name == "tensorcore")
    if name == "tensorcore":
        rules = _tensor_core_rules(target)
    elif name == "plain":
        rules = _rules_of_kind("llvm")
    else:
        rules = _default_rules(target)
    generator = meta_schedule.space_generator.PostOrderApply(sch_rules=rules.schedule, postprocs=rules.postprocs, mutator_probs=rules.mutators)
    return SearchSpace(name, generator)


def user_space(function: ScheduleFunction, target: tvm.target.Target) -> SearchSpace:
    """The space of a schedule function, with the target's default postprocessors and mutators.

    The postprocessors act on annotations, bind blocks that the function left without threads on a GPU, split off the initialisation of
    reductions, and refuse what a GPU cannot launch. What the function raises comes out of ``generate_design_space``.
    """
    rules = _default_rules(target)
    generator = meta_schedule.space_generator.ScheduleFn(function, sch_rules=[], postprocs=rules.postprocs, mutator_probs=rules.mutators)
    return SearchSpace(str(getattr(function, "__name__", "function")), generator)


def _default_rules(target: tvm.target.Target) -> _Rules:
    prepare_intrinsics(target)
    if target.kind.name == "cuda":
        return _rules_of_kind("cuda")  # the target's own rules are those for tensor cores
    kind = "from-target"
    generator = meta_schedule.space_generator.PostOrderApply(sch_rules=kind, postprocs=kind, mutator_probs=kind)
    try:
        with target:  # RISC-V's rules ask for it
            meta_schedule.TuneContext(tvm.IRModule(), target=target, space_generator=generator, num_threads=1, rand_state=1)
    except tvm.error.InternalError as error:
        reason = plain(str(error).strip(), 200)
        raise TargetError(f"MetaSchedule has no search space for the kind {target.kind.name}: {reason}", "Use llvm or cuda.") from error
    return _rules(generator.sch_rules, generator.postprocs, generator.mutator_probs)


def _tensor_core_rules(target: tvm.target.Target) -> _Rules:
    """TVM's rules: tiling for ``wmma``, then for ``mma``, which came with sm_75, then without tensor cores."""
    rules = _rules_of_kind("cuda-tensorcore")
    on_tensor_cores = [rule for rule in rules.schedule if str(rule).startswith(_ON_TENSOR_CORES)]
    if _compute_capability(target) < _FIRST_MMA:
        rules.schedule.remove(on_tensor_cores[-1])
    return rules


def _rules_of_kind(kind: str) -> _Rules:
    return _rules(
        meta_schedule.schedule_rule.ScheduleRule.create(kind),
        meta_schedule.postproc.Postproc.create(kind),
        meta_schedule.mutator.Mutator.create(kind),
    )


def _rules(schedule: Any, postprocs: Any, mutators: Any) -> _Rules:
    kept = [postproc for postproc in postprocs if str(postproc) != _LAYOUT_CHANGING]
    return _Rules(list(schedule), kept, {mutator: float(probability) for mutator, probability in mutators.items()})


def _compute_capability(target: tvm.target.Target) -> int:
    number = re.match(r"sm_(\d+)", str(target.attrs.get("arch", "")))
    return int(number[1]) if number else 0
