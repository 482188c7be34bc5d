"""Size of MetaSchedule's search space for a kernel, and what must be loaded before one can be made."""

from __future__ import annotations

import functools
import importlib
import math
import platform
import sys
import types
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import tvm
from tvm.s_tir import meta_schedule

from workbench.engines.relax.rules import default_rules, register_dot_product

_INTRINSICS = "tvm.s_tir.tensor_intrin"
_CPU_MODULES = {"arm_cpu": ("arm", "aarch64"), "riscv_cpu": ("riscv",)}


def prepare_intrinsics(target: tvm.target.Target, *, tensor_cores: bool = False) -> None:
    """Register the tensor intrinsics that the target's default space needs, and no others.

    Creating a ``TuneContext`` imports the intrinsics of every back end, which takes 13 s; a package of the same name without its
    ``__init__`` lets the submodules be imported alone.

    Args:
        target: Whose.
        tensor_cores: Also those of CUDA's tensor cores, which take 5 to 8 s.
    """
    if _INTRINSICS not in sys.modules:
        package = types.ModuleType(_INTRINSICS)
        package.__path__ = [str(Path(tvm.__file__).parent / "s_tir" / "tensor_intrin")]
        sys.modules[_INTRINSICS] = package
    if target.kind.name == "llvm":
        importlib.import_module(f"{_INTRINSICS}.{_cpu_module(target)}")
        register_dot_product()
    if target.kind.name == "cuda" and tensor_cores:
        importlib.import_module(f"{_INTRINSICS}.cuda")


def _cpu_module(target: tvm.target.Target) -> str:
    triple = str(target.attrs.get("mtriple", "")) or platform.machine()
    return next((name for name, prefixes in _CPU_MODULES.items() if triple.startswith(prefixes)), "x86")


def space_size(function: tvm.tirx.PrimFunc, target: tvm.target.Target) -> int:
    """Number of distinct schedules in the default space of a kernel; see `design_size`."""
    module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
    rules = default_rules(target)
    generator = meta_schedule.space_generator.PostOrderApply(sch_rules=rules.schedule, postprocs=rules.postprocs, mutator_probs={})
    context = meta_schedule.TuneContext(module, target=target, space_generator=generator, task_name="main", num_threads=1, rand_state=1)
    return design_size(context.generate_design_space(), module)


def design_size(schedules: Iterable[Any], module: tvm.IRModule) -> int:
    """Number of distinct schedules that the sketches stand for: over all of them, the product of the alternatives of every decision.

    Tilings are counted exactly (ordered factorisations with the innermost factor bounded), categorical choices too; a compute
    location counts the loops of the consumer and its two special places, which is an upper bound.

    Args:
        schedules: The sketches that a space generator made of the module.
        module: The module, unscheduled.
    """
    return sum(math.prod(_alternatives(module, schedule.trace)) for schedule in schedules)


def _alternatives(module: tvm.IRModule, trace: Any) -> list[int]:
    """Number of alternatives of each decision of a sketch, counted where the decision falls while the sketch is replayed."""
    counts: list[int] = []
    replay = tvm.s_tir.Schedule(module)

    def decide(instruction: Any, inputs: Any, attributes: Any, decision: Any) -> Any:
        kind = instruction.kind.name
        if kind == "SamplePerfectTile":
            counts.append(tilings(math.prod(int(factor) for factor in decision), int(attributes[0]), int(attributes[1])))
        elif kind == "SampleCategorical":
            counts.append(len(attributes[0]))
        elif kind == "SampleComputeLocation":
            consumers = replay.get_consumers(inputs[0])
            counts.append(2 + (len(replay.get_loops(consumers[0])) if consumers else 0))
        return decision

    trace.apply_to_schedule(replay, remove_postproc=False, decision_provider=decide)
    return counts


@functools.cache
def tilings(extent: int, parts: int, largest_innermost: int) -> int:
    """Number of ordered factorisations of `extent` into `parts` factors of which the last is at most `largest_innermost`, if that is positive."""
    if largest_innermost <= 0:
        return _factorisations(extent, parts)
    if parts == 1:
        return int(extent <= largest_innermost)
    return sum(_factorisations(extent // last, parts - 1) for last in divisors(extent) if last <= largest_innermost)


@functools.cache
def _factorisations(extent: int, parts: int) -> int:
    """Number of ordered factorisations: for each prime power p^k, the ways to spread k over the parts, C(k + parts - 1, parts - 1)."""
    ways = 1
    remaining, prime = extent, 2
    while remaining > 1:
        if prime * prime > remaining:
            prime = remaining
        power = 0
        while remaining % prime == 0:
            remaining //= prime
            power += 1
        ways *= math.comb(power + parts - 1, parts - 1)
        prime += 1
    return ways


@functools.cache
def divisors(number: int) -> tuple[int, ...]:
    """All divisors of a positive number, in order."""
    small = [divisor for divisor in range(1, math.isqrt(number) + 1) if number % divisor == 0]
    return tuple(sorted({*small, *(number // divisor for divisor in small)}))
