"""Schedules of the original auto-scheduler on today's TVM: every kind of step, and whole records, give the right result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import te

from workbench.engines.relax import bundled_workloads
from workbench.engines.relax.ansor.stages import Untranslatable, stages_of
from workbench.engines.relax.ansor.translate import translate
from workbench.engines.relax.workload_module import as_main
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.auto_scheduler.steps import parse_step

LOG = Path(__file__).parents[1] / "samples" / "auto_scheduler" / "conv2d_relu.json"
SIZES = (1, 7, 7, 512, 512, 3, 3, 1, 1)
TARGET = {"kind": "llvm", "num-cores": 2}


def product(size: int = 8) -> list[te.Tensor]:
    """Stages: 0 a, 1 b, 2 product, 3 relu."""
    a, b = te.placeholder((size, size), name="a"), te.placeholder((size, size), name="b")
    k = te.reduce_axis((0, size), name="k")
    c = te.compute((size, size), lambda i, j: te.sum(a[i, k] * b[k, j], axis=k), name="product")
    return [a, b, te.compute((size, size), lambda i, j: te.max(c[i, j], tvm.tirx.const(0.0, "float32")), name="relu")]


def kernel(tensors: list[te.Tensor]) -> tvm.IRModule:
    return as_main(te.create_prim_func(tensors))


def translated(tensors: list[te.Tensor], steps: list[list[Any]]) -> tvm.s_tir.Schedule:
    return translate(kernel(tensors), [parse_step(step) for step in steps])


def difference(tensors: list[te.Tensor], module: tvm.IRModule) -> float:
    """Largest difference from the unscheduled workload's output on random inputs, as a share of its largest value."""
    generator = np.random.default_rng(0)
    inputs = [tvm.runtime.tensor(generator.standard_normal([int(size) for size in tensor.shape], dtype=np.float32)) for tensor in tensors[:-1]]
    outputs = []
    for candidate in (tvm.IRModule({"main": te.create_prim_func(tensors).with_attr("global_symbol", "main")}), module):
        output = tvm.runtime.tensor(np.full([int(size) for size in tensors[-1].shape], np.nan, np.float32))
        tvm.compile(candidate, target=TARGET).mod["main"](*inputs, output)
        outputs.append(output.numpy())
    return float(np.abs(outputs[0] - outputs[1]).max() / np.abs(outputs[0]).max())


def test_stages_stand_in_the_order_of_the_compute_dag() -> None:
    tensors = bundled_workloads.conv2d_relu(1, 7, 7, 8, 8, 3, 3, 1, 1)
    assert [stage.name for stage in stages_of(tvm.s_tir.Schedule(kernel(tensors)))] == [
        "data",
        "pad_temp",
        "weight",
        "conv2d_nchw",
        "bias",
        "bias_add",
        "relu",
    ]


@pytest.mark.parametrize(
    "steps",
    [
        pytest.param(
            [["SP", 2, 0, 8, [2], 1], ["SP", 2, 2, 8, [4, 1], 1], ["RE", 2, [0, 2, 5, 1, 3, 4]], ["AN", 2, 3, 1], ["CR", 3]], id="split and reorder"
        ),
        pytest.param([["SP", 3, 0, 8, [3], 0], ["FU", 3, [1, 2]], ["AN", 3, 0, 3]], id="split from outside and fuse"),
        pytest.param(
            [["SP", 2, 0, 8, [2, 2], 1], ["FSP", 3, 0, 0, 1], ["CA", 2, 3, 0], ["FU", 3, [0]], ["AN", 3, 2, 2]], id="compute at a followed split"
        ),
        pytest.param([["SP", 2, 0, 8, [2, 2], 1], ["SP", 2, 3, 8, [2, 2], 1], ["FFSP", 3, 0, [0, 1], 1, 1]], id="follow fused splits"),
        pytest.param([["CHW", 2, "local"], ["CA", 2, 4, 1], ["CI", 3]], id="cache write"),
        pytest.param([["CHR", 0, "shared", [2]], ["CA", 1, 3, 0], ["CR", 4]], id="cache read"),
        pytest.param([["SP", 2, 2, 8, [4], 1], ["RF", 2, 2, 2], ["AN", 2, 0, 3], ["CA", 3, 4, 1]], id="rfactor"),
        pytest.param([["PR", 2, 0, "auto_unroll_max_step$64"], ["AN", 3, 1, 2], ["CR", 2]], id="pragma"),
    ],
)
def test_every_kind_of_step_leaves_the_result_as_it_is(steps: list[list[Any]]) -> None:
    tensors = product()
    assert difference(tensors, translated(tensors, steps).mod) < 1e-4


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([["SA", 2, 0, 8, 4]], "step 0 (StorageAlign): the storage"),
        ([["AN", 3, 0, 11]], "iterators are marked 'tensorize'"),
        ([["CI", 9]], "step 0 (ComputeInline): there is no stage 9"),
        ([["CI", 0]], "step 0 (ComputeInline): a is an input, and the step is for what is computed: the workload is another one"),
        ([["CR", 2]], "no step schedules relu: the workload is another one"),
        ([["SP", 3, 0, 16, [2], 1]], "step 0 (Split): iterator 0 of stage relu has extent 8, not 16: the workload is another one"),
        ([["FU", 3, [0, 5]]], "step 0 (Fuse): stage relu has no iterator 5"),
        ([["RE", 3, [0, 0]]], "step 0 (Reorder): the order does not name every iterator once"),
        ([["SP", 3, 0, 8, [None], 1]], "step 0 (Split): a split has a length that was never filled in"),
        ([["FSP", 3, 0, 0, 1]], "step 0 (FollowSplit): a split follows step 0, which is no split"),
        ([["PR", 3, 0, "something$1"]], "there is no pragma 'something$1' here"),
        ([["CA", 3, 2, 0]], "stage relu cannot be computed at a loop of product"),
    ],
)
def test_what_cannot_be_translated_names_the_step_and_the_reason(steps: list[list[Any]], reason: str) -> None:
    with pytest.raises(Untranslatable) as caught:
        translated(product(), steps)
    assert reason in str(caught.value)


def test_blocks_and_threads_are_bound_for_a_gpu() -> None:
    steps = [["CA", 2, 3, 1], ["FU", 3, [0, 1]], ["SP", 3, 0, 64, [32], 1], ["AN", 3, 0, 5], ["AN", 3, 1, 6]]
    script = translated(product(), steps).mod.script()
    assert 'thread="blockIdx.x"' in script
    assert 'thread="threadIdx.x"' in script


def test_every_record_of_the_sample_translates() -> None:
    module = kernel(bundled_workloads.conv2d_relu(*SIZES))
    records = parse_auto_scheduler_log(LOG.read_text(encoding="utf-8")).entries
    assert len([translate(module, record.steps) for record in records]) == 64


@pytest.mark.slow
@pytest.mark.parametrize("place", range(3, 64, 8))
def test_a_translated_record_of_the_sample_compiles_and_is_right(place: int) -> None:
    tensors = bundled_workloads.conv2d_relu(*SIZES)
    record = parse_auto_scheduler_log(LOG.read_text(encoding="utf-8")).entries[place]
    assert difference(tensors, translate(kernel(tensors), record.steps).mod) < 1e-5
