"""The profiler runs every call once a run, in order, gives each its own outputs and flags, and survives being interrupted."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper

from tests.tvm.networks import node
from workbench.engines.relax import hook_cost
from workbench.engines.relax.build import build
from workbench.engines.relax.engine import RelaxEngine
from workbench.engines.relax.hollow import hollow, hollow_machine
from workbench.engines.relax.hook_cost import HookCost, measure_hook_cost
from workbench.engines.relax.inputs import on_device, random_inputs
from workbench.engines.relax.instrument import Trace, skip_repeated
from workbench.engines.relax.rewriting import bindings_of, operator_name
from workbench.errors import Interrupted
from workbench.models import resolve_model
from workbench.records.profile import Measurement

Array = np.ndarray[Any, Any]


def chain(lab: Any, length: int = 4) -> onnx.ModelProto:
    """Softmaxes, each a call of one kernel, of logits that a different weight makes each time."""
    nodes, weights, value = [], {}, "x"
    for index in range(length):
        weights[f"w{index}"] = np.full((3, 3), index + 1, np.float32)
        nodes += [node("MatMul", [value, f"w{index}"], [f"m{index}"]), node("Softmax", [f"m{index}"], [f"s{index}"], axis=-1)]
        value = f"s{index}"
    return lab.model(nodes, {"x": (2, 3)}, [value], weights)


def test_every_call_is_measured_in_order(onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(chain(onnx_lab))
    measurement = onnx_lab.profiler(lowered).measure(repeat=3)
    assert len(measurement.calls) == len(lowered.calls) == 8
    assert [call.kernel for call in lowered.calls] == ["matmul", "softmax"] * 4
    assert all(call.repeats == 3 and call.median_us >= 0 and call.iqr_us >= 0 for call in measurement.calls)
    assert measurement.total is not None
    assert measurement.total.median_us > 0
    assert measurement.threads == tvm.get_global_func("runtime.NumThreads")()
    assert not measurement.unmeasured
    assert measurement.resolution_us > 0


def test_one_round_is_enough_if_one_is_asked_for(onnx_lab: Any) -> None:
    measurement = onnx_lab.profiler(onnx_lab.lower(chain(onnx_lab, 1))).measure(repeat=1)
    assert [call.repeats for call in measurement.calls] == [1, 1]
    assert [call.iqr_us for call in measurement.calls] == [0, 0]
    assert measurement.total is not None
    assert measurement.total.repeats == 1


def test_a_model_without_kernels_has_a_total_and_no_calls(onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(onnx_lab.model([node("Identity", ["x"], ["y"])], {"x": (2, 3)}, ["y"]))
    profiler = onnx_lab.profiler(lowered)
    measurement = profiler.measure(repeat=2)
    assert measurement.calls == ()
    assert measurement.runtime is not None
    assert measurement.total is not None
    assert profiler.outputs([]) == {}


def test_outputs_are_those_of_the_rows_that_were_asked_for(onnx_lab: Any) -> None:
    model = chain(onnx_lab)
    lowered = onnx_lab.lower(model)
    expected = onnx_lab.reference(model, lowered)
    outputs = onnx_lab.profiler(lowered).outputs([5, 0, 7])
    assert sorted(outputs) == [0, 5, 7]
    for row, name in [(0, "m0"), (5, "s2"), (7, "s3")]:
        np.testing.assert_allclose(outputs[row][0], expected[name], rtol=1e-5)


def test_all_outputs_of_a_call_are_given(onnx_lab: Any) -> None:
    model = onnx_lab.model([node("Split", ["x"], ["a", "b"], axis=1)], {"x": (2, 6)}, ["a", "b"])
    lowered = onnx_lab.lower(model)
    expected = onnx_lab.reference(model, lowered)
    first, second = onnx_lab.profiler(lowered).outputs([0])[0]
    np.testing.assert_array_equal(first, expected["a"])
    np.testing.assert_array_equal(second, expected["b"])


def test_kept_outputs_are_not_overwritten_by_later_calls_or_runs(onnx_lab: Any) -> None:
    profiler = onnx_lab.profiler(onnx_lab.lower(chain(onnx_lab)))
    first = profiler.outputs(range(8))
    copies = {row: [tensor.copy() for tensor in tensors] for row, tensors in first.items()}
    profiler.measure(repeat=1)
    for row, tensors in copies.items():
        np.testing.assert_array_equal(first[row][0], tensors[0])


def flagged(measurement: Measurement) -> dict[int, tuple[int, int]]:
    return {row: (call.nan_count or 0, call.inf_count or 0) for row, call in enumerate(measurement.calls) if call.nan_count or call.inf_count}


@pytest.mark.parametrize("code", [TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.DOUBLE])
def test_not_a_number_is_flagged_where_it_appears_and_with_its_count(code: int, onnx_lab: Any) -> None:
    nodes = [node("Relu", ["x"], ["a"]), node("Log", ["x"], ["b"]), node("Neg", ["a"], ["y"])]
    model = onnx_lab.model(nodes, {"x": (5, 7)}, ["y", "b"], types={"x": code})
    lowered = onnx_lab.lower(model, fusion=False)
    negative = int((random_inputs(lowered, seed=0)[0] < 0).sum())
    row = [call.origins[0].name for call in lowered.calls].index("b_node")
    assert negative
    assert flagged(onnx_lab.profiler(lowered).measure(repeat=1)) == {row: (negative, 0)}


@pytest.mark.parametrize("zero", [np.zeros((), np.float32), np.zeros(1, np.float32), np.zeros((2, 3), np.float32)], ids=["scalar", "one", "all"])
def test_infinity_is_flagged_with_both_signs_counted(zero: Array, onnx_lab: Any) -> None:
    nodes = [node("Div", ["x", "zero"], ["a"]), node("Softmax", ["x"], ["b"], axis=-1)]
    lowered = onnx_lab.lower(onnx_lab.model(nodes, {"x": (2, 3)}, ["a", "b"], {"zero": zero}))
    row = [call.origins[0].name for call in lowered.calls].index("a_node")
    assert flagged(onnx_lab.profiler(lowered).measure(repeat=1)) == {row: (0, 6)}


def test_integers_have_no_flags(onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(onnx_lab.model([node("Cast", ["x"], ["y"], to=TensorProto.INT32)], {"x": (2, 3)}, ["y"]))
    call = onnx_lab.profiler(lowered).measure(repeat=1).calls[0]
    assert (call.nan_count, call.inf_count) == (0, 0)


def test_progress_may_end_the_run_and_the_next_run_works(onnx_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workbench.engines.relax.profiler._PROGRESS_S", -1.0)
    profiler = onnx_lab.profiler(onnx_lab.lower(chain(onnx_lab)))
    told: list[tuple[str, float]] = []

    def stop(phase: str, share: float) -> None:
        told.append((phase, share))
        if share >= 0.5:
            raise Interrupted("stopped")

    profiler.on_progress = stop
    for _ in range(3):
        with pytest.raises(Interrupted, match="stopped"):
            profiler.measure(repeat=1)
    assert told[-1] == ("measure (round 1)", 0.5)  # warming up skips repeated kernels
    profiler.on_progress = lambda phase, share: told.append((phase, share))
    assert len(profiler.measure(repeat=1).calls) == 8
    assert all(0 <= share <= 1 for _, share in told)


def test_a_model_that_indexes_with_what_it_computes_runs_whole_even_to_warm_up(onnx_lab: Any) -> None:
    """Were a repeated kernel skipped, its output would be whatever was in the memory, and the next one would read far outside of a table."""
    nodes, value = [], "ids"
    for index in range(6):
        nodes.append(node("Gather", ["table", value], [f"g{index}"]))
        value = f"g{index}"
    table = np.array([3, 0, 1, 2], np.int64)
    model = onnx_lab.model(nodes, {"ids": (5,)}, [value], {"table": table}, types={"ids": TensorProto.INT64})
    lowered = onnx_lab.lower(model, fusion=False)
    profiler = onnx_lab.profiler(lowered)
    skipped: list[Any] = []
    run = profiler._run  # noqa: SLF001 - whether it skips cannot be seen from outside, unless it crashes
    profiler._run = lambda phase, **options: (skipped.append(options.get("skip")), run(phase, **options))[1]  # noqa: SLF001
    assert len(profiler.measure(repeat=1).calls) == len(lowered.calls)
    assert not any(skip("gather") for skip in skipped if skip is not None)
    assert profiler.outputs([len(lowered.calls) - 1])[len(lowered.calls) - 1][0].max() <= 3


def test_a_repeated_kernel_is_skipped_from_its_second_call_on() -> None:
    skip = skip_repeated()
    assert [skip(symbol) for symbol in ("a", "b", "a", "a", "c")] == [False, False, True, True, False]


def test_the_instrument_costs_something_and_more_with_more_arguments() -> None:
    cost = measure_hook_cost(lambda: None)
    assert cost.base_us + cost.per_argument_us > 0
    assert cost.at(10) >= cost.at(2) > 0
    assert cost.spread_us > 0


def test_the_cost_of_the_instrument_is_taken_off_but_never_more_than_was_measured() -> None:
    trace = Trace(symbols=["a", "b"], calls_ns=[10_000, 1_000], arguments=[2, 4])
    cost = HookCost(base_us=1.0, per_argument_us=0.5)
    np.testing.assert_allclose(cost.calls_us(trace), [8.0, 0.0])


def test_waiting_for_the_device_is_part_of_the_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_cost, "_RUNS", 1)
    assert measure_hook_cost(lambda: time.sleep(0.001)).at(2) >= 1000


def test_a_run_with_other_calls_than_the_lowered_module_is_no_measurement(onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(chain(onnx_lab))
    profiler = onnx_lab.profiler(lowered)
    profiler._calls = lowered.calls[1:]  # noqa: SLF001 - a module and calls that belong together always agree
    with pytest.raises(RuntimeError, match="called 8 kernels, the lowered module 7"):
        profiler.measure(repeat=1)


@pytest.mark.parametrize(
    ("code", "check"),
    [
        (TensorProto.FLOAT, lambda values: values.dtype == np.float32 and values.std() > 0.5),
        (TensorProto.INT64, lambda values: values.dtype == np.int64 and set(values.ravel()) == {1}),
        (TensorProto.UINT8, lambda values: values.dtype == np.uint8 and set(values.ravel()) == {1}),
        (TensorProto.BOOL, lambda values: values.dtype == np.bool_ and set(values.ravel()) == {False, True}),
    ],
)
def test_random_inputs_suit_their_type_and_are_the_same_for_the_same_seed(code: int, check: Callable[[Array], bool], onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(onnx_lab.model([node("Identity", ["x"], ["y"])], {"x": (8, 9)}, ["y"], types={"x": code}))
    first, again, other = (random_inputs(lowered, seed=seed)[0] for seed in (1, 1, 2))
    assert check(first)
    np.testing.assert_array_equal(first, again)
    assert (first != other).any() == (code in (TensorProto.FLOAT, TensorProto.BOOL))


def test_the_arguments_are_inputs_then_parameters(onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(chain(onnx_lab, 2))
    arguments = on_device(lowered, build(lowered.module, onnx_lab.target).device, seed=0)
    assert [tuple(argument.shape) for argument in arguments] == [(2, 3), (3, 3), (3, 3)]


def test_without_a_gpu_a_cuda_model_is_described_but_not_measured(onnx_lab: Any) -> None:
    if tvm.cuda().exist:
        pytest.skip("there is a CUDA device here")
    engine = RelaxEngine()
    target = engine.resolve_target("cuda:sm_90", threads=2)
    engine.import_model(resolve_model(str(onnx_lab.save(chain(onnx_lab)))), seed=0, function=None)
    engine.lower(target, layout="keep", fusion=True, on_progress=lambda phase, share: None)
    kernels = engine.extract_tasks(on_progress=lambda phase, share: None)
    assert [kernel.name for kernel in kernels] == ["matmul", "softmax"]
    assert all(kernel.space_size for kernel in kernels)
    measurement = engine.profile(repeat=1, seed=0, on_progress=lambda phase, share: None)
    assert measurement.unmeasured == "no CUDA device here"
    assert measurement.calls == ()


def test_the_hollow_program_makes_the_same_calls_and_does_no_work(onnx_lab: Any) -> None:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"], name="product"),
        helper.make_node("Split", ["a"], ["b", "c"], name="halves", axis=1),
        helper.make_node("Add", ["b", "c"], ["d"], name="sum"),
        helper.make_node("Reshape", ["d", "flat"], ["y"], name="flatten"),
    ]
    weights = {"w": np.ones((256, 256), np.float32), "flat": np.array([-1], np.int64)}
    lowered = onnx_lab.lower(onnx_lab.model(nodes, {"x": (64, 256)}, weights=weights, outputs=["y"]))
    machine = hollow_machine(lowered.module, on_device(lowered, tvm.cpu(), seed=0))
    machine.invoke_stateful("main")
    calls = [binding.value for binding in bindings_of(hollow(lowered.module)["main"]) if operator_name(binding.value) == "relax.call_tir"]
    assert len(calls) == len(lowered.calls) > 0
    assert {str(call.args[0].name_hint).partition("_")[0] for call in calls} == {"nothing"}


def test_the_rows_of_a_model_of_microseconds_sum_to_its_end_to_end_time(onnx_lab: Any) -> None:
    nodes = [helper.make_node("MatMul", [f"x{index}", "w"], [f"x{index + 1}"], name=f"product{index}") for index in range(5)]
    lowered = onnx_lab.lower(onnx_lab.model(nodes, {"x0": (8, 64)}, weights={"w": np.eye(64, dtype=np.float32)}, outputs=["x5"]))
    measurement = onnx_lab.profiler(lowered).measure(repeat=5)
    rows_us = sum(call.median_us for call in measurement.calls) + measurement.runtime.median_us
    assert measurement.runtime.median_us < rows_us / 2
    assert rows_us == pytest.approx(measurement.total.median_us, rel=0.5)  # a guard against counting the instrument, not a benchmark
