"""The lowering computes what the model says, folds what is constant, links what it makes, and can be written and read back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tvm
from onnx import TensorProto
from tvm import relax

from tests.tvm.networks import chain, node, small_network
from workbench.engines.relax import rewriting
from workbench.engines.relax.build import build, unbound_kernels, with_default_schedules
from workbench.engines.relax.kernels import describe_kernels
from workbench.engines.relax.lowering import lower
from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.program import Program
from workbench.engines.relax.rewriting import check_straight_line
from workbench.errors import EnvironmentFault, ModelError

Array = np.ndarray[Any, Any]
CPU = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
CUDA = tvm.target.Target(
    {
        "kind": "cuda",
        "arch": "sm_90",
        "max_threads_per_block": 1024,
        "max_shared_memory_per_block": 49152,
        "thread_warp_size": 32,
        "host": {"kind": "llvm", "mcpu": "x86-64"},
    }
)


def test_a_module_that_branches_or_has_no_main_is_refused() -> None:
    builder = relax.BlockBuilder()
    condition, data = relax.Var("c", relax.TensorType([], "bool")), relax.Var("x", relax.TensorType([2], "float32"))
    with builder.function("main", [condition, data]):
        builder.emit_func_output(builder.emit(relax.If(condition, relax.SeqExpr([], data), relax.SeqExpr([], data))))
    with pytest.raises(ModelError, match="branches"):
        check_straight_line(builder.get())
    with pytest.raises(ModelError, match="no function main"):
        check_straight_line(tvm.IRModule({}))


def test_a_step_that_fails_is_named() -> None:
    program = Program(module=tvm.IRModule({}), origins=OriginTable())
    with pytest.raises(ModelError, match="no function main"):
        lower(program, CPU, fusion=True, on_step=lambda name: None)


def test_operators_without_a_kernel_are_all_named_with_their_origins(onnx_lab: Any) -> None:
    model = onnx_lab.model([node("NonZero", ["x"], ["i"]), node("Unique", ["x"], ["u"])], {"x": (4,)}, ["i", "u"])
    with pytest.raises(ModelError, match=r"no kernel for 2 operators: .*NonZero i_node.*Unique u_node"):
        onnx_lab.lower(model)


def test_a_shape_that_depends_on_values_is_refused_with_its_origin(onnx_lab: Any) -> None:
    nodes = [node("Range", ["start", "x", "step"], ["r"]), node("Mul", ["r", "r"], ["y"])]
    weights = {"start": np.array(0, np.float32), "step": np.array(1, np.float32)}
    with pytest.raises(ModelError, match="depends on the values of the inputs, first at Range r_node"):
        onnx_lab.lower(onnx_lab.model(nodes, {"x": ()}, ["y"], weights))


def test_the_steps_are_told_and_recorded_in_their_order(onnx_lab: Any) -> None:
    told: list[str] = []
    program = onnx_lab.program(onnx_lab.model([node("Relu", ["x"], ["y"])], {"x": (2,)}, ["y"]))
    lowered = lower(program, CPU, fusion=True, on_step=told.append)
    assert tuple(told) == lowered.steps
    assert told[0] == "straight_line"
    assert told[-1] == "lift_parameters"


def test_the_work_of_lowering_grows_with_the_length_of_the_model(onnx_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    visited = [0]
    substitute = rewriting.substitute

    def counted(value: Any, replaced: Any) -> Any:
        visited[0] += 1
        return substitute(value, replaced)

    monkeypatch.setattr(rewriting, "substitute", counted)
    counts = []
    for length in (10, 20, 40):
        visited[0] = 0
        lowered = onnx_lab.lower(chain(onnx_lab, length))
        counts.append(visited[0])
        assert len(lowered.calls) == length
        assert len({call.kernel for call in lowered.calls}) == 1
        assert len(lowered.parameters) == length
    assert counts[2] - counts[1] == 2 * (counts[1] - counts[0])


def test_every_kernel_gets_a_schedule_on_a_gpu_and_the_source_can_be_read_without_one(onnx_lab: Any) -> None:
    lowered = lower(onnx_lab.program(small_network(onnx_lab)), CUDA, fusion=True, on_step=lambda name: None)
    kernels = describe_kernels(lowered, CUDA, on_kernel=lambda done, total: None)
    assert {kernel.untunable for kernel in kernels} <= {"", "already scheduled", "dynamic shape"}
    assert all(kernel.space_size for kernel in kernels if not kernel.untunable)
    assert all(kernel.flop is None or kernel.flop >= 0 for kernel in kernels)
    assert unbound_kernels(lowered.module)
    assert not unbound_kernels(with_default_schedules(lowered.module, CUDA))
    built = build(lowered.module, CUDA)
    cuda = [item for host in built.executable.mod.imports for item in (host, *host.imports) if item.kind == "cuda"]
    source = cuda[0].inspect_source("cuda")
    assert all(f"{kernel.name}_kernel" in source for kernel in kernels)


def test_a_kernel_that_no_rule_can_bind_is_refused_on_a_gpu(onnx_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lowered = onnx_lab.lower(chain(onnx_lab, 1))
    monkeypatch.setattr("workbench.engines.relax.build.with_default_schedules", lambda module, target: module)
    with pytest.raises(EnvironmentFault, match="no GPU schedule for 1 kernels of the model: fused_matmul_relu"):
        build(lowered.module, CUDA)


def test_schedules_on_a_cpu_stay_what_they_are(onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(chain(onnx_lab, 1))
    assert with_default_schedules(lowered.module, CPU) is lowered.module


def test_an_integer_model_and_a_float_model_are_told_apart(onnx_lab: Any) -> None:
    floats = onnx_lab.lower(chain(onnx_lab, 1))
    cast = onnx_lab.lower(onnx_lab.model([node("Cast", ["x"], ["y"], to=TensorProto.INT64)], {"x": (2,)}, ["y"]))
    assert build(floats.module, CPU).floats_only
    assert not build(cast.module, CPU).floats_only
