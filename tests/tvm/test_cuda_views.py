"""conv2d_relu for CUDA without a GPU: schedule, TIR, CUDA source, PTX and resources of the baseline and eight candidates, each checked on the CPU."""

from __future__ import annotations

import re
import shutil
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi

import workbench
from workbench.analysis.occupancy import occupancy, sm_limits
from workbench.analysis.view_catalogue import why_not
from workbench.engines.relax.cpu_check import runnable_on_cpu
from workbench.engines.relax.cuda_code import sass_of
from workbench.machine import cuda_toolkit
from workbench.records.trial import UNMEASURED
from workbench.records.view import ASM, DECISIONS, LOWERED, PTX, RESOURCES, SASS, SCHEDULE, SOURCE, TIR, TIR_BEFORE

ARGS = (1, 8, 8, 16, 16, 3, 3, 1, 1)
CANDIDATES = 8
NUMBERS = range(CANDIDATES + 1)

needs_nvcc = pytest.mark.skipif(cuda_toolkit().nvcc_path is None, reason="no nvcc here: install the CUDA toolkit or set CUDA_HOME")


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[workbench.Session]:
    """A dry run for a GPU that is not here."""
    place = tmp_path_factory.mktemp("cuda") / "s"
    with workbench.SearchTask("conv2d_relu", ARGS, "nvidia/geforce-rtx-3090", session=place, threads=2) as task:
        task.tune(dry_run=CANDIDATES).wait()
        yield task.session


@pytest.fixture(scope="module")
def kernel(session: workbench.Session) -> str:
    return session.profile().tasks[0].name


def test_the_baseline_and_each_candidate_are_checked_on_the_cpu(session: workbench.Session) -> None:
    with session.directory.store() as store:
        trials = store.trials.of_task(session.profile().tasks[0].task)
    assert [(trial.number, trial.status) for trial in trials] == [(number, UNMEASURED) for number in NUMBERS]
    assert all(trial.check is not None and trial.check.passed for trial in trials[1:])


def test_the_baseline_that_candidates_are_compared_with_is_the_kernel_that_the_model_has(session: workbench.Session, kernel: str) -> None:
    """A baseline has no check of its own: dlight's schedule of it is run here beside the kernel without any."""
    found = session.inspection(kernel, TIR_BEFORE, TIR, trial=0)
    modules = [tvm.script.from_source(found.view(view).text) for view in (TIR_BEFORE, TIR)]
    assert "blockIdx.x" in found.view(TIR).text
    host = tvm.target.Target({"kind": "llvm"})
    random = np.random.default_rng(0)
    tensors = [tuple(int(size) for size in parameter.ty.shape) for parameter in modules[0]["main"].params]
    inputs = [random.standard_normal(shape, dtype=np.float32) for shape in tensors[:-1]]
    outputs = []
    for module in (modules[0], runnable_on_cpu(modules[1])):
        output = tvm.runtime.tensor(np.full(tensors[-1], np.nan, np.float32))
        tvm.compile(module, target=host)["main"](*map(tvm.runtime.tensor, inputs), output)
        outputs.append(output.numpy())
    np.testing.assert_allclose(outputs[1], outputs[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("number", NUMBERS)
def test_schedule_tir_and_source_are_shown_and_fit_each_other(number: int, session: workbench.Session, kernel: str) -> None:
    found = session.inspection(kernel, SCHEDULE, DECISIONS, TIR_BEFORE, TIR, LOWERED, SOURCE, trial=number)
    assert [view.unavailable for view in found.views] == [""] * 6
    if number:
        names: dict[str, Any] = {}
        exec(found.view(SCHEDULE).text, names)  # noqa: S102 - the text is meant to be run
        schedule = tvm.s_tir.Schedule(tvm.script.from_source(found.view(TIR_BEFORE).text))
        names["apply_trace"](schedule)
        assert tvm_ffi.structural_hash(schedule.mod) == tvm_ffi.structural_hash(tvm.script.from_source(found.view(TIR).text))
        bound = {knob["value"].partition(" ")[0] for knob in found.view(DECISIONS).data["knobs"] if knob["kind"] == "bind"}
        assert {"blockIdx.x", "threadIdx.x"} <= bound
    else:
        assert "dlight" in found.view(SCHEDULE).text
        assert "dlight" in found.view(DECISIONS).text
    assert "blockIdx.x" in found.view(TIR).text
    assert "__global__" in found.view(SOURCE).text


@pytest.mark.parametrize("number", NUMBERS)
def test_the_source_says_how_to_launch_it(number: int, session: workbench.Session, kernel: str) -> None:
    view = session.inspection(kernel, SOURCE, trial=number).view(SOURCE)
    for launch in view.data["launches"]:
        found = re.findall(rf"__global__ void __launch_bounds__\((\d+)\) {launch['kernel']}\((.*?)\)", view.text)
        ((threads, parameters),) = set(found)  # declared and defined
        assert launch["block"][0] * launch["block"][1] * launch["block"][2] == int(threads)
        names = [parameter.split()[-1].lstrip("*") for parameter in parameters.split(",")]
        assert [argument["name"] for argument in launch["arguments"]] == names
        assert f"// {launch['kernel']}<<<dim3(" in view.text
        assert launch["grid"][0] > 0
    written = [argument["name"] for launch in view.data["launches"] for argument in launch["arguments"] if argument["writes"]]
    assert written
    tensors = [argument["tensor"] for launch in view.data["launches"] for argument in launch["arguments"]]
    assert "(16, 16, 3, 3) float32" in tensors


@needs_nvcc
@pytest.mark.parametrize("number", NUMBERS)
def test_ptx_and_resources_come_from_the_toolkit(number: int, session: workbench.Session, kernel: str) -> None:
    found = session.inspection(kernel, PTX, RESOURCES, SOURCE, trial=number)
    assert ".target sm_86" in found.view(PTX).text
    data = found.view(RESOURCES).data
    limits = sm_limits("sm_86")
    assert limits is not None
    assert len(data["kernels"]) == len(found.view(SOURCE).data["launches"])
    for item in data["kernels"]:
        taken = item["ptxas"]
        assert 0 < taken["registers"] <= 255
        expected = occupancy(
            limits,
            threads_per_block=item["threads_per_block"],
            registers=taken["registers"],
            shared_bytes=taken["shared_bytes"] + item["dynamic_shared_bytes"],
        )
        assert item["occupancy"]["blocks_per_sm"] == expected.blocks_per_sm >= 1
        assert f".visible .entry {item['kernel']}(" in found.view(PTX).text
    assert "cuda_occupancy.h" in found.view(RESOURCES).text
    assert "no CUDA device here" in found.view(RESOURCES).text


def test_loops_of_the_source_are_linked_to_those_of_the_tir(session: workbench.Session, kernel: str) -> None:
    linked = 0
    for number in NUMBERS:
        found = session.inspection(kernel, TIR, SOURCE, trial=number)
        known = {link.name for link in found.view(TIR).links}
        source = found.view(SOURCE)
        for link in source.links:
            head = source.text.split("\n")[link.first_line - 1]
            assert head.strip().startswith(f"for (int {link.name.removeprefix('loop ')} = ")
            linked += link.name in known
    assert linked > 0


def test_what_a_gpu_kernel_has_not_or_this_machine_lacks_is_said(session: workbench.Session, kernel: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = session.inspection(kernel, ASM, SASS, trial=1)
    assert "has no assembly of a CPU" in found.view(ASM).unavailable
    missing = why_not(SASS, "cuda", cuda_toolkit())
    if missing[0]:
        assert (found.view(SASS).unavailable, found.view(SASS).remedy) == missing
    else:
        assert "EXIT" in found.view(SASS).text


@needs_nvcc
def test_sass_is_what_cuobjdump_prints_of_the_compiled_kernel(tmp_path: Path) -> None:
    """With a stand-in where there is no cuobjdump: it gets the name of a file that nvcc wrote."""
    program = tmp_path / "cuobjdump"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint(sys.argv[1], open(sys.argv[2], 'rb').read(4))\n", encoding="utf-8")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    nvcc = shutil.which("nvcc") or cuda_toolkit().nvcc_path
    assert nvcc is not None
    text = sass_of('extern "C" __global__ void k(float* a) { a[threadIdx.x] = 1; }', "sm_86", nvcc=nvcc, cuobjdump=str(program), timeout_s=60)
    assert text == "-sass b'\\x7fELF'\n"
