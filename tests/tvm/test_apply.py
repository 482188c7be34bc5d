"""Applying for real, on a small network: what is written works without the workbench, what is planted is found, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
import tvm_ffi
from onnx import TensorProto, helper, numpy_helper

import workbench
from workbench.engines.apply_protocol import OutputsCompared, RecordedSchedule
from workbench.engines.relax import program_files
from workbench.engines.relax.applying.scheduling import with_schedules
from workbench.engines.relax.engine import RelaxEngine
from workbench.engines.relax.search.sketches import trace_json
from workbench.engines.relax.workload_module import as_main, fingerprint
from workbench.engines.search_protocol import Failed
from workbench.engines.targets import to_tvm
from workbench.errors import SessionError
from workbench.records.comparison import BASELINE, RECORD, KernelComparison
from workbench.records.target import TargetSpec
from workbench.records.trial import MeasureOptions
from workbench.records.tuning import FASTER, Final
from workbench.session import SessionDirectory

HANG_S = 120
ROWS, INNER, COLUMNS = 96, 192, 128
QUICK = MeasureOptions(repeat=3, min_repeat_ms=1.0)
DICE = np.random.default_rng(0)
FIRST, SECOND = (DICE.standard_normal(shape, dtype=np.float32) / 12 for shape in ((INNER, COLUMNS), (COLUMNS, INNER)))

Edit = Callable[[Any], None]


def network(path: Path, *, first: Any = FIRST) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "first"], ["a"], name="one"),
        helper.make_node("Relu", ["a"], ["b"], name="relu"),
        helper.make_node("MatMul", ["b", "second"], ["c"], name="two"),
        helper.make_node("Softmax", ["c"], ["y"], name="probabilities"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, INNER])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [ROWS, INNER])]
    weights = [numpy_helper.from_array(first, "first"), numpy_helper.from_array(SECOND, "second")]
    graph = helper.make_graph(nodes, "net", inputs, outputs, weights)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def expected(data: Any) -> Any:
    logits = np.maximum(data @ FIRST, 0.0) @ SECOND
    exponents = np.exp(logits - logits.max(axis=1, keepdims=True))
    return exponents / exponents.sum(axis=1, keepdims=True)


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session whose two matrix products were searched; copied by each test that changes it."""
    folder = tmp_path_factory.mktemp("searched")
    with workbench.open(network(folder / "net.onnx"), target="cpu", threads=2, repeat=2, session=folder / "s") as session:
        selection = session.profile().select(top=2)
        session.tune(selection, per_task=10, measure=QUICK).wait(HANG_S)
        name_winners(session)
    return folder / "s"


def name_winners(session: workbench.Session) -> None:
    """Have the fastest trial of each task named the winner, however busy the machine is: it is many times as fast as the untuned kernel."""
    with session.directory.store() as store:
        for progress in store.trials.progress():
            known = [trial for trial in store.trials.of_task(progress.task) if trial.number and trial.time_us is not None]
            best = min(known, key=lambda trial: trial.time_us or 0.0)
            time_us = best.time_us or 0.0
            final = Final(best.number, 9.0 * time_us, 0.0, time_us, 0.0, best.number, 11, FASTER, "9.00x as fast")
            store.trials.set_progress(replace(progress, final=final))


@pytest.fixture(scope="module")
def applied(searched: Path) -> Iterator[workbench.Session]:
    """The same session with its winners applied; for tests that change nothing."""
    copy = searched.with_name("applied")
    shutil.copytree(searched, copy)
    with workbench.open(copy) as session:
        comparison = session.apply(rounds=1)  # of one round no noise is known, so that nothing goes back for it on a busy machine
        assert comparison.applied, comparison.verification
        yield session


@pytest.fixture
def session(searched: Path, tmp_path: Path) -> Iterator[workbench.Session]:
    shutil.copytree(searched, tmp_path / "s")
    with workbench.open(tmp_path / "s") as opened:
        yield opened


@pytest.fixture
def applied_copy(applied: workbench.Session, tmp_path: Path) -> Iterator[workbench.Session]:
    """The session with its winners applied, to be changed."""
    shutil.copytree(applied.path, tmp_path / "s")
    with workbench.open(tmp_path / "s") as opened:
        yield opened


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def products(session: workbench.Session) -> list[str]:
    """Tasks of the two matrix products."""
    with session.directory.store() as store:
        return [progress.task for progress in store.trials.progress()]


def kernel(session: workbench.Session, task: str) -> KernelComparison:
    comparison = session.comparison
    assert comparison is not None
    return next(item for item in comparison.kernels if item.task == task)


def kernel_name(session: workbench.Session, task: str) -> str:
    with session.directory.store() as store:
        profile = store.profile()
    assert profile is not None
    return next(item.name for item in profile.tasks if item.task == task)


def lowered_kernel(session: workbench.Session, task: str) -> tuple[Any, Any]:
    """The untuned kernel of a task, and the target."""
    with session.directory.store() as store:
        target = TargetSpec.from_dict(store.manifest()["target"])
    return program_files.load(session.directory.program).module[kernel_name(session, task)], to_tvm(target)


def plant(session: workbench.Session, task: str, edit: Edit | None = None, *, trace: str | None = None, **changes: Any) -> int:
    """Edit the store: the winner of a task gets another schedule, made by `edit` or given as a trace; returns its number."""
    with session.directory.store() as store:
        progress = store.trials.progress_of(task)
        assert progress is not None
        assert progress.final is not None
        number = progress.final.winner
        trial = store.trials.trial(task, number)
        assert trial is not None
        found = trial.fingerprint
        if edit is not None:
            function, _ = lowered_kernel(session, task)
            schedule = tvm.s_tir.Schedule(as_main(function), seed=1, debug_mask=0, enable_check=False)
            edit(schedule)
            trace, found = json.dumps(trace_json(schedule.trace)), fingerprint(schedule.mod)
        final = replace(progress.final, winner=number, verdict="faster", winner_us=1.0, baseline_us=100.0)
        known = replace(trial, status="ok", fingerprint=found, **changes)
        store._sql.execute("DELETE FROM trials WHERE task = ? AND number = ?", (task, number))  # noqa: SLF001 - a stranger's edit
        store.trials.add(known, "" if trace is None else trace, replace(progress, final=final))
    return number


def outputs_of_a_planted(session: workbench.Session, task: str, edit: Edit, folder: Path, *, random_weights: bool) -> OutputsCompared:
    """Both models on the same tensors, one with a planted schedule; the check of kernels alone is passed over."""
    number = plant(session, task, edit)
    with session.directory.store() as store:
        target = TargetSpec.from_dict(store.manifest()["target"])
        trial, trace = store.trials.trial(task, number), store.trials.trace(task, number)
    assert trial is not None
    engine = RelaxEngine()
    engine.load(session.directory.program, target)
    scratch = Path(tempfile.mkdtemp(dir=folder))
    (scratch / "built").mkdir()
    application = engine.apply(
        QUICK,
        program=session.directory.program,
        scratch=scratch,
        seed=0,
        trust=False,
        expected_s=0.01,
        on_progress=lambda phase, share: None,
    )
    try:
        built = application.build({kernel_name(session, task): RecordedSchedule(trace or "", trial.fingerprint)}, scratch / "built")
        assert not isinstance(built, Failed), built
        found = application.compare_outputs(0, each_kernel=True, random_weights=random_weights)
    finally:
        application.close()
    assert isinstance(found, OutputsCompared), found
    return found


def block_of(schedule: Any) -> Any:
    """The block that computes the sum."""
    return next(block for block in schedule.get_child_blocks(schedule.get_sblock("root")) if len(schedule.get_loops(block)) == 3)


# what is applied


def test_winners_are_applied_and_the_model_is_right(applied: workbench.Session) -> None:
    comparison = applied.comparison
    assert comparison is not None
    used = {item.task: item for item in comparison.kernels if item.used == RECORD}
    assert set(used) == set(products(applied))
    for task, item in used.items():
        with applied.directory.store() as store:
            progress, trial = store.trials.progress_of(task), store.trials.trial(task, item.trial or 0)
        assert progress is not None
        assert progress.final is not None
        assert trial is not None
        assert item.trial == progress.final.winner
        assert item.fingerprint == trial.fingerprint
        assert item.ratio is not None
    assert comparison.verification.kernels_checked == len(used)
    assert comparison.verification.onnxruntime.startswith(("not compared: onnxruntime is not installed", "largest difference"))
    assert comparison.total.baseline_us is not None
    assert comparison.total.tuned_us is not None


def test_the_applied_model_runs_without_the_workbench(applied: workbench.Session) -> None:
    program = """
import sys
sys.modules["workbench"] = None
sys.path.insert(0, sys.argv[1])
import numpy as np
from load import load, random_inputs
run = load()
data, = random_inputs(7)
output, = run(data)
np.savez(sys.argv[2], data=data, output=output)
"""
    answer = applied.path / "answer.npz"
    done = subprocess.run(
        [sys.executable, "-c", program, str(applied.path / "tuned"), str(answer)], capture_output=True, text=True, timeout=HANG_S, check=False
    )
    assert done.returncode == 0, done.stderr
    found = np.load(answer)
    answer.unlink()
    np.testing.assert_allclose(found["output"], expected(found["data"]), rtol=1e-3, atol=1e-6)
    alone = subprocess.run([sys.executable, str(applied.path / "tuned" / "load.py")], capture_output=True, text=True, timeout=HANG_S, check=False)
    assert alone.returncode == 0, alone.stderr
    assert f"output 0: float32 ({ROWS}, {INNER})" in alone.stdout


def test_stock_tvm_makes_the_same_module_of_the_records(applied: workbench.Session) -> None:
    lowered = program_files.load(applied.directory.program)
    with applied.directory.store() as store:
        target = to_tvm(TargetSpec.from_dict(store.manifest()["target"]))
        comparison = applied.comparison
        assert comparison is not None
        schedules = {
            item.kernel: RecordedSchedule(store.trials.trace(item.task, item.trial or 0) or "", item.fingerprint)
            for item in comparison.kernels
            if item.used == RECORD
        }
    ours = with_schedules(lowered.module, target, schedules, trust=False)
    with target:
        stock = tvm.relax.transform.MetaScheduleApplyDatabase(str(applied.directory.tuned))(lowered.module)
    assert schedules
    assert not tvm_ffi.structural_equal(ours, lowered.module)
    assert tvm_ffi.structural_equal(ours, stock), tvm_ffi.get_first_structural_mismatch(ours, stock)


def test_what_is_applied_is_verified_again_and_a_changed_library_is_found(applied_copy: workbench.Session) -> None:
    assert applied_copy.verify(inputs=1).verified
    with (applied_copy.directory.tuned / "model.so").open("ab") as file:
        file.write(b"\0")
    verification = applied_copy.verify(inputs=1)
    assert verification.verified is False
    assert "model.so" in verification.reason


def test_applying_again_chooses_the_same_records(applied_copy: workbench.Session) -> None:
    comparisons = [applied_copy.comparison, *(applied_copy.apply(inputs=1, rounds=1) for _ in range(2))]
    choices = [[(item.kernel, item.used, item.trial) for item in comparison.kernels] for comparison in comparisons if comparison is not None]
    assert choices[0] == choices[1] == choices[2]


# what is planted


def compute_something_else(schedule: Any) -> None:
    """Add up in half precision."""
    block = block_of(schedule)
    schedule.cache_write(block, 0, "global")
    schedule.unsafe_set_dtype(block, 0, "float16")


def be_slow(schedule: Any) -> None:
    """Start the threads anew for every element of a row."""
    block = block_of(schedule)
    _, column, _ = schedule.get_loops(block)
    _, inner = schedule.split(column, factors=[None, 2])
    schedule.parallel(inner)


def be_for_a_gpu(schedule: Any) -> None:
    row, column, _ = schedule.get_loops(block_of(schedule))
    schedule.bind(row, "blockIdx.x")
    schedule.bind(column, "threadIdx.x")


def test_what_is_planted_is_named_and_not_applied(session: workbench.Session) -> None:
    first, second = products(session)
    plant(session, first, compute_something_else)
    plant(session, second, be_slow)
    comparison = session.apply(inputs=1, rounds=5)
    assert comparison.applied
    assert kernel(session, first).why.startswith("wrong: trial ")
    assert kernel(session, second).why.startswith("slower in the model: trial ")
    assert all(item.used == BASELINE for item in comparison.kernels)


def test_a_damaged_trace_is_named_and_not_applied(session: workbench.Session) -> None:
    first, second = products(session)
    plant(session, first, trace='[[["NoSuchInstruction", [], [], []]], []]')
    plant(session, second, trace="[[], []]")  # another kernel than the one that was measured
    assert session.apply(inputs=1, rounds=1).applied
    for task in (first, second):
        assert kernel(session, task).why.startswith("rejected: trial ")
        assert kernel(session, task).used == BASELINE


def test_a_record_of_another_target_is_named_and_not_applied(session: workbench.Session) -> None:
    first, second = products(session)
    plant(session, first, be_for_a_gpu)  # with the conditions of this machine
    plant(session, second, lambda schedule: None, conditions="of another machine")
    assert session.apply(inputs=1, rounds=1).applied
    assert kernel(session, first).used == kernel(session, second).used == BASELINE
    assert kernel(session, first).why.split(":")[0] in ("build_error", "run_error", "rejected")
    assert kernel(session, second).why.startswith("other conditions")


def test_a_schedule_that_is_right_alone_and_wrong_in_the_model_applies_nothing(session: workbench.Session, tmp_path: Path) -> None:
    """The check of kernels alone is passed over: what remains has to find it, and to say which kernel it is."""
    first, _ = products(session)
    found = outputs_of_a_planted(session, first, compute_something_else, tmp_path, random_weights=False)
    assert [item.kernel for item in found.wrong] == [kernel_name(session, first)]
    assert found.wrong[0].index
    assert not found.outputs[0].passed


def test_a_schedule_that_only_other_weights_show_to_be_wrong_is_found_with_random_ones(tmp_path: Path) -> None:
    """A network whose products are all zero, in half precision too."""
    with workbench.open(
        network(tmp_path / "net.onnx", first=np.zeros_like(FIRST)), target="cpu", threads=2, repeat=2, session=tmp_path / "s"
    ) as session:
        selection = session.profile().select(rows=0)
        session.tune(selection, per_task=3, measure=QUICK).wait(HANG_S)
        name_winners(session)
        comparison = session.apply(inputs=1, rounds=1)
        assert comparison.applied, comparison.verification
        assert comparison.record.verification.reason == ""
        assert comparison.record.verification.random_weights.startswith("largest difference ")
        (task,) = products(session)
        name = kernel_name(session, task)
        own = outputs_of_a_planted(session, task, compute_something_else, tmp_path, random_weights=False)
        assert own.says_nothing
        assert (own.wrong, [item.passed for item in own.outputs]) == ((), [True])
        found = outputs_of_a_planted(session, task, compute_something_else, tmp_path, random_weights=True)
    assert not found.says_nothing
    assert [(item.kernel, item.what) for item in found.wrong] == [(name, "output 0 with random weights")]


def test_where_random_weights_overflow_nothing_is_compared_and_agreement_still_proves_little(tmp_path: Path) -> None:
    """The exponential of one of one of one of zero is a number, that of most others is none."""
    nodes = [helper.make_node("MatMul", ["x", "w"], ["e0"], name="product")]
    nodes += [helper.make_node("Exp", [f"e{place}"], [f"e{place + 1}"], name=f"exp{place}") for place in range(4)]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 32]) for name in ("x", "e4")]
    graph = helper.make_graph(nodes, "net", tensors[:1], tensors[1:], [numpy_helper.from_array(np.zeros((32, 32), np.float32), "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(tmp_path / "net.onnx"))
    with workbench.open(tmp_path / "net.onnx", target="cpu", threads=2, repeat=2, session=tmp_path / "s") as session:
        session.tune(session.profile().select(rows=0), per_task=3, measure=QUICK).wait(HANG_S)
        name_winners(session)
        verification = session.apply(inputs=1, rounds=1).record.verification
    assert (verification.verified, verification.random_weights) == (True, "")
    assert verification.reason.startswith("agreement proves little: every element ")
    assert verification.reason.endswith(", and with random weights some outputs of the untuned model are not finite")


# onnxruntime


STAND_IN = """
import numpy as np
from onnx.reference import ReferenceEvaluator


class SessionOptions:
    log_severity_level = 2


class InferenceSession:
    def __init__(self, path, options, providers):
        assert providers == ["CPUExecutionProvider"]
        self._evaluator = ReferenceEvaluator(path)

    def run(self, names, inputs):
        return [array + np.float32({error}) for array in self._evaluator.run(names, inputs)]
"""


@pytest.mark.parametrize(("error", "passed"), [(0.0, True), (0.5, False)])
def test_where_onnxruntime_is_installed_the_model_is_compared_with_it(
    searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: float, passed: bool
) -> None:
    (tmp_path / "onnxruntime.py").write_text(STAND_IN.replace("{error}", str(error)))
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(searched, tmp_path / "s")
    with workbench.open(tmp_path / "s") as session:
        comparison = session.apply(inputs=1, rounds=1)
    assert comparison.applied is passed
    found = [item for item in comparison.verification.differences if item.against == "onnxruntime"]
    assert [item.passed for item in found] == [passed]
    assert ("onnxruntime" in comparison.verification.reason) is not passed


def test_onnxruntime_that_crashes_is_said_and_costs_nothing_else(searched: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onnxruntime.py").write_text("import os\nos.abort()\n")
    monkeypatch.syspath_prepend(tmp_path)
    shutil.copytree(searched, tmp_path / "s")
    with workbench.open(tmp_path / "s") as session:
        comparison = session.apply(inputs=1, rounds=1)
    assert comparison.applied, comparison.verification.reason
    assert comparison.verification.onnxruntime.startswith("not compared: The process ")
    assert comparison.total.tuned_us is not None


# measuring again, and stopping


def test_a_trial_is_measured_again(session: workbench.Session) -> None:
    first, _ = products(session)
    found = session.rerun(first)
    assert found.passed, found.error
    assert found.same_conditions
    assert found.recorded_us is not None
    assert found.measured_us is not None
    assert found.distance
    assert found.gain
    baseline = session.rerun(first, 0)
    assert baseline.passed
    assert baseline.check is None
    number = plant(session, first, compute_something_else)
    wrong = session.rerun(first, number)
    assert (wrong.status, wrong.measured_us) == ("wrong_result", None)


def test_control_c_leaves_what_was_applied_before(applied_copy: workbench.Session, tmp_path: Path) -> None:
    before = contents(applied_copy.directory.tuned)
    command = [sys.executable, "-m", "workbench.cli.main", "apply", "--session", str(applied_copy.path), "--rounds", "100000"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with applied_copy.directory.store() as store, subprocess.Popen(command, cwd=tmp_path, env=environment, **pipes) as process:
        cursor, deadline = store.last_event(), time.monotonic() + HANG_S
        try:
            while not any("compare (round" in str(event.data.get("phase")) for event in store.events_since(cursor)):
                assert process.poll() is None, process.communicate()
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=HANG_S)
        finally:
            process.kill()
    assert process.returncode == 130, said
    assert contents(applied_copy.directory.tuned) == before
    assert not list(applied_copy.directory.artifacts.glob("build-*"))


def test_a_worker_that_is_killed_while_it_applies_leaves_what_was_applied_before(applied_copy: workbench.Session) -> None:
    before = contents(applied_copy.directory.tuned)

    def kill(event: Any) -> None:
        if "compare" in str(event.data.get("phase")):
            os.kill(applied_copy._worker.pid or 0, signal.SIGKILL)  # noqa: SLF001 - the fault is what is tested

    with pytest.raises(workbench.errors.WorkerDied):
        applied_copy.apply(inputs=1, rounds=1000, on_event=kill)
    assert contents(applied_copy.directory.tuned) == before
    assert applied_copy.verify(inputs=1).verified  # with a new worker


def test_without_searches_nothing_is_applied(tmp_path: Path) -> None:
    with workbench.open(network(tmp_path / "net.onnx"), target="cpu", threads=2, repeat=1, session=tmp_path / "s") as session:
        session.profile()
        with pytest.raises(SessionError, match="Nothing was searched"):
            session.apply()
    assert not SessionDirectory.open(tmp_path / "s").tuned.exists()
