"""Applying for a GPU without one: recorded kernels keep their schedules, the others get dlight's, and what is counted is what was compiled."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

from tests.tvm.conftest import OnnxLab
from tests.tvm.networks import node
from workbench.engines.apply_protocol import RecordedSchedule
from workbench.engines.relax.applying.scheduling import built_with
from workbench.engines.relax.build import with_default_schedules
from workbench.engines.relax.lowering import Lowered
from workbench.engines.relax.search.sketches import trace_json
from workbench.engines.relax.workload_module import as_main, fingerprint
from workbench.engines.targets import resolve_target, to_tvm

ROWS, INNER, COLUMNS = 16, 24, 40
CUDA = to_tvm(resolve_target("cuda:sm_90", threads=2))
PRODUCT = "matmul"


@pytest.fixture(scope="module")
def lowered(tmp_path_factory: pytest.TempPathFactory) -> Lowered:
    """A matrix product and a softmax."""
    lab = OnnxLab(tmp_path_factory.mktemp("net"), CUDA)
    weights = {"w": np.ones((INNER, COLUMNS), np.float32)}
    return lab.lower(lab.model([node("MatMul", ["x", "w"], ["a"]), node("Softmax", ["a"], ["y"])], {"x": (ROWS, INNER)}, ["y"], weights))


@pytest.fixture(scope="module")
def record(lowered: Lowered) -> RecordedSchedule:
    """The product with a block of threads for each row, and a thread for each of its elements, as dlight does not make it."""
    schedule = tvm.s_tir.Schedule(as_main(lowered.module[PRODUCT]), seed=1, debug_mask=0, enable_check=False)
    (block,) = schedule.get_child_blocks(schedule.get_sblock("root"))
    row, column, _ = schedule.get_loops(block)
    schedule.bind(row, "blockIdx.x")
    schedule.bind(column, "threadIdx.x")
    return RecordedSchedule(json.dumps(trace_json(schedule.trace)), fingerprint(schedule.mod))


def cuda_text(executable: Any) -> str:
    def found(module: Any) -> list[str]:
        own = [str(module.inspect_source("cuda"))] if module.kind == "cuda" else []
        return own + [text for item in module.imports for text in found(item)]

    return "\n".join(found(executable.mod))


def launch_bounds(text: str) -> dict[str, int]:
    """Threads that each kernel is compiled for."""
    return {name: int(threads) for threads, name in re.findall(r"__launch_bounds__\((\d+)\) (\w+)\(", text)}


def test_a_recorded_kernel_keeps_its_launch_bounds_and_the_others_get_dlights(lowered: Lowered, record: RecordedSchedule) -> None:
    built, applied = built_with(lowered.module, CUDA, {PRODUCT: record}, trust=False)
    assert {name: item.fingerprint for name, item in applied.items()} == {PRODUCT: record.fingerprint}
    bounds = launch_bounds(cuda_text(built.executable))
    assert bounds[f"{PRODUCT}_kernel"] == COLUMNS
    untuned, none = built_with(lowered.module, CUDA, {}, trust=False)
    assert none == {}
    default_bounds = launch_bounds(cuda_text(untuned.executable))
    assert default_bounds[f"{PRODUCT}_kernel"] != COLUMNS
    by_default = with_default_schedules(lowered.module, CUDA)
    (other,) = {call.kernel for call in lowered.calls} - {PRODUCT}
    assert tvm_ffi.structural_equal(built.module[other], by_default[other])
    of_other = {kernel: threads for kernel, threads in bounds.items() if kernel.startswith(other)}
    assert of_other
    assert of_other.items() <= default_bounds.items()


def test_a_schedule_that_did_not_survive_to_the_compiler_is_not_counted(
    lowered: Lowered, record: RecordedSchedule, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As if default schedules were put onto all kernels, after the recorded ones."""
    by_default = with_default_schedules(lowered.module, CUDA)
    monkeypatch.setattr("workbench.engines.relax.build.with_default_schedules", lambda module, target: by_default)
    _, applied = built_with(lowered.module, CUDA, {PRODUCT: record}, trust=False)
    assert applied == {}
