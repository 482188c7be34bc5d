"""Applying on a real old TVM: what is written works without the workbench, what is planted is found, and nothing is lost."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import workbench
from tests.relay.models import CONVOLUTION
from tests.relay.opened import CONV, FAST, FOR_A_GPU, SLOW, WRONG
from workbench.engines.apply_protocol import OutputsCompared, RecordedSchedule
from workbench.engines.relay import interpreter
from workbench.engines.relay.application import RelayApplication
from workbench.engines.relay.engine import RelayEngine
from workbench.engines.relay.traces import fingerprint
from workbench.engines.search_protocol import Failed
from workbench.records.comparison import BASELINE, RECORD, KernelComparison
from workbench.records.target import TargetSpec
from workbench.records.trial import RUN_ERROR, MeasureOptions
from workbench.records.tuning import FASTER, Final

HANG_S = 400
QUICK = MeasureOptions(repeat=3, min_repeat_ms=1.0)
TRIALS = 2

RUN_ALONE = """
import sys
sys.modules["workbench"] = None
folder, answer, library, name = sys.argv[1:]
sys.path.insert(0, folder)
import numpy as np, tvm
from load import load, random_inputs
data, = random_inputs(0)
output, = load()(data)
np.savez(answer, data=data, output=output)
print(tvm.runtime.load_module(library)[name].__class__.__name__)
"""

STOCK = """
import sys
import tvm
from tvm import auto_scheduler
from tvm.relay.backend.graph_executor_codegen import GraphExecutorCodegen
package, program, log, symbol, target = sys.argv[1:]
module = tvm.ir.load_json(open(program).read())
options = {"opt_level": 3, "config": {"relay.backend.use_auto_scheduler": True}, "disabled_pass": {"AutoSchedulerLayoutRewrite"}}
target = tvm.target.Target(target, host=target)
with auto_scheduler.ApplyHistoryBest(log), tvm.transform.PassContext(**options):
    _, functions, _ = GraphExecutorCodegen(None, target).codegen(module, module["main"])
stock = next(part[symbol] for part in functions.values())
sys.path[0] = package
from tvm_side.held import Kernel
from tvm_side.lowering import primitive_calls
from tvm_side.replaying import fingerprint, lowered
line = [line for line in open(log) if line.strip()][0]
function = next(call.op for call in primitive_calls(module["main"].body) if str(call.op.attrs["hash"]) == str(stock.attrs["hash"]))
import json
values = json.loads(line)
del values["r"]
kernel = Kernel(symbol, symbol, function, "")
ours, untuned = (lowered(kernel, target, trace) for trace in (json.dumps(values), ""))
print(ours.fingerprint == fingerprint(stock), untuned.fingerprint == fingerprint(stock))
"""


@pytest.fixture(scope="module")
def searched(old_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session whose convolution was searched, with a winner that was written by hand; copied by each test that changes it."""
    folder = tmp_path_factory.mktemp("searched")
    (folder / "net.relay").write_text(CONVOLUTION)
    options: dict[str, Any] = {"engine": "relay", "python": str(old_python), "target": "cpu", "threads": 2, "repeat": 2}
    with workbench.open(folder / "net.relay", session=folder / "s", **options) as session:
        profile = session.profile()
        rows = [row.row for row in profile.rows if row.kernel == CONV]
        session.tune(profile.select(rows=rows), per_task=TRIALS, measure=QUICK).wait(HANG_S)
        plant(session, steps(session, FAST))
    return folder / "s"


@pytest.fixture(scope="module")
def applied(searched: Path, old_python: Path) -> Iterator[workbench.Session]:
    """The same session with its winner applied; for tests that change nothing."""
    copy = searched.with_name("applied")
    shutil.copytree(searched, copy)
    with workbench.open(copy, python=str(old_python)) as session:
        comparison = session.apply(rounds=1)  # of one round no noise is known, so that nothing goes back for it on a busy machine
        assert comparison.applied, comparison.verification
        yield session


@pytest.fixture
def session(searched: Path, old_python: Path, tmp_path: Path) -> Iterator[workbench.Session]:
    shutil.copytree(searched, tmp_path / "s")
    with workbench.open(tmp_path / "s", python=str(old_python)) as opened:
        yield opened


def task_of(session: workbench.Session) -> str:
    with session.directory.store() as store:
        return store.trials.progress()[0].task


def steps(session: workbench.Session, wanted: list[Any]) -> str:
    """A trace for the convolution with these steps, and everything else as a searched one has it."""
    with session.directory.store() as store:
        trace = json.loads(store.trials.trace(task_of(session), 1) or "")
    trace["i"][1] = [[], wanted]
    return json.dumps(trace, sort_keys=True, separators=(",", ":"))


def plant(session: workbench.Session, trace: str, *, digest: str = "", **changes: Any) -> int:
    """Edit the store: the first trial of the convolution gets a schedule and is named the winner; returns its number."""
    task = task_of(session)
    with session.directory.store() as store:
        progress, trial = store.trials.progress_of(task), store.trials.trial(task, 1)
        assert progress is not None
        assert trial is not None
        known = replace(trial, status="ok", fingerprint=digest or fingerprint(trace), times_us=(10.0, 10.0, 10.0), **changes)
        final = Final(1, 90.0, 0.0, 10.0, 0.0, 1, 11, FASTER, "9.00x as fast")
        store._sql.execute("DELETE FROM trials WHERE task = ? AND number = 1", (task,))  # noqa: SLF001 - a stranger's edit
        store.trials.add(known, trace, replace(progress, final=final))
    return 1


def kernel(session: workbench.Session) -> KernelComparison:
    comparison = session.comparison
    assert comparison is not None
    return next(item for item in comparison.kernels if item.kernel == CONV)


def opened_application(session: workbench.Session, old_python: Path, folder: Path, **options: Any) -> tuple[RelayEngine, RelayApplication]:
    """An application of our own for the session's program."""
    with session.directory.store() as store:
        target = TargetSpec.from_dict(store.manifest()["target"])
    engine = RelayEngine(old_python, threads=2)
    engine.load(session.directory.program, target)
    for name in ("scratch", "built"):
        (folder / name).mkdir()
    application = engine.apply(
        QUICK,
        program=session.directory.program,
        scratch=folder / "scratch",
        seed=0,
        trust=False,
        expected_s=0.01,
        **{"on_progress": lambda phase, share: None, **options},
    )
    assert isinstance(application, RelayApplication)
    return engine, application


# what is applied


def test_the_winner_is_applied_and_the_model_is_right(applied: workbench.Session) -> None:
    comparison = applied.comparison
    assert comparison is not None
    used = [item for item in comparison.kernels if item.used == RECORD]
    assert [item.kernel for item in used] == [CONV]
    with applied.directory.store() as store:
        trial = store.trials.trial(used[0].task, 1)
    assert trial is not None
    assert used[0].fingerprint == trial.fingerprint
    assert comparison.verification.kernels_checked == 1
    assert comparison.verification.verified
    assert comparison.total.baseline_us is not None
    assert sorted(path.name for path in applied.directory.tuned.iterdir()) == [
        "auto_scheduler.json",
        "load.py",
        "model.so",
        "params.bin",
        "verify.json",
    ]


def test_the_applied_model_runs_with_the_old_tvm_alone(applied: workbench.Session, old_python: Path, tmp_path: Path) -> None:
    library = applied.write_library(task_of(applied))
    command = [str(old_python), "-c", RUN_ALONE, str(applied.directory.tuned), str(tmp_path / "answer.npz"), str(library), CONV]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "PackedFunc"
    found = np.load(tmp_path / "answer.npz")
    with applied.directory.store() as store:
        profile = store.profile()
    assert profile is not None
    last = max(row.row for row in profile.kernel_rows)
    (expected,) = applied.debug_outputs([last])[last]  # of the inputs of seed 0 too
    np.testing.assert_allclose(found["output"], expected, rtol=1e-4, atol=1e-6)


def test_stock_tvm_makes_the_same_kernel_of_the_log(applied: workbench.Session, old_python: Path) -> None:
    with applied.directory.store() as store:
        options = TargetSpec.from_dict(store.manifest()["target"]).options
    target = " ".join([options["kind"], *(f"-{name}={value}" for name, value in options.items() if name != "kind")])
    log, program = applied.directory.tuned / "auto_scheduler.json", applied.directory.program / "module.json"
    command = [str(old_python), "-c", STOCK, str(interpreter.FOLDER), str(program), str(log), f"tvmgen_default_{CONV}", target]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().splitlines()[-1] == "True False"


def test_what_is_applied_is_verified_again(applied: workbench.Session) -> None:
    assert applied.verify(inputs=1).verified


# what is planted


def test_what_is_planted_is_named_and_not_applied(session: workbench.Session) -> None:
    damaged = steps(session, FAST)
    cases = [
        ("wrong: trial 1", {"trace": steps(session, WRONG)}),
        ("slower in the model: trial 1", {"trace": steps(session, SLOW)}),
        ("rejected: trial 1", {"trace": damaged, "digest": "0123456789abcdef"}),
        ("rejected: trial 1", {"trace": steps(session, FAST).replace("[1,", "[2,", 1)}),
        ("damaged record", {"trace": damaged[:-9], "digest": "0123456789abcdef"}),
        ("other conditions", {"trace": damaged, "conditions": "of another machine"}),
    ]
    for why, planted in cases:
        plant(session, **planted)
        comparison = session.apply(inputs=1, rounds=5)
        assert comparison.applied, comparison.verification
        assert kernel(session).why.startswith(why), (why, kernel(session).why)
        assert all(item.used == BASELINE for item in comparison.kernels)


def test_a_record_for_a_gpu_is_named_and_not_applied(session: workbench.Session) -> None:
    plant(session, steps(session, FOR_A_GPU))
    assert session.apply(inputs=1, rounds=1).applied
    assert kernel(session).used == BASELINE
    assert kernel(session).why.split(":")[0] in ("build_error", "run_error", "rejected")


def test_a_schedule_that_is_wrong_in_the_model_is_found_by_name(session: workbench.Session, old_python: Path, tmp_path: Path) -> None:
    """The check of kernels alone is passed over: what remains has to find it, and to say which kernel it is."""
    trace = steps(session, WRONG)
    engine, application = opened_application(session, old_python, tmp_path)
    try:
        built = application.build({CONV: RecordedSchedule(trace, fingerprint(trace))}, tmp_path / "built")
        assert not isinstance(built, Failed), built
        found = application.compare_outputs(0, each_kernel=True, random_weights=False)
    finally:
        application.close()
        engine.close()
    assert isinstance(found, OutputsCompared), found
    assert [item.kernel for item in found.wrong] == [CONV]
    assert found.wrong[0].index
    assert not found.outputs[0].passed


def test_a_process_that_dies_is_a_value_that_says_what_was_done(session: workbench.Session, old_python: Path, tmp_path: Path) -> None:
    trace = steps(session, FAST)
    holder: list[RelayApplication] = []

    def kill(phase: str, share: float) -> None:
        """Stop the process, so that it cannot answer any more, and kill it while it is waited for."""
        del share
        if phase == "verify: inputs of seed 0" and (pid := holder[0].pid) is not None:
            os.kill(pid, signal.SIGSTOP)
            threading.Timer(0.5, os.kill, (pid, signal.SIGKILL)).start()

    engine, application = opened_application(session, old_python, tmp_path, on_progress=kill)
    holder.append(application)
    try:
        built = application.build({CONV: RecordedSchedule(trace, fingerprint(trace))}, tmp_path / "built")
        assert not isinstance(built, Failed), built
        found = application.compare_outputs(0, each_kernel=False, random_weights=False)
    finally:
        application.close()
        engine.close()
    assert isinstance(found, Failed), found
    assert found.status == RUN_ERROR
    assert "while running both models on inputs of seed 0" in found.error


# measuring again


def test_a_trial_is_measured_again(session: workbench.Session) -> None:
    task = task_of(session)
    found = session.rerun(task, 1)
    assert found.passed, found.error
    assert found.measured_us is not None
    assert found.distance
    plant(session, steps(session, WRONG))
    wrong = session.rerun(task, 1)
    assert (wrong.status, wrong.measured_us) == ("wrong_result", None)
