"""The size of a search space is the number of schedules that MetaSchedule could draw from it."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import tvm

from tests.tvm.networks import node
from workbench.engines.relax import space
from workbench.engines.relax.kernels import describe_kernels, kernel_names, untunable_reason
from workbench.engines.relax.lowering import Lowered
from workbench.engines.relax.space import prepare_intrinsics, space_size, tilings
from workbench.records.profile import Kernel, TensorShape


def brute_force(extent: int, parts: int, largest_innermost: int) -> int:
    divisors = [divisor for divisor in range(1, extent + 1) if extent % divisor == 0]
    return sum(math.prod(factors) == extent and factors[-1] <= largest_innermost for factors in itertools.product(divisors, repeat=parts))


@pytest.mark.parametrize("extent", [1, 2, 7, 12, 16, 49, 60])
@pytest.mark.parametrize("parts", [1, 2, 3, 4])
@pytest.mark.parametrize("largest_innermost", [1, 4, 64])
def test_tilings_are_counted_as_by_trying_all(extent: int, parts: int, largest_innermost: int) -> None:
    assert tilings(extent, parts, largest_innermost) == brute_force(extent, parts, largest_innermost)


def test_tilings_of_large_and_prime_extents_are_counted_at_once() -> None:
    assert tilings(2**40, 4, 64) == sum(math.comb(40 - power + 2, 2) for power in range(7))
    assert tilings(1_000_003, 2, 64) == 1
    assert tilings(1_000_003, 2, 2_000_000) == 2


def matmul(lab: Any, size: int = 16) -> Lowered:
    model = lab.model([node("MatMul", ["x", "w"], ["y"])], {"x": (size, size)}, ["y"], {"w": np.ones((size, size), np.float32)})
    lowered: Lowered = lab.lower(model)
    return lowered


def test_a_space_holds_every_schedule_that_is_drawn_from_it(onnx_lab: Any) -> None:
    function = matmul(onnx_lab, 4).module["matmul"]
    prepare_intrinsics(onnx_lab.target)
    size = space_size(function, onnx_lab.target)
    rules = "from-target"
    generator = tvm.s_tir.meta_schedule.space_generator.PostOrderApply(sch_rules=rules, postprocs=rules, mutator_probs=rules)
    drawn = set()
    for seed in range(1, 20):
        module = tvm.IRModule({"main": function.with_attr("global_symbol", "main")})
        context = tvm.s_tir.meta_schedule.TuneContext(
            module, target=onnx_lab.target, space_generator=generator, task_name="main", num_threads=1, rand_state=seed
        )
        drawn.update(str(schedule.trace) for schedule in context.generate_design_space())
    assert 3 < len(drawn) <= size


def test_a_larger_kernel_has_a_larger_space_and_the_same_one_each_time(onnx_lab: Any) -> None:
    prepare_intrinsics(onnx_lab.target)
    sizes = [space_size(matmul(onnx_lab, size).module["matmul"], onnx_lab.target) for size in (4, 16, 16, 64)]
    assert sizes[0] < sizes[1] == sizes[2] < sizes[3]


def described(lab: Any, lowered: Lowered) -> list[Kernel]:
    return describe_kernels(lowered, lab.target, on_kernel=lambda done, total: None)


def test_a_kernel_is_described_by_its_shapes_operators_and_arithmetic(onnx_lab: Any) -> None:
    nodes = [node("MatMul", ["x", "w"], ["m"]), node("Relu", ["m"], ["y"])]
    lowered = onnx_lab.lower(onnx_lab.model(nodes, {"x": (2, 3)}, ["y"], {"w": np.ones((3, 5), np.float32)}))
    (kernel,) = described(onnx_lab, lowered)
    assert kernel.name == "fused_matmul_relu"
    assert kernel.ops == ("matmul", "relu")
    assert kernel.parameters == (TensorShape((2, 3), "float32"), TensorShape((3, 5), "float32"))
    assert kernel.results == (TensorShape((2, 5), "float32"),)
    assert kernel.flop == 2 * 2 * 3 * 5 + 2 * 5
    assert kernel.space_size
    assert not kernel.untunable


def test_results_are_told_from_parameters_where_a_kernel_has_several(onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(onnx_lab.model([node("TopK", ["x", "k"], ["v", "i"])], {"x": (4, 9)}, ["v", "i"], {"k": np.array([3])}))
    (kernel,) = described(onnx_lab, lowered)
    assert kernel.parameters == (TensorShape((4, 9), "float32"),)
    assert kernel.results == (TensorShape((4, 3), "float32"), TensorShape((4, 3), "int64"))
    assert kernel.flop is None or kernel.flop >= 0


def test_kernels_of_one_structure_are_searched_for_once(onnx_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    counted = []
    monkeypatch.setattr("workbench.engines.relax.kernels.space_size", lambda function, target: counted.append(1) or 1)
    random = np.random.default_rng(0)
    weights = {name: random.random((4, 4), np.float32) for name in ("v", "w")}
    nodes = [node("MatMul", ["x", "v"], ["a"]), node("Softmax", ["a"], ["b"]), node("MatMul", ["b", "w"], ["y"])]
    lowered = onnx_lab.lower(onnx_lab.model(nodes, {"x": (4, 4)}, ["y"], weights))
    kernels = described(onnx_lab, lowered)
    assert [call.kernel for call in lowered.calls] == ["matmul", "softmax", "matmul"]
    assert kernel_names(lowered) == [kernel.name for kernel in kernels] == ["matmul", "softmax"]
    assert len(counted) == 2


def test_a_kernel_that_the_search_cannot_schedule_says_why(onnx_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(function: Any, target: Any) -> int:
        raise ValueError("first line\n\nScheduleError: no such block  \n")

    monkeypatch.setattr("workbench.engines.relax.kernels.space_size", refuse)
    (kernel,) = described(onnx_lab, matmul(onnx_lab))
    assert kernel.space_size is None
    assert kernel.untunable == "MetaSchedule cannot schedule it: ScheduleError: no such block"


def test_scheduled_kernels_and_those_of_dynamic_shape_are_untunable(onnx_lab: Any) -> None:
    function = matmul(onnx_lab).module["matmul"]
    assert untunable_reason(function) == ""
    scheduled, unscheduled = (function.with_attr("tirx.is_scheduled", value) for value in (True, False))
    assert (untunable_reason(scheduled), untunable_reason(unscheduled)) == ("already scheduled", "")
    size = tvm.tirx.Var("n", "int64")
    buffers = [tvm.tirx.decl_buffer((size,), "float32", name=name) for name in ("a", "b")]
    assert untunable_reason(tvm.tirx.PrimFunc(buffers, tvm.tirx.Evaluate(0))) == "dynamic shape"


def test_only_the_intrinsics_of_the_target_are_loaded(onnx_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    monkeypatch.setattr(space.importlib, "import_module", loaded.append)
    prepare_intrinsics(onnx_lab.target)
    prepare_intrinsics(tvm.target.Target({"kind": "llvm", "mtriple": "aarch64-linux-gnu"}))
    prepare_intrinsics(tvm.target.Target({"kind": "cuda", "arch": "sm_90"}))
    assert [name.rpartition(".")[2] for name in loaded] == ["x86", "arm_cpu"]
