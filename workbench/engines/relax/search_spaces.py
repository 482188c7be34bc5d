"""MetaSchedule's search spaces by name, and spaces of the user's own; none of them changes the layout of a kernel's arguments."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.s_tir import meta_schedule

from workbench.engines.relax.rules import Rules, default_rules, has_dot_products, rules_of_kind
from workbench.engines.relax.space import prepare_intrinsics
from workbench.errors import TargetError
from workbench.escaping import plain

_FIRST_TENSOR_CORES = 70
_FIRST_MMA = 75
_ON_TENSOR_CORES = "s_tir.meta_schedule.MultiLevelTilingTensorCore"

ScheduleFunction = Callable[[tvm.s_tir.Schedule], tvm.s_tir.Schedule | list[tvm.s_tir.Schedule] | None]
"""What a user writes instead of rules: it schedules in place, or returns one or several schedules; its ``sample_*`` calls are the space."""


@dataclass(frozen=True)
class SearchSpace:
    """Where a search takes its schedules from.

    Attributes:
        name: One of `space_names`, or the name of the user's function.
        generator: A MetaSchedule ``SpaceGenerator`` with its postprocessors. A ``TuneContext`` ties it to a kernel: each kernel needs
            one of its own.
    """

    name: str
    generator: Any


def space_names(target: tvm.target.Target) -> tuple[str, ...]:
    """Names of the spaces that a target offers.

    ``default``: MetaSchedule's rules for the target. On a CPU with AVX-512 VNNI, a kernel that multiplies uint8 by int8 uses its dot product
    wherever that fits; ``plain`` leaves it out. The dot products of other CPUs are in no space; `workbench.engines.relax.rules` says why. On a
    GPU, every kernel that can use tensor cores does in ``tensorcore``, and none in ``default``.

    Raises:
        TargetError: MetaSchedule has no rules for the target.
    """
    if target.kind.name == "cuda":
        return ("default", "tensorcore") if _compute_capability(target) >= _FIRST_TENSOR_CORES else ("default",)
    _prepared_rules(target)
    return ("default", "plain") if has_dot_products(target) else ("default",)


def make_space(name: str, target: tvm.target.Target) -> SearchSpace:
    """A new generator for the space of that name.

    Raises:
        TargetError: The target has no space of that name.
    """
    names = space_names(target)
    if name not in names:
        raise TargetError(f"There is no search space {plain(name, 60)!r} for {target.kind.name}.", f"Give {' or '.join(names)}.")
    if name == "tensorcore":
        prepare_intrinsics(target, tensor_cores=True)
        rules = _tensor_core_rules(target)
    else:
        rules = _prepared_rules(target, dot_products=name != "plain")
    generator = meta_schedule.space_generator.PostOrderApply(sch_rules=rules.schedule, postprocs=rules.postprocs, mutator_probs={})
    return SearchSpace(name, generator)


def user_space(function: ScheduleFunction, target: tvm.target.Target) -> SearchSpace:
    """The space of a schedule function, with the target's default postprocessors.

    The postprocessors act on annotations, bind blocks that the function left without threads on a GPU, split off the initialisation of
    reductions, and refuse what a GPU cannot launch. What the function raises comes out of ``generate_design_space``.
    """
    rules = _prepared_rules(target)
    generator = meta_schedule.space_generator.ScheduleFn(function, sch_rules=[], postprocs=rules.postprocs, mutator_probs={})
    return SearchSpace(str(getattr(function, "__name__", "function")), generator)


def _prepared_rules(target: tvm.target.Target, *, dot_products: bool = True) -> Rules:
    prepare_intrinsics(target)
    return default_rules(target, dot_products=dot_products)


def _tensor_core_rules(target: tvm.target.Target) -> Rules:
    """TVM's rules: tiling for ``wmma``, then for ``mma``, which came with sm_75, then without tensor cores."""
    rules = rules_of_kind("cuda-tensorcore")
    on_tensor_cores = [rule for rule in rules.schedule if str(rule).startswith(_ON_TENSOR_CORES)]
    if _compute_capability(target) < _FIRST_MMA:
        rules.schedule.remove(on_tensor_cores[-1])
    return rules


def _compute_capability(target: tvm.target.Target) -> int:
    number = re.match(r"sm_(\d+)", str(target.attrs.get("arch", "")))
    return int(number[1]) if number else 0
