"""The rules of a target's default search space, and the instruction for dot products that they may use: AVX-512 VNNI, and no other.

TVM 0.27 has intrinsics for several, but its candidates fail: the loop around an intrinsic is vectorized, which does not build; the rows of the
second operand are read as if they lay side by side, which gives wrong values for a kernel whose weights are not packed; those for AVX-512 alone
saturate at 16 bits; those for AVX-VNNI need registers that such a processor lacks; and none can be checked for ARM or RISC-V on an x86. VNNI's
gets an implementation and rules here that put this right; the others are left out. A trace keeps TVM's name of the intrinsic.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

import tvm
from tvm.ir.utils import derived_object
from tvm.s_tir import TensorIntrin, meta_schedule
from tvm.s_tir.meta_schedule.schedule_rule import ParallelizeVectorizeUnroll, PyScheduleRule
from tvm.script import tirx as T
from tvm.target import codegen

from workbench.errors import TargetError
from workbench.escaping import plain

_DOT_PRODUCT = "dot_16x4_vnni"
_LAYOUT_CHANGING = "s_tir.meta_schedule.RewriteLayout"
_TENSORIZE = "meta_schedule.auto_tensorize"
_VECTORIZING = "s_tir.meta_schedule.ParallelizeVectorizeUnroll"
_WITH_INTRINSIC = "s_tir.meta_schedule.MultiLevelTilingWithIntrin"

# A text, since TVM reads the annotations as its own language. The operand types are those of LLVM 22: bytes, where TVM passes integers.
_IMPLEMENTATION = """
@T.prim_func(s_tir=True)
def dot_product(
    A: T.Buffer((4,), "uint8", offset_factor=1), B: T.Buffer((16, 4), "int8", offset_factor=1), C: T.Buffer((16,), "int32", offset_factor=1)
) -> None:
    with T.sblock("root"):
        T.reads(C[0:16], A[0:4], B[0:16, 0:4])
        T.writes(C[0:16])
        C[T.ramp(T.int32(0), 1, 16)] = T.call_llvm_pure_intrin(
            T.llvm_lookup_intrinsic_id("llvm.x86.avx512.vpdpbusd.512"),
            C.vload([0], dtype="int32x16"),
            T.reinterpret(T.broadcast(T.reinterpret(A.vload([0], "uint8x4"), dtype="int32"), 16), dtype="uint8x64"),
            T.Shuffle([{rows}], {lanes}),
            dtype="int32x16",
        )
"""


@dataclass(frozen=True)
class Rules:
    """Schedule rules and postprocessors; none that changes the layout of a kernel's arguments."""

    schedule: list[Any]
    postprocs: list[Any]


def default_rules(target: tvm.target.Target, *, dot_products: bool = True) -> Rules:
    """The rules for a target whose intrinsics are registered.

    Args:
        target: What for.
        dot_products: Use VNNI for every integer kernel that can, if the target has it.

    Raises:
        TargetError: MetaSchedule has no rules for the target.
    """
    if target.kind.name == "cuda":
        return rules_of_kind("cuda")  # the target's own rules are those for tensor cores
    kind = "from-target"
    generator = meta_schedule.space_generator.PostOrderApply(sch_rules=kind, postprocs=kind, mutator_probs={})
    try:
        with target:  # RISC-V's rules ask for it
            meta_schedule.TuneContext(tvm.IRModule(), target=target, space_generator=generator, num_threads=1, rand_state=1)
    except tvm.error.InternalError as error:
        reason = plain(str(error).strip(), 200)
        raise TargetError(f"MetaSchedule has no search space for the kind {target.kind.name}: {reason}", "Use llvm or cuda.") from error
    rules = _rules(generator.sch_rules, generator.postprocs)
    uses_dot_products = dot_products and has_dot_products(target)
    schedule: list[Any] = []
    for rule in rules.schedule:
        if not str(rule).startswith(_WITH_INTRINSIC):
            schedule.append(_VectorizesNoDotProducts(rule) if uses_dot_products and str(rule).startswith(_VECTORIZING) else rule)
        elif uses_dot_products:
            schedule.append(_TilesForDotProducts(rule))
    return Rules(schedule, rules.postprocs)


def rules_of_kind(kind: str) -> Rules:
    """MetaSchedule's rules by their name."""
    return _rules(meta_schedule.schedule_rule.ScheduleRule.create(kind), meta_schedule.postproc.Postproc.create(kind))


def _rules(schedule: Any, postprocs: Any) -> Rules:
    kept = [postproc for postproc in postprocs if str(postproc) != _LAYOUT_CHANGING]
    return Rules(list(schedule), kept)


def has_dot_products(target: tvm.target.Target) -> bool:
    """Whether the target is a CPU with AVX-512 VNNI."""
    return target.kind.name == "llvm" and bool(codegen.target_has_features("avx512vnni", target))


def register_dot_product() -> None:
    """Give TVM's intrinsic for VNNI, if it is loaded, an implementation that builds and reads the rows where they are."""
    intrinsic = TensorIntrin.get(_DOT_PRODUCT, allow_missing=True)
    if intrinsic is not None and not intrinsic.impl.same_as(_implementation()):
        TensorIntrin.register(_DOT_PRODUCT, intrinsic.desc, _implementation(), override=True)


@functools.cache
def _implementation() -> Any:
    rows = ", ".join(f'B.vload([{row}, 0], "int8x4")' for row in range(16))
    return tvm.script.from_source(_IMPLEMENTATION.format(rows=rows, lanes=list(range(64))), extra_vars={"T": T})


@derived_object
class _TilesForDotProducts(PyScheduleRule):  # type: ignore[misc]  # TVM has no types
    """TVM's tiling for the intrinsic, only where the tile fits the intrinsic: TVM compares no more than the loops, and finds out too late."""

    def __init__(self, rule: Any) -> None:
        super().__init__()
        self.rule = rule

    def _initialize_with_tune_context(self, context: Any) -> None:
        self.rule._initialize_with_tune_context(context)  # noqa: SLF001 - what the base class calls it

    def apply(self, sch: Any, block: Any) -> list[Any]:
        tiled = list(self.rule.apply(sch.copy(), block))
        return tiled if all(_fits(schedule.mod) for schedule in tiled) else [sch]

    def clone(self) -> Any:
        return _TilesForDotProducts(self.rule.clone())


@derived_object
class _VectorizesNoDotProducts(PyScheduleRule):  # type: ignore[misc]  # TVM has no types
    """TVM's parallelization, vectorization and unrolling; in a kernel with the intrinsic, vectorization is left to it and to LLVM."""

    def __init__(self, rule: Any) -> None:
        super().__init__()
        self.rule = rule
        self.unvectorized = ParallelizeVectorizeUnroll(max_jobs_per_core=16, max_vectorize_extent=-1, unroll_max_steps=[0, 16, 64, 512])

    def _initialize_with_tune_context(self, context: Any) -> None:
        for rule in (self.rule, self.unvectorized):
            rule._initialize_with_tune_context(context)  # noqa: SLF001 - what the base class calls it

    def apply(self, sch: Any, block: Any) -> list[Any]:
        rule = self.unvectorized if _dot_products(sch) else self.rule
        return list(rule.apply(sch, block))

    def clone(self) -> Any:
        return _VectorizesNoDotProducts(self.rule.clone())


def _dot_products(schedule: Any) -> list[Any]:
    """Blocks of a schedule that are to become the intrinsic."""
    root = schedule.get_sblock("root")
    return [block for block in schedule.get_child_blocks(root) if _TENSORIZE in schedule.get(block).annotations]


def _fits(module: tvm.IRModule) -> bool:
    """Whether every block that is to become the intrinsic can."""
    schedule = tvm.s_tir.Schedule(module, error_render_level="none")
    for block in _dot_products(schedule):
        try:
            schedule.decompose_reduction(block, schedule.get_loops(block)[0])
            schedule.tensorize(block, _DOT_PRODUCT)
        except tvm.s_tir.ScheduleError:
            return False
    return True
