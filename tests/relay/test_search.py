"""The search of the relay engine on a real old TVM, by our own loop: two kernels of a small network, on this processor."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from tests.relay.models import CONVOLUTION
from tests.unit.search_fakes import Bench, Rig, Running, look_for_commands_always
from workbench.engines.record_protocol import TrialRecords
from workbench.engines.reference import KernelFacts
from workbench.engines.relay.evaluator import RelayEvaluator
from workbench.engines.relay.interpreter import FOLDER, PYTHONPATH, Interpreter, Reply
from workbench.engines.relay.records import LogRecords
from workbench.engines.relay.task_search import RelayTaskSearch
from workbench.engines.relay.traces import fingerprint, line_with
from workbench.engines.search_protocol import Artifact, Candidate, Evaluator, Failed, Measured, Outcome, TaskSearch
from workbench.errors import EnvironmentFault, InputError
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.auto_scheduler.workloads import logged_workloads
from workbench.legacy.log_files import AUTO_SCHEDULER_LOG, AUTOTVM_LOG
from workbench.links import build_profile
from workbench.records.profile import CallTime, Kernel, KernelCall, Measurement, Task, TensorShape
from workbench.records.request import ModelSource, ProfileRequest
from workbench.records.target import TargetSpec
from workbench.records.trial import BUILD_ERROR, OK, REJECTED, RUN_ERROR, RUN_TIMEOUT, MeasureOptions, Trial
from workbench.records.tuning import STOPPED, TuneRequest
from workbench.session import SessionDirectory
from workbench.tuning_database import for_target
from workbench.worker.autotvm_records import read_autotvm_log

OPTIONS = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "mcpu": "x86-64-v2", "num-cores": 2}
TARGET = TargetSpec("llvm", json.dumps(OPTIONS, sort_keys=True), "cpu", "llvm x86-64, 2 threads")
MEASURE = MeasureOptions(repeat=3, min_repeat_ms=1.0, timeout_s=60.0, build_timeout_s=300.0)
CONV, DENSE = "fused_nn_contrib_conv2d_NCHWc_nn_relu", "fused_nn_contrib_dense_pack"
COMPILER = shutil.which("cc") or "cc"
PATIENCE_S = 900.0
SOFTMAX = "fused_nn_softmax"


class Home:
    """Implements `workbench.engines.relay.task_search.Home`: a process with the network, which a new one loads again."""

    def __init__(self, child: Interpreter, model: Path) -> None:
        self.child = child
        self._model = model
        self.facts: dict[str, KernelFacts] = {}
        self._loaded = 0

    @property
    def starts(self) -> int:
        self._load()
        return self.child.starts

    def call(
        self,
        name: str,
        arguments: Mapping[str, Any],
        *,
        timeout_s: float | None = None,
        on_progress: Callable[[str, float], None] | None = None,
    ) -> Reply:
        self._load()
        return self.child.call(name, arguments, timeout_s=timeout_s, on_progress=on_progress)

    def _load(self) -> None:
        if self.child.alive and self._loaded == self.child.starts:
            return
        self.child.call("targets.take", {"config": OPTIONS, "machine": "x86_64"})
        self._loaded = self.child.starts
        self.child.call("importing.import_model", {"kind": "relay", "path": str(self._model), "names": [], "shapes": {}, "seed": 0})
        for kernel in self.child.call("lowering.lower", {"fusion": True}).value["kernels"]:
            tensors = tuple((tuple(shape), dtype) for shape, dtype in (*kernel["parameters"], *kernel["results"]))
            self.facts[kernel["name"]] = KernelFacts(tensors, results=len(kernel["results"]), reduction=3136)


@dataclass
class Lab:
    """What a search takes, on the old Python."""

    home: Home
    make_child: Callable[[], Interpreter]
    scratch: Path

    def task(self, kernel: str, space: str = "auto-scheduler", seed: int = 5) -> RelayTaskSearch:
        return RelayTaskSearch(self.home, kernel, space=space, seed=seed)

    def evaluator(self, options: MeasureOptions = MEASURE, kind: type[RelayEvaluator] = RelayEvaluator) -> RelayEvaluator:
        self.scratch.mkdir(exist_ok=True)
        return kind(self.make_child, TARGET, self.home.facts.__getitem__, options=options, scratch=self.scratch, builders=2, seed=0, unmeasurable="")


@dataclass
class RelayRig(Rig):
    """Searches on the old TVM in a session with two tasks."""

    lab: Lab | None = None
    space: str = "auto-scheduler"
    kind: type[RelayEvaluator] = RelayEvaluator
    made: list[Interpreter] = field(default_factory=list)

    def _prepare(self, task: Task) -> TaskSearch:
        assert self.lab is not None
        return self.lab.task(task.name, self.space)

    def _evaluator(self, request: TuneRequest) -> Evaluator:
        assert self.lab is not None
        evaluator = self.lab.evaluator(request.measure, self.kind)
        if isinstance(evaluator, Killing):
            evaluator.children = tuple(self.made)
        return evaluator

    def _open_records(self, folder: Path) -> TrialRecords:
        return LogRecords(folder)


@pytest.fixture
def make_child(old_python: Path) -> Iterator[Callable[[], Interpreter]]:
    made: list[Interpreter] = []

    def make() -> Interpreter:
        made.append(Interpreter(old_python, threads=2))
        return made[-1]

    yield make
    for child in made:
        child.close()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("model") / "net.relay"
    path.write_text(CONVOLUTION)
    return path


@pytest.fixture(scope="module")
def home(old_python: Path, model: Path) -> Iterator[Home]:
    child = Interpreter(old_python, threads=2)
    yield Home(child, model)
    child.close()


@pytest.fixture
def lab(home: Home, make_child: Callable[[], Interpreter], tmp_path: Path) -> Lab:
    assert home.starts
    return Lab(home, make_child, tmp_path / "scratch")


@pytest.fixture
def evaluator(lab: Lab) -> Iterator[RelayEvaluator]:
    evaluator = lab.evaluator()
    yield evaluator
    evaluator.close()


@pytest.fixture
def rig(lab: Lab, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RelayRig:
    look_for_commands_always(monkeypatch.setattr)
    names = (CONV, DENSE)
    tensor = TensorShape((1, 64), "float32")
    profile = build_profile(
        model="net",
        engine="relay",
        target="cpu",
        kernels=[Kernel(name, f"hash of {name}", (name,), (tensor,), (tensor,), 1000, 1000) for name in names],
        calls=[KernelCall(name, ()) for name in names],
        measurement=Measurement(tuple(CallTime(100.0, 0.5, 10, 0, 0) for _ in names), CallTime(2.5, 0.1, 10), (), CallTime(200.0, 1.0, 10), 0.1, 2),
        builtin_origins=[],
        notes=[],
    )
    directory = SessionDirectory.create(tmp_path / "session")
    request = ProfileRequest(source=ModelSource(kind="workload", name="net", workload="net", args=()), target="cpu", threads=2)
    with directory.store() as store:
        store.write_profile(profile, {name: f"hash of {name}" for name in names}, {"profile_id": "1", "request": request.to_dict()})
    return RelayRig(directory, Bench(), tmp_path / "unused", lab=lab)


def built(evaluator: RelayEvaluator, *candidates: Candidate) -> list[Artifact | Failed]:
    found = dict(evaluator.build(candidates, stop=lambda: False))
    return [found[place] for place in range(len(candidates))]


def baseline(lab: Lab, evaluator: RelayEvaluator, kernel: str) -> Artifact:
    (artifact,) = built(evaluator, lab.task(kernel).baseline())
    assert isinstance(artifact, Artifact), artifact
    evaluator.set_reference(kernel, artifact)
    return artifact


# candidates


@pytest.mark.parametrize(("space", "kernel"), [("auto-scheduler", DENSE), ("autotvm-ga", CONV), ("autotvm-random", CONV), ("autotvm-xgb", DENSE)])
def test_equal_seeds_give_equal_first_candidates_and_none_comes_twice(lab: Lab, space: str, kernel: str) -> None:
    first, again = lab.task(kernel, space), lab.task(kernel, space)
    proposed = first.propose(4)
    assert [item.fingerprint for item in again.propose(4)] == [item.fingerprint for item in proposed]
    assert all(item.decisions and item.origin == "search" for item in proposed)
    assert len({item.fingerprint for item in (*proposed, *first.propose(4))}) == 8
    assert first.space_size is not None
    assert first.space_size >= 2


def test_other_seeds_give_other_candidates(lab: Lab) -> None:
    first, other = (lab.task(CONV, "autotvm-random", seed=seed).propose(4) for seed in (5, 6))
    assert [item.fingerprint for item in first] != [item.fingerprint for item in other]


def test_schedules_of_another_search_of_the_same_kernel_are_tried_first(lab: Lab, tmp_path: Path) -> None:
    records = LogRecords(tmp_path)
    for kernel in (DENSE, CONV):
        task = lab.task(kernel, "autotvm-random")
        for place, candidate in enumerate(task.propose(2)):
            records.append(task, trial_of(candidate, 10.0 + place), candidate.trace)
    records.close()
    found = for_target(read_autotvm_log(tmp_path / AUTOTVM_LOG), TARGET).records
    assert len(found) == 4
    task = lab.task(DENSE, "autotvm-random", seed=8)
    taken = task.transfer(found)
    assert [record.time_us for record in taken] == pytest.approx([10.0, 11.0])
    proposed = task.propose(3)
    assert [item.origin for item in proposed] == ["transfer", "transfer", "search"]
    assert len({item.fingerprint for item in (*proposed, *task.propose(3))}) == 6
    task.learn([Outcome(item.fingerprint, 5.0) for item in proposed])


def trial_of(candidate: Candidate, time_us: float) -> Trial:
    return Trial("t", 1, OK, "", candidate.fingerprint, "search", "here", (time_us,), 1, 0.0, 0.0, 0.0, None, None, 1.0)


def test_a_space_is_used_up(lab: Lab) -> None:
    task = lab.task(DENSE, "autotvm-gridsearch")
    assert task.space_size is not None
    assert len(task.propose(task.space_size + 5)) == task.space_size
    assert task.propose(1) == ()


def test_a_search_whose_process_died_goes_on_with_what_it_knew(make_child: Callable[[], Interpreter], model: Path) -> None:
    own = Home(make_child(), model)
    task = RelayTaskSearch(own, CONV, space="autotvm-gridsearch", seed=1)
    known = task.propose(4)
    task.learn([Outcome(item.fingerprint, 10.0 + place) for place, item in enumerate(known)])
    own.child.close()
    assert not {item.fingerprint for item in task.propose(4)} & {item.fingerprint for item in known}


def test_a_log_of_the_same_workload_is_tried_first_and_of_another_says_so(lab: Lab) -> None:
    writer = lab.task(CONV)
    first, second, *_ = (candidate.trace for candidate in writer.propose(4))
    lines = [line_with(first, [2e-3], 0.0), line_with(second, [1e-3], 0.0), json.dumps({**json.loads(second), "r": [[1e10], 4, 1.0, 0]})]
    (logged,) = logged_workloads(parse_auto_scheduler_log("\n".join(lines)).entries)
    reader = lab.task(CONV, seed=6)
    found = reader.translate(logged)
    assert (found.unlike, found.tried) == ("", 2)
    assert dict(found.claimed_us) == {fingerprint(second): pytest.approx(1e3), fingerprint(first): pytest.approx(2e3)}
    proposed = reader.propose(4)
    assert [candidate.fingerprint for candidate in proposed[:2]] == [fingerprint(second), fingerprint(first)]
    assert len({candidate.fingerprint for candidate in (*proposed, *reader.propose(4))}) == 8
    assert lab.task(DENSE).translate(logged).unlike == "its workload key is another one"
    assert "AutoTVM" in lab.task(CONV, "autotvm-random").translate(logged).unlike


def test_a_space_that_there_is_not_is_refused(lab: Lab) -> None:
    with pytest.raises(InputError, match="no search space bayes"):
        lab.task(DENSE, "bayes")


def test_a_kernel_without_template_says_so(lab: Lab) -> None:
    with pytest.raises(InputError, match="no template"):
        lab.task(SOFTMAX, "autotvm-ga")


@pytest.mark.parametrize(
    "package_and_why",
    [
        ("__version__ = '2.1.4.dev1'\n", "xgboost 2.1.4.dev1 is too new for this TVM"),
        ("raise OSError('libgomp.so.1: no such file')\n", "xgboost does not load in the old Python (OSError: libgomp.so.1: no such file)"),
    ],
)
def test_an_xgboost_that_cannot_be_used_is_told_and_the_search_goes_on_without_a_model(
    package_and_why: tuple[str, str], make_child: Callable[[], Interpreter], model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package, why = package_and_why
    (tmp_path / "xgboost.py").write_text(package)
    monkeypatch.setenv(PYTHONPATH, str(tmp_path))
    own = Home(make_child(), model)
    task = RelayTaskSearch(own, DENSE, space="auto-scheduler", seed=1)
    assert task.note == f"{why}, so no cost model guides the search: pip install 'xgboost<2'"
    proposed = task.propose(3)
    task.learn([Outcome(item.fingerprint, 10.0) for item in proposed])
    assert len({item.fingerprint for item in (*proposed, *task.propose(3))}) == 6
    with pytest.raises(EnvironmentFault) as raised:
        RelayTaskSearch(own, DENSE, space="autotvm-xgb", seed=1)
    assert raised.value.message == f"AutoTVM's tuner xgb cannot be used: {why}."
    assert "autotvm-ga" in raised.value.remedy


VAIN = """
import json, sys
import numpy as np
sys.path[0] = sys.argv[1]
from tvm_side import giving_up, importing, lowering, sketches, targets
from tvm_side.failing import Refusal
from tvm_side.held import Held
from tvm.auto_scheduler import ComputeDAG
from tvm.auto_scheduler.cost_model import xgb_model
held, told = Held(), []
targets.take(held, {"config": json.loads(sys.argv[3]), "machine": "x86_64"}, (), None)
importing.import_model(held, {"kind": "relay", "path": sys.argv[2], "names": [], "shapes": {}, "seed": 0}, (), None)
lowering.lower(held, {"fusion": True}, (), lambda *step: None)
sketches.begin(held, {"kernel": sys.argv[4], "search": "a", "seed": 0}, (), None)
giving_up.LIMIT_S = 2.0
xgb_model.get_per_store_features_from_states = lambda states, task: [np.zeros((1, 1)) for _ in states]
stock, calls = ComputeDAG.apply_steps_from_state, []

def damaged(dag, state, *rest):
    calls.append(state)
    if len(calls) % 4 == 0:
        raise ValueError("the steps do not fit")
    return stock(dag, state, *rest)

ComputeDAG.apply_steps_from_state = damaged
try:
    sketches.propose(held, {"search": "a", "count": 4}, (), lambda *step: told.append(step))
except Refusal as refusal:
    print(json.dumps([refusal.kind, refusal.message, refusal.remedy, told[-1]]))
"""


def test_a_search_without_any_valid_schedule_is_given_up_and_says_how_many_ailed_of_what(old_python: Path, model: Path) -> None:
    command = [str(old_python), "-c", VAIN, str(FOLDER), str(model), json.dumps(OPTIONS), DENSE]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stderr
    kind, message, remedy, (phase, share) = json.loads(done.stdout.splitlines()[-1])
    assert kind == "ModelError"
    assert re.search(rf"no valid schedule of {DENSE} among [\d,]+\. Of 16 looked at: 12 have no features .*; 4 cannot be lowered", message), message
    assert "(the first: the steps do not fit)" in message
    assert "autotvm-ga" in remedy
    assert phase.startswith("search: no valid schedule among")
    assert share == 1.0


# building and measuring


def test_candidates_are_built_checked_and_timed(lab: Lab, evaluator: RelayEvaluator) -> None:
    untuned = baseline(lab, evaluator, CONV)
    measured = evaluator.measure(CONV, untuned, best_us=None, check=False)
    assert isinstance(measured, Measured), measured
    assert measured.check is None
    assert min(measured.times_us) > 0
    candidates = [*lab.task(CONV).propose(2), *lab.task(CONV, "autotvm-random").propose(2)]
    for artifact in built(evaluator, *candidates):
        assert isinstance(artifact, Artifact), artifact
        found = evaluator.measure(CONV, artifact, best_us=None, check=True)
        assert isinstance(found, Measured), found
        assert found.check is not None
        assert found.check.passed, found
        assert found.check.elements == 16 * 14 * 14
        assert found.times_us
    compared = evaluator.compare(CONV, [untuned, artifact], rounds=3)
    assert not isinstance(compared, Failed), compared
    assert [len(row) for row in compared] == [3, 3]


def test_a_wrong_kernel_is_found_out(lab: Lab, evaluator: RelayEvaluator, tmp_path: Path) -> None:
    baseline(lab, evaluator, DENSE)
    wrong = library(tmp_path, "")
    found = evaluator.measure(DENSE, wrong, best_us=None, check=True)
    assert isinstance(found, Measured), found
    assert found.times_us == ()
    assert found.check is not None
    assert found.check.mismatches == found.check.elements


@pytest.mark.parametrize(
    ("body", "status", "text"),
    [
        ("abort();", RUN_ERROR, "The measuring process died with SIGABRT."),
        ("pause();", RUN_TIMEOUT, "did not end within"),
        ("return -1;", RUN_ERROR, ""),
    ],
)
def test_a_kernel_that_crashes_or_hangs_costs_itself(lab: Lab, tmp_path: Path, body: str, status: str, text: str) -> None:
    evaluator = lab.evaluator(MeasureOptions(timeout_s=5.0, repeat=2, min_repeat_ms=1.0, build_timeout_s=300.0))
    try:
        untuned = baseline(lab, evaluator, DENSE)
        assert isinstance(evaluator.measure(DENSE, untuned, best_us=None, check=False), Measured)
        failed = evaluator.measure(DENSE, library(tmp_path, body), best_us=None, check=True)
        assert isinstance(failed, Failed)
        assert failed.status == status
        assert text in failed.error
        assert isinstance(evaluator.measure(DENSE, untuned, best_us=None, check=True), Measured)
    finally:
        evaluator.close()


def test_a_schedule_of_another_kernel_is_rejected_with_the_reason(lab: Lab, evaluator: RelayEvaluator) -> None:
    (candidate,) = lab.task(DENSE).propose(1)
    (template,) = lab.task(DENSE, "autotvm-random").propose(1)
    target = lab.task(CONV)
    failures = built(evaluator, target.rebuild(candidate.trace), target.rebuild(template.trace))
    for failed in failures:
        assert isinstance(failed, Failed), failed
        assert "another kernel" in failed.error


def test_an_error_of_building_is_passed_on_in_full(lab: Lab, evaluator: RelayEvaluator) -> None:
    task = lab.task(DENSE)
    record = json.loads(task.propose(1)[0].trace)
    record["i"][1] = [[], [["SP", 2, 0, 1, [4096, 7], 1], ["CA", 2, 1, 0]]]
    (failed,) = built(evaluator, task.rebuild(json.dumps(record)))
    assert isinstance(failed, Failed), failed
    assert failed.status == REJECTED
    assert "Traceback" in failed.error
    assert "key is not in Map" in failed.error


def library(folder: Path, body: str) -> Artifact:
    """A library whose kernel does something else than what it should."""
    source, path = folder / "kernel.c", folder / "kernel.so"
    parameters = "void* arguments, int* codes, int count, void* value, int* code, void* handle"
    source.write_text(f"#include <stdlib.h>\n#include <unistd.h>\nint kernel({parameters}) {{ {body} return 0; }}\n")
    subprocess.run([COMPILER, "-shared", "-fPIC", "-o", str(path), str(source)], check=True, capture_output=True)
    return Artifact(path, 0.1)


# the loop


def test_two_tasks_are_searched_stopped_and_resumed_without_measuring_anything_twice(rig: RelayRig) -> None:
    running = Running(rig, trials=64, per_task=32, batch=8, measure=MEASURE, seed=3)
    seen = wait_for_trials(rig, running, 6)
    assert seen
    rig.tell("stop")
    result = running.wait(PATIENCE_S)
    assert {progress.state for progress in result["tasks"].values()} == {STOPPED}
    before = {name: rig.trials(name) for name in (CONV, DENSE)}
    count = sum(map(len, before.values()))
    assert 6 <= count < 16
    resumed = rig.search(trials=16, batch=8, measure=MEASURE, resume=True, seed=3)
    after = {name: rig.trials(name) for name in (CONV, DENSE)}
    assert sum(map(len, after.values())) == 16
    for name, trials in after.items():
        assert trials[: len(before[name])] == before[name]
        assert len({trial.fingerprint for trial in trials}) == len(trials)
        assert trials[0].origin == "baseline"
        assert resumed["tasks"][name].best_us is not None
        assert resumed["tasks"][name].final is not None
    lines = (rig.directory.path / "records" / AUTO_SCHEDULER_LOG).read_text().splitlines()
    right = [trial for trials in after.values() for trial in trials if trial.status == OK and trial.origin != "baseline"]
    assert len(lines) == len(set(lines)) == len(right)
    assert stock_reads(rig) == [len(lines), True, 0, False]


def test_a_template_is_searched_and_stock_autotvm_reads_its_log(rig: RelayRig) -> None:
    rig.space = "autotvm-ga"
    rig.search(DENSE, trials=5, batch=4, measure=MEASURE)
    right = [trial for trial in rig.trials(DENSE) if trial.status == OK and trial.origin != "baseline"]
    assert len(right) >= 3
    assert all(any(words.startswith("tile_") for words in trial.decisions) for trial in right)
    assert stock_reads(rig) == [0, False, len(right), True]


class Killing(RelayEvaluator):
    """Has a building process killed while it builds, and the measuring process while it measures, once each."""

    killed: tuple[str, ...] = ()
    children: tuple[Interpreter, ...] = ()

    def build(
        self, candidates: Sequence[Candidate], *, stop: Callable[[], bool], limit_s: float | None = None
    ) -> Iterator[tuple[int, Artifact | Failed]]:
        if candidates[0].origin != "baseline" and "builder" not in self.killed:
            self.killed = (*self.killed, "builder")
            kill_soon(self.children[0])
        return super().build(candidates, stop=stop, limit_s=limit_s)

    def measure(self, kernel: str, artifact: Artifact, *, best_us: float | None, check: bool, timed: bool = True) -> Measured | Failed:
        if check and "measurer" not in self.killed:
            self.killed = (*self.killed, "measurer")
            kill_soon(self.children[-1])
        return super().measure(kernel, artifact, best_us=best_us, check=check, timed=timed)


def kill_soon(child: Interpreter) -> None:
    """Kill a process as soon as there is one, from another thread, as the kernel does when memory runs out."""

    def kill() -> None:
        while (pid := child.pid) is None:
            threading.Event().wait(0.01)
        os.killpg(pid, signal.SIGKILL)

    threading.Thread(target=kill, daemon=True).start()


def test_a_killed_builder_and_a_killed_measurer_cost_a_trial_each_at_most(rig: RelayRig, make_child: Callable[[], Interpreter]) -> None:
    assert rig.lab is not None

    def make() -> Interpreter:
        rig.made.append(make_child())
        return rig.made[-1]

    rig.space, rig.kind = "autotvm-gridsearch", Killing
    rig.lab = replace(rig.lab, make_child=make)
    rig.search(DENSE, trials=7, batch=3, measure=MEASURE, seed=4)
    trials = rig.trials(DENSE)
    assert [trial.number for trial in trials] == list(range(7))
    assert trials[0].status == OK
    failed = [trial for trial in trials if trial.status != OK]
    assert {trial.status for trial in failed} <= {BUILD_ERROR, RUN_ERROR}
    assert len(failed) <= 2
    assert all("process" in trial.error or "Traceback" in trial.error for trial in failed)


def wait_for_trials(rig: RelayRig, running: Running, count: int) -> bool:
    """True once so many trials are stored."""
    while sum(len(rig.trials(name)) for name in (CONV, DENSE)) < count:
        if not running.runs:
            running.wait()
            return False
        threading.Event().wait(0.05)
    return True


_STOCK = """
import json, sys
from tvm import auto_scheduler, autotvm
sketches, templates = sys.argv[1:3]
inputs, results = auto_scheduler.RecordReader(sketches).read_lines()
context = auto_scheduler.ApplyHistoryBest(sketches)
configurations = [found.config for found, result in autotvm.record.load_from_file(templates) if result.error_no == 0]
with autotvm.apply_history_best(templates) as history:
    best = len(history.best_by_targetkey)
print(json.dumps([len(inputs), sum(map(len, context.best_by_targetkey.values())) > 0, len(configurations), best > 0]))
"""


def stock_reads(rig: RelayRig) -> list[Any]:
    """What stock TVM finds in the logs: of auto_scheduler's and of AutoTVM's the number of lines, and whether it would apply one."""
    assert rig.lab is not None
    records = rig.directory.path / "records"
    command = [str(rig.lab.home.child.python), "-c", _STOCK, str(records / AUTO_SCHEDULER_LOG), str(records / AUTOTVM_LOG)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, cwd="/")
    found: list[Any] = json.loads(done.stdout.splitlines()[-1])
    return found
