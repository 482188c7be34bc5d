"""MetaSchedule's search spaces by name, and spaces of the user's own; none of them changes the layout of a kernel's arguments."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.s_tir import meta_schedule

from workbench.engines.relax.rules import Rules, default_rules, has_dot_products, rules_of_kind
from workbench.engines.relax.space import prepare_intrinsics
from workbench.errors import ModelError, TargetError
from workbench.escaping import plain
from workbench.workloads import own_line

_FIRST_TENSOR_CORES = 70
_FIRST_MMA = 75
_ON_TENSOR_CORES = "s_tir.meta_schedule.MultiLevelTilingTensorCore"
_MAY_RETURN = "Let it return nothing, a tvm.s_tir.Schedule, or a list of them."

ScheduleFunction = Callable[[tvm.s_tir.Schedule], tvm.s_tir.Schedule | list[tvm.s_tir.Schedule] | None]
"""What a user writes instead of rules: it schedules in place, or returns one or several schedules; its ``sample_*`` calls are the space."""


@dataclass(frozen=True)
class SearchSpace:
    """Where a search takes its schedules from.

    Attributes:
        name: One of `space_names`, or the name of the user's function.
        generator: A MetaSchedule ``SpaceGenerator`` with its postprocessors. A ``TuneContext`` ties it to a kernel: each kernel needs
            one of its own.
        function: The user's function that it calls, if it does.
    """

    name: str
    generator: Any
    function: UserFunction | None = None

    @property
    def failure(self) -> ModelError | None:
        """What the user's function raised last, with the line in the user's own file; what TVM makes of it names none."""
        return None if self.function is None else self.function.failure


class UserFunction:
    """Calls a schedule function of the user's and keeps what it raises.

    Attributes:
        failure: The last error in words; None while there is none.
    """

    def __init__(self, function: ScheduleFunction) -> None:
        self._function = function
        self.failure: ModelError | None = None

    @property
    def name(self) -> str:
        """Name of the function."""
        return str(getattr(self._function, "__name__", "function"))

    def __call__(self, schedule: tvm.s_tir.Schedule) -> Any:
        """Call it; raises what it raises, and TypeError for a result that is no schedule."""
        try:
            result = self._function(schedule)
        except (Exception, SystemExit) as error:
            self.failure = _failure(error, self.name, own_line(error, str(getattr(self._function, "__module__", ""))))
            self.failure.__cause__ = error
            raise
        returned = list(result) if isinstance(result, Sequence) else [] if result is None else [result]
        strange = [type(item).__name__ for item in returned if not isinstance(item, tvm.s_tir.Schedule)]
        if strange:
            self.failure = ModelError(f"The schedule function {plain(self.name)} returned a {plain(strange[0])}.", _MAY_RETURN)
            raise TypeError(self.failure.message)
        return returned or None


def _failure(error: BaseException, name: str, place: str) -> ModelError:
    """What a user's function raised: of a long text of TVM's its last line, which says what is wrong."""
    said = str(error).strip().rpartition("\n")[2]
    reason = plain(f"{type(error).__name__}: {said}" if said else type(error).__name__, 300)
    where = f" in {place}" if place else ""
    return ModelError(f"The schedule function {plain(name)} failed{where}: {reason}.", "Mend it, or select only the kernels that it is for.")


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
    reductions, and refuse what a GPU cannot launch. What the function raises comes out of ``generate_design_space``, and is told in
    `SearchSpace.failure`.
    """
    rules = _prepared_rules(target)
    called = UserFunction(function)
    generator = meta_schedule.space_generator.ScheduleFn(called, sch_rules=[], postprocs=rules.postprocs, mutator_probs={})
    return SearchSpace(called.name, generator, called)


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
