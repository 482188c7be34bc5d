"""A schedule made for a GPU runs on the CPU and computes there what the unscheduled kernel computes, or visibly something else."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te, topi
from tvm.s_tir import meta_schedule

from workbench.engines.relax.build import with_default_schedules
from workbench.engines.relax.cpu_check import NotCheckable, runnable_on_cpu
from workbench.engines.relax.search_spaces import make_space
from workbench.engines.targets import resolve_target, to_tvm

Array = np.ndarray[Any, Any]
CPU = to_tvm(resolve_target("cpu", threads=2))
SAMPLES, ATTEMPTS = 8, 1500


def cuda(arch: str) -> Any:
    return to_tvm(resolve_target(f"cuda:{arch}", threads=2))


def conv2d() -> list[Any]:
    data, weight = te.placeholder((1, 16, 14, 14), name="data"), te.placeholder((16, 16, 3, 3), name="weight")
    return [data, weight, topi.nn.conv2d_nchw(data, weight, 1, 1, 1)]


def matmul() -> list[Any]:
    a, b = te.placeholder((60, 48), name="a"), te.placeholder((48, 40), name="b")
    return [a, b, topi.matmul(a, b)]


def softmax() -> list[Any]:
    data = te.placeholder((6, 300), name="data")
    return [data, topi.nn.softmax(data)]


def row_sum() -> list[Any]:
    data = te.placeholder((3, 1000), name="data")
    return [data, topi.sum(data, axis=1)]


def depthwise() -> list[Any]:
    data, weight = te.placeholder((1, 24, 15, 15), name="data"), te.placeholder((24, 1, 3, 3), name="weight")
    return [data, weight, topi.nn.depthwise_conv2d_nchw(data, weight, (1, 1), (1, 1), (1, 1))]


def dense_relu() -> list[Any]:
    data, weight = te.placeholder((5, 96), name="data"), te.placeholder((70, 96), name="weight")
    return [data, weight, topi.nn.relu(topi.nn.dense(data, weight))]


def transpose() -> list[Any]:
    data = te.placeholder((3, 17, 40), name="data")
    return [data, topi.transpose(data, (2, 0, 1))]


KERNELS = [conv2d, matmul, softmax, row_sum, depthwise, dense_relu, transpose]


class Case:
    """A kernel, its inputs and its right result."""

    def __init__(self, make: Callable[[], list[Any]]) -> None:
        tensors = make()
        self.module = tvm.IRModule({"main": te.create_prim_func(tensors).with_attr("global_symbol", "main")})
        random = np.random.default_rng(0)
        *inputs, result = ([int(size) for size in tensor.shape] for tensor in tensors)
        self.inputs = [random.standard_normal(shape).astype(str(tensor.dtype)) for shape, tensor in zip(inputs, tensors[:-1], strict=True)]
        self.result = (result, str(tensors[-1].dtype))
        self.expected = self.run(self.module)

    def run(self, module: Any) -> Array:
        out = tvm.runtime.tensor(np.full(self.result[0], np.nan, self.result[1]))
        tvm.compile(module, target=CPU)["main"](*map(tvm.runtime.tensor, self.inputs), out)
        return out.numpy()

    def is_right(self, module: Any) -> bool:
        return bool(np.allclose(self.run(module), self.expected, rtol=1e-4, atol=1e-4))

    def samples(self, name: str, target: Any, *, leave_out: str = "-") -> Iterator[Any]:
        """Endless random schedules of a space that its postprocessors accept."""
        generator = make_space(name, target).generator
        context = meta_schedule.TuneContext(self.module, target=target, space_generator=generator, num_threads=1, rand_state=1)
        sketches = [tvm.s_tir.schedule.Trace(sketch.trace.insts, {}) for sketch in context.generate_design_space()]
        postprocs = [postproc for postproc in generator.postprocs if leave_out not in str(postproc)]
        for attempt in range(ATTEMPTS):
            schedule = tvm.s_tir.Schedule(self.module, seed=attempt + 1, debug_mask="none", error_render_level="none")
            sketches[attempt % len(sketches)].apply_to_schedule(schedule, remove_postproc=True)
            if all(postproc.apply(schedule) for postproc in postprocs):
                yield schedule


@pytest.mark.slow
@pytest.mark.parametrize("arch", ["sm_90", "sm_75"])
@pytest.mark.parametrize("make", KERNELS)
def test_schedules_from_the_cuda_space_compute_the_right_thing(make: Callable[[], list[Any]], arch: str) -> None:
    case = Case(make)
    found = [schedule for _, schedule in zip(range(SAMPLES), case.samples("default", cuda(arch)), strict=False)]
    assert len(found) == SAMPLES
    for schedule in found:
        assert case.is_right(runnable_on_cpu(schedule.mod)), schedule.mod.script()


@pytest.mark.parametrize("make", KERNELS)
def test_the_default_schedules_compute_the_right_thing(make: Callable[[], list[Any]]) -> None:
    case = Case(make)
    scheduled = with_default_schedules(case.module, cuda("sm_90"))
    assert "thread_binding" in scheduled.script()
    assert case.is_right(runnable_on_cpu(scheduled))


def test_nothing_of_the_gpu_is_left_and_the_schedule_itself_stays_as_it_was() -> None:
    case = Case(dense_relu)
    schedule = next(case.samples("default", cuda("sm_90")))
    before = tvm_ffi.structural_hash(schedule.mod)
    text = runnable_on_cpu(schedule.mod).script()
    for word in ("thread_binding", "scope=", "annotations", "sblock_attr", "unroll("):
        assert word not in text
    assert tvm_ffi.structural_hash(schedule.mod) == before
    assert "thread_binding" in schedule.mod.script()


def test_a_nest_that_fetches_together_runs_once_for_all_threads() -> None:
    case = Case(matmul)
    schedule = next(one for one in case.samples("default", cuda("sm_75")) if thread_axes(one.mod, "b_shared").count("threadIdx.x") == 2)
    axes = dict(zip(thread_axes(schedule.mod, "b_shared"), loop_extents(schedule.mod, "b_shared", threads=True), strict=True))
    *outer, _ = loop_extents(schedule.mod, "b_shared", threads=True)
    before, after = (math.prod(loop_extents(module, "b_shared")) for module in (schedule.mod, runnable_on_cpu(schedule.mod)))
    assert list(axes) == ["blockIdx.x", "vthread.x", "threadIdx.x"]
    assert before == after * math.prod(outer) // axes["blockIdx.x"]
    assert before > after


def thread_axes(module: Any, block: str) -> list[str]:
    """Axes of the loops over threads around a block, outermost first."""
    return [str(loop.thread_binding.thread_tag) for loop in loops_around(module, block) if loop.thread_binding is not None]


def loop_extents(module: Any, block: str, *, threads: bool = False) -> list[int]:
    return [int(loop.extent) for loop in loops_around(module, block) if loop.thread_binding is not None or not threads]


def loops_around(module: Any, block: str) -> list[Any]:
    schedule = tvm.s_tir.Schedule(module)
    return [schedule.get(loop) for loop in schedule.get_loops(schedule.get_sblock(block))]


def shifted_reads(function: Any) -> Any:
    """Reads of what the threads share, one element off."""

    def shift(load: Any) -> Any:
        if "shared" not in load.source.name:
            return load
        *first, last = load.indices
        return tvm.tirx.BufferLoad(load.source, [*first, (last + 1) % load.source.shape[-1]])

    return tvm_ffi.structural_map(function, (tvm.ir.TensorLoad, shift))


def fewer_threads(function: Any) -> Any:
    """The last thread is never started."""

    def shorten(loop: Any) -> Any:
        if loop.thread_binding is None or str(loop.thread_binding.thread_tag) != "threadIdx.x":
            return loop
        return tvm.tirx.For(loop.loop_var, loop.min, loop.extent - 1, loop.kind, loop.body, loop.thread_binding, loop.annotations)

    return tvm_ffi.structural_map(function, (tvm.tirx.For, shorten))


def wrong_start(function: Any) -> Any:
    """Sums start at one."""
    return tvm_ffi.structural_map(function, (tvm.tirx.FloatImm, lambda value: tvm.tirx.const(1.0, "float32") if value.value == 0 else value))


@pytest.mark.parametrize("plant", [shifted_reads, fewer_threads, wrong_start])
@pytest.mark.parametrize("make", [conv2d, matmul])
def test_a_wrong_schedule_computes_something_else(make: Callable[[], list[Any]], plant: Callable[[Any], Any]) -> None:
    case = Case(make)
    schedule = next(case.samples("default", cuda("sm_75")))
    assert case.is_right(runnable_on_cpu(schedule.mod))
    wrong = tvm.IRModule({"main": plant(schedule.mod["main"])})
    assert tvm_ffi.structural_hash(wrong) != tvm_ffi.structural_hash(schedule.mod)
    assert not case.is_right(runnable_on_cpu(wrong))


def half_matmul() -> list[Any]:
    a, b, k = te.placeholder((64, 96), "float16", name="a"), te.placeholder((96, 64), "float16", name="b"), te.reduce_axis((0, 96), name="k")
    c = te.compute((64, 64), lambda i, j: te.sum(a[i, k].astype("float32") * b[k, j].astype("float32"), axis=k), name="c")
    return [a, b, c]


@pytest.mark.slow
def test_schedules_for_tensor_cores_are_checkable_only_before_the_intrinsics_are_in() -> None:
    case, target = Case(half_matmul), cuda("sm_90")
    checked = [
        case.is_right(runnable_on_cpu(one.mod)) for _, one in zip(range(4), case.samples("tensorcore", target, leave_out="Tensorize"), strict=False)
    ]
    assert checked == [True] * 4
    with pytest.raises(NotCheckable) as caught:
        runnable_on_cpu(next(case.samples("tensorcore", target)).mod)
    assert caught.value.reason == "it uses tvm_fill_fragment, which a CPU does not have"


def test_kernels_that_call_or_launch_by_themselves_are_not_checkable() -> None:
    call = tvm.tirx.Evaluate(tvm.tirx.call_extern("int32", "__dp4a", 1))
    thread = tvm.tirx.IterVar((0, 4), tvm.tirx.Var("threadIdx.x", "int32"), tvm.tirx.IterVar.ThreadIndex, "threadIdx.x")
    launch = tvm.tirx.AttrStmt(thread, "thread_extent", 4, tvm.tirx.Evaluate(0))
    for body, reason in ((call, "call_extern"), (launch, "outside of loops")):
        with pytest.raises(NotCheckable, match=reason):
            runnable_on_cpu(tvm.IRModule({"main": tvm.tirx.PrimFunc([], body)}))
