"""`workbench.SearchTask`: from a TE function to a schedule that is faster, right, and can be read, built and gone on with."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
import tvm_ffi
from tvm import te

import workbench
from workbench.engines.relax.views import scheduled, write_library
from workbench.engines.relax.workload_module import as_main
from workbench.engines.targets import resolve_target, to_tvm
from workbench.errors import EnvironmentFault, InputError, ModelError, SelectionError
from workbench.records.trial import OK, UNMEASURED
from workbench.records.tuning import FASTER, NOT_FASTER

ARGS = (64, 64, 64)
TRIALS = 16


def scaled_product(factor: float) -> Callable[..., Any]:
    """A function that only this process knows."""

    def scaled(rows: int, columns: int) -> list[Any]:
        a = te.placeholder((rows, columns), name="A")
        b = te.placeholder((columns,), name="B")
        k = te.reduce_axis((0, columns), name="k")
        c = te.compute((rows,), lambda i: te.sum(a[i, k] * b[k], axis=k), name="C")
        return [a, b, te.compute((rows,), lambda i: c[i] * factor, name="D")]

    return scaled


@pytest.fixture(scope="module")
def task(tmp_path_factory: pytest.TempPathFactory) -> Iterator[workbench.SearchTask]:
    """A matrix product that was tuned."""
    with workbench.SearchTask("matmul", ARGS, "cpu", session=tmp_path_factory.mktemp("task") / "session", threads=2) as tuned:
        tuned.tune(TRIALS)
        yield tuned.wait()


def test_the_compute_dag_lists_inputs_computed_tensors_and_flop(task: workbench.SearchTask) -> None:
    assert task.compute_dag.splitlines() == [
        "A = PLACEHOLDER [64, 64] float32",
        "B = PLACEHOLDER [64, 64] float32",
        "matmul[i, j] += A[i, k] * B[k, j]  # i < 64, j < 64 over k < 64",
        "FLOP = 524,288",
    ]
    assert task.kernels == ("matmul",)


def test_the_best_is_faster_or_else_the_untuned_kernel_is_kept(task: workbench.SearchTask) -> None:
    best = task.apply_best()
    assert len(task.trials()) == TRIALS
    assert best.baseline_us is not None
    if best.is_baseline:
        assert (best.verdict, best.time_us, best.trace) == (NOT_FASTER, best.baseline_us, "")
    else:
        assert best.verdict == FASTER
        assert best.time_us < best.baseline_us
        assert best.decisions
        assert task.trials()[best.trial].status == OK
    assert best.why in str(best)


def test_the_library_of_the_best_computes_the_product(task: workbench.SearchTask) -> None:
    best = task.apply_best()
    assert best.library.parent == task.session.directory.artifacts
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((64, 64), dtype=np.float32) for _ in range(2))
    result = tvm.runtime.tensor(np.zeros((64, 64), np.float32))
    tvm.runtime.load_module(str(best.library))[best.kernel](tvm.runtime.tensor(a), tvm.runtime.tensor(b), result)
    np.testing.assert_allclose(result.numpy(), a @ b, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("number", [0, 1, 5, None])
def test_the_printed_schedule_makes_the_printed_tir_of_the_untuned_kernel(number: int | None, task: workbench.SearchTask) -> None:
    untuned = tvm.script.from_source(task.print_best("tir", trial=0))
    names: dict[str, Any] = {}
    exec(task.print_best("schedule", trial=number), names)  # noqa: S102 - the text is meant to be run
    schedule = tvm.s_tir.Schedule(untuned)
    names["apply_trace"](schedule)
    printed = tvm.script.from_source(task.print_best("tir", trial=number))
    assert tvm_ffi.structural_hash(schedule.mod) == tvm_ffi.structural_hash(printed)


def test_the_source_on_a_cpu_is_llvm_ir(task: workbench.SearchTask) -> None:
    assert "define" in task.print_best("source")
    assert task.print_best("source") != task.print_best("source", trial=0) or task.apply_best().is_baseline


def test_what_there_is_not_is_said_by_name(task: workbench.SearchTask) -> None:
    for arguments, named in [
        ({"view": "cuda"}, "CUDA"),
        ({"view": "asm"}, "asm"),
        ({"view": None}, "None"),
        ({"kernel": "conv2d"}, "conv2d"),
        ({"trial": 999}, "999"),
        ({"trial": -1}, "-1"),
        ({"trial": True}, "True"),
    ]:
        with pytest.raises(InputError, match=named) as refused:
            task.print_best(**arguments)  # type: ignore[arg-type]
        assert refused.value.remedy
    with pytest.raises(SelectionError, match="no_task"):
        task.session.inspect("no_task", "tir", trial=0)
    with pytest.raises(InputError, match="a kernel for llvm has no PTX"):
        task.session.inspect("matmul", "ptx", trial=0)


def test_a_second_search_goes_on_and_keeps_every_trial(task: workbench.SearchTask, tmp_path: Path) -> None:
    before = task.trials()
    with pytest.raises(InputError, match="resume"):
        task.tune(TRIALS + 4).wait()
    task.resume(len(before) + 4).wait()
    assert task.trials()[: len(before)] == before
    assert len(task.trials()) == len(before) + 4
    frame = task.frame()
    assert frame.number.tolist() == list(range(len(before) + 4))
    assert frame.time_us.notna().sum() == sum(trial.status == OK for trial in task.trials())


@contextlib.contextmanager
def another_trace(task: workbench.SearchTask, number: int, change: Callable[[str], str]) -> Iterator[None]:
    """The session with a changed trace of one trial."""
    with contextlib.closing(sqlite3.connect(task.session.directory.database, isolation_level=None)) as sql:
        (trace,) = sql.execute("SELECT trace FROM trials WHERE number = ?", (number,)).fetchone()
        sql.execute("UPDATE trials SET trace = ? WHERE number = ?", (change(trace), number))
        try:
            yield
        finally:
            sql.execute("UPDATE trials SET trace = ? WHERE number = ?", (trace, number))


def other_decision(trace: str) -> str:
    """The trace with another first tiling: a valid schedule, but not the one that was measured."""
    instructions, decisions = json.loads(trace)
    place = next(place for place, (_, decision) in enumerate(decisions) if isinstance(decision, list) and len(decision) == 4)
    decisions[place][1] = [64, 1, 1, 1] if decisions[place][1] != [64, 1, 1, 1] else [1, 64, 1, 1]
    return json.dumps([instructions, decisions])


@pytest.mark.parametrize(
    "change",
    [
        lambda trace: "",
        lambda trace: trace[:-20],
        lambda trace: "[]",
        lambda trace: "[[], []]",
        lambda trace: '{"a": 1}',
        lambda trace: "[" * 5000,
        lambda trace: trace.replace('"matmul"', '"conv2d"'),
        lambda trace: trace.replace("[[", '[["NoSuchInstruction", [], [], []], [', 1),
        lambda trace: trace.replace("SamplePerfectTile", "SampleCategorical"),
        other_decision,
    ],
    ids=["gone", "cut off", "no trace", "empty", "an object", "too deep", "another kernel's", "unknown", "other arguments", "another decision"],
)
def test_a_damaged_or_foreign_trace_is_said_and_the_worker_lives_on(change: Callable[[str], str], task: workbench.SearchTask) -> None:
    assert "main" in task.print_best("tir", trial=1)
    with task.session.directory.store() as store:
        worker = store.worker()
        with another_trace(task, 1, change), pytest.raises(InputError):
            task.print_best("tir", trial=1)
        assert "main" in task.print_best("tir", trial=1)
        assert store.worker() == worker


def test_a_function_of_this_process_is_tuned_in_a_place_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with workbench.SearchTask(scaled_product(2.0), (32, 48), "cpu", threads=1) as task:
        assert task.session.path == tmp_path / "workbench-sessions" / "scaled-32x48-cpu"
        with pytest.raises(SelectionError, match="not searched"):
            task.apply_best()
        assert task.compute_dag.splitlines()[2:4] == ["C[i] += A[i, k] * B[k]  # i < 32 over k < 48", "D[i] = C[i] * 2.0  # i < 32"]
        task.tune(trials=4, flat_after=None)
        best = task.apply_best()
        assert (best.kernel, len(task.trials())) == ("scaled", 4)
    with workbench.SearchTask(scaled_product(2.0), (32, 48), "cpu", threads=1) as again:
        assert again.apply_best().trace == best.trace
        again.resume(6)
        again.wait()
        assert len(again.trials()) == 6


def test_a_gpu_that_is_not_here_gets_candidates_and_their_cuda_source(tmp_path: Path) -> None:
    with workbench.SearchTask("matmul", ARGS, "cuda:sm_90", session=tmp_path / "session", threads=2) as task:
        task.tune(dry_run=2)
        task.wait()
        assert [trial.status for trial in task.trials()] == [UNMEASURED] * 3
        with pytest.raises(SelectionError, match="no measured trial"):
            task.print_best("cuda")
        for number in range(3):
            assert "__global__" in task.print_best("cuda", trial=number)
            assert "threadIdx" in task.print_best("tir", trial=number)
        assert "sch.bind" in task.print_best("schedule", trial=1)
        assert "dlight" in task.print_best("schedule", trial=0)


@pytest.mark.parametrize("target", ["cuda:sm_90"])
def test_measuring_needs_the_device(target: str, tmp_path: Path) -> None:
    with workbench.SearchTask("matmul", ARGS, target, session=tmp_path / "session", threads=2) as task:
        if task.session.profile().record.unmeasured == "":
            pytest.skip("the device is here")
        with pytest.raises(EnvironmentFault, match="no CUDA device here"):
            task.tune(4).wait()


def test_arguments_that_do_not_fit_are_an_error_of_the_users(tmp_path: Path) -> None:
    with pytest.raises(ModelError), workbench.SearchTask("matmul", (64, 64, 64, 64, 64), "cpu", session=tmp_path / "s") as task:
        task.tune(4)
    with pytest.raises(ModelError):
        workbench.SearchTask("matmul", (object(),), "cpu", session=tmp_path / "t")


def test_a_schedule_that_brings_code_of_its_own_becomes_a_library_with_trust_alone(tmp_path: Path) -> None:
    a = te.placeholder((16,), name="A")
    kernel = te.create_prim_func([a, te.compute((16,), lambda i: a[i] + 1.0, name="B")])
    target = to_tvm(resolve_target("cpu", threads=1))
    schedule = tvm.s_tir.Schedule(tvm.ir.load_json(tvm.ir.save_json(as_main(kernel))))  # it would write into the kernel itself
    schedule.annotate(schedule.get_loops(schedule.get_sblock("B", func_name="main"))[0], "pragma_import_llvm", "; nothing")
    brought = scheduled(kernel, target, json.dumps(schedule.trace.as_json()))
    with pytest.raises(InputError, match="pragma_import_llvm"):
        write_library(brought, kernel, tmp_path / "x.so", name="add", trust=False)
    write_library(brought, kernel, tmp_path / "x.so", name="add", trust=True)
    assert tvm.runtime.load_module(str(tmp_path / "x.so"))["add"]
