"""What every engine promises (`workbench.engines.protocol.Engine`), checked on a small dense network."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

from tests.old_python import WHERE, find_old_python
from workbench.engines.apply_protocol import Application, RecordedSchedule
from workbench.engines.protocol import Engine, Progress
from workbench.engines.relax.engine import RelaxEngine
from workbench.engines.relay.engine import RelayEngine
from workbench.engines.search_protocol import Artifact, Candidate, Evaluator, Experience, Failed, Measured, Outcome
from workbench.engines.view_protocol import ViewQuestion
from workbench.errors import Interrupted, ModelError, SessionError, TargetError
from workbench.models import resolve_model
from workbench.records.graph import KERNEL, ModelGraph
from workbench.records.profile import Kernel
from workbench.records.trial import FAILURES, OK, REJECTED, Check, MeasureOptions, Trial
from workbench.records.view import VIEWS

ENGINES = [
    pytest.param(RelaxEngine, id="relax"),
    pytest.param(lambda: RelayEngine(_old_python(), threads=2), id="relay", marks=pytest.mark.relay),
]
HANG_S = 120
ROWS, INNER, COLUMNS = 64, 128, 96  # large enough that no call is lost in the clock's resolution
WEIGHTS = np.random.default_rng(0).standard_normal((INNER, COLUMNS), dtype=np.float32) / 8
pytestmark = pytest.mark.tvm


@pytest.fixture
def model(tmp_path: Path) -> Path:
    return write_model(tmp_path / "dense.onnx", WEIGHTS)


def write_model(path: Path, weights: np.ndarray[Any, Any]) -> Path:
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["product"], name="dense"),
        helper.make_node("Relu", ["product"], ["y"], name="activation"),
        helper.make_node("Softmax", ["y"], ["z"], name="probabilities"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [ROWS, INNER])]
    outputs = [helper.make_tensor_value_info("z", TensorProto.FLOAT, [ROWS, COLUMNS])]
    graph = helper.make_graph(nodes, "dense", inputs, outputs, [numpy_helper.from_array(weights, "w")])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def _old_python() -> Path:
    found = find_old_python()
    if found is None:
        pytest.skip(WHERE)
    return found


@pytest.fixture(params=ENGINES)
def make_engine(request: pytest.FixtureRequest) -> Iterator[Callable[[], Engine]]:
    """Makes engines of one kind, and closes them at the end."""
    with ExitStack() as stack:

        def make() -> Engine:
            made: Engine = request.param()
            if isinstance(made, RelayEngine):
                stack.callback(made.close)
            return made

        yield make


@pytest.fixture
def engine(make_engine: Callable[[], Engine]) -> Engine:
    return make_engine()


def silent(phase: str, share: float) -> None:
    assert phase
    assert 0.0 <= share <= 1.0


def lowered(engine: Engine, model: Path, *, fusion: bool = True) -> tuple[Kernel, ...]:
    engine.import_model(resolve_model(str(model)), seed=0, function=None)
    engine.lower(engine.resolve_target("cpu", threads=1), layout="keep", fusion=fusion, on_progress=silent)
    return engine.extract_tasks(on_progress=silent)


def test_versions_say_what_the_engine_runs_on(engine: Engine) -> None:
    assert engine.versions()["tvm"]


def test_every_call_names_a_kernel_and_has_origins(engine: Engine, model: Path) -> None:
    kernels = {kernel.name: kernel for kernel in lowered(engine, model)}
    calls = engine.calls()
    assert [[origin.name for origin in call.origins] for call in calls] == [["dense", "activation"], ["probabilities"]]
    assert all(call.kernel in kernels for call in calls)
    dense = kernels[calls[0].kernel]
    shapes = [tensor.shape for tensor in (*dense.parameters, *dense.results)]
    assert (len(shapes), shapes[0], shapes[-1]) == (3, (ROWS, INNER), (ROWS, COLUMNS))
    assert math.prod(shapes[1]) == INNER * COLUMNS  # which may be packed
    assert dense.flop is not None
    assert dense.flop >= 2 * ROWS * INNER * COLUMNS
    assert dense.space_size is not None
    assert dense.space_size >= 1


def test_without_fusion_every_operator_is_a_call(engine: Engine, model: Path) -> None:
    lowered(engine, model, fusion=False)
    assert [[origin.name for origin in call.origins] for call in engine.calls()] == [["dense"], ["activation"], ["probabilities"]]


def test_structural_hashes_are_the_same_from_run_to_run(engine: Engine, model: Path) -> None:
    first = [kernel.structural_hash for kernel in lowered(engine, model)]
    assert [kernel.structural_hash for kernel in lowered(engine, model)] == first


def test_a_profile_has_one_time_a_call_and_an_end_to_end_time(engine: Engine, model: Path) -> None:
    lowered(engine, model)
    measurement = engine.profile(repeat=2, seed=0, on_progress=silent)
    assert measurement.unmeasured == ""
    assert len(measurement.calls) == len(engine.calls())
    assert all(time.repeats == 2 and time.median_us > 0 and time.iqr_us >= 0 for time in measurement.calls)
    assert all((time.nan_count, time.inf_count) == (0, 0) for time in measurement.calls)
    assert measurement.total is not None
    assert measurement.total.median_us > 0


def test_outputs_are_those_of_the_source_operators_also_after_loading(
    engine: Engine, make_engine: Callable[[], Engine], model: Path, tmp_path: Path
) -> None:
    lowered(engine, model)
    target = engine.resolve_target("cpu", threads=1)
    outputs = engine.outputs([0, 1], seed=3, on_progress=silent)
    data = outputs[0][0]
    exponents = np.exp(data - data.max(axis=1, keepdims=True))
    np.testing.assert_allclose(outputs[1][0], exponents / exponents.sum(axis=1, keepdims=True), rtol=1e-4, atol=1e-7)
    engine.save(tmp_path / "program")
    model.unlink()
    other = make_engine()
    other.load(tmp_path / "program", target)
    assert other.calls() == engine.calls()
    assert other.builtin_origins() == engine.builtin_origins()
    assert other.eliminated_origins() == engine.eliminated_origins() == ()
    np.testing.assert_array_equal(other.outputs([0], seed=3, on_progress=silent)[0][0], data)


def test_the_graphs_have_the_identities_of_the_calls(engine: Engine, make_engine: Callable[[], Engine], model: Path, tmp_path: Path) -> None:
    lowered(engine, model)
    graph = engine.graph()
    calls = engine.calls()
    assert [node.name for node in graph.kernels if node.kind == KERNEL] == [call.kernel for call in calls]
    for row, call in enumerate(calls):
        assert [node.origin for node in graph.source if row in node.rows] == list(call.origins)
    names = [node.origin.name for node in graph.source]
    assert names == ["x", "dense", "activation", "probabilities", "z"]
    assert [[names[read] for read in node.reads] for node in graph.source] == [[], ["x"], ["dense"], ["activation"], ["probabilities"]]
    assert [sorted(tensor.shape) for tensor in graph.source[1].weights] == [sorted((INNER, COLUMNS))]
    assert [tensor.shape for node in graph.kernels for tensor in node.outputs] == [(ROWS, INNER), *[(ROWS, COLUMNS)] * 3]
    assert ModelGraph.from_dict(graph.to_dict()) == graph
    engine.save(tmp_path / "program")
    other = make_engine()
    other.load(tmp_path / "program", engine.resolve_target("cpu", threads=1))
    with pytest.raises(SessionError, match="without the graph"):
        other.graph()


def test_what_progress_raises_ends_the_work_and_the_next_call_works(engine: Engine, model: Path) -> None:
    lowered(engine, model)

    def stop(phase: str, share: float) -> None:
        raise Interrupted(f"{phase} {share}")

    with pytest.raises(Interrupted):
        engine.profile(repeat=1, seed=0, on_progress=stop)
    assert engine.profile(repeat=1, seed=0, on_progress=silent).calls


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda engine, model: engine.resolve_target("no-such-target", threads=1), TargetError),
        (lambda engine, model: engine.import_model(resolve_model(str(model), shapes={"x": (ROWS, INNER + 1)}), seed=0, function=None), ModelError),
    ],
    ids=["an unknown target", "a shape that does not fit"],
)
def test_bad_input_is_an_error_of_the_users(engine: Engine, model: Path, call: Callable[[Engine, Path], object], error: type[Exception]) -> None:
    with pytest.raises(error):
        call(engine, model)


# searching


def built(evaluator: Evaluator, candidates: Sequence[Candidate]) -> list[Artifact | Failed]:
    outcomes = dict(evaluator.build(candidates, stop=lambda: False))
    return [outcomes[place] for place in range(len(candidates))]


@pytest.fixture
def evaluate(engine: Engine, tmp_path: Path) -> Iterator[Callable[[], Evaluator]]:
    """Makes the evaluator of a lowered model, and closes it at the end."""
    with ExitStack() as stack:

        def make() -> Evaluator:
            options = MeasureOptions(min_repeat_ms=1.0, repeat=3)
            evaluator = engine.evaluator(options, scratch=tmp_path, builders=1, seed=0)
            stack.callback(evaluator.close)
            return evaluator

        yield make


def test_a_search_begins_with_the_kernel_as_it_is_and_proposes_nothing_twice(engine: Engine, model: Path) -> None:
    lowered(engine, model)
    search = engine.search_task(engine.calls()[0].kernel, space="default", seed=0)
    baseline = search.baseline()
    assert (baseline.origin, baseline.trace) == ("baseline", "")
    assert baseline.program
    assert search.rebuild("") == baseline
    assert search.space_size is None or search.space_size > 1
    assert len(search.arguments) == 3
    assert search.workload[0]
    proposed: list[Candidate] = []
    for _ in range(3):
        candidates = search.propose(5)
        assert 0 < len(candidates) <= 5
        assert all(candidate.origin == "search" and candidate.trace and candidate.program for candidate in candidates)
        search.learn([Outcome(candidate.fingerprint, 10.0 + place if place else None) for place, candidate in enumerate(candidates)])
        search.learn([Outcome("no such candidate", 1.0)])
        proposed.extend(candidates)
    fingerprints = [baseline.fingerprint, *(candidate.fingerprint for candidate in proposed)]
    assert len(set(fingerprints)) == len(fingerprints)
    assert search.rebuild(proposed[-1].trace).fingerprint == proposed[-1].fingerprint


def test_equal_seeds_give_equal_proposals_and_what_is_restored_is_not_proposed(engine: Engine, model: Path) -> None:
    lowered(engine, model)
    name = engine.calls()[0].kernel
    first, second = (engine.search_task(name, space="default", seed=7).propose(6) for _ in range(2))
    assert [candidate.fingerprint for candidate in first] == [candidate.fingerprint for candidate in second]
    trials = [
        Trial("task", number, OK, "", candidate.fingerprint, "search", "", (5.0,), 1, 0.0, 0.0, 0.0, None, None, 0.0)
        for number, candidate in enumerate(first)
    ]
    search = engine.search_task(name, space="default", seed=7)
    known = [Experience(trial, candidate.trace) for trial, candidate in zip(trials, first, strict=True)]
    search.restore([*known, Experience(trials[0], "damaged")])
    again = {candidate.fingerprint for candidate in search.propose(6)}
    assert again
    assert again.isdisjoint(candidate.fingerprint for candidate in first)


def test_candidates_are_built_checked_timed_and_compared(engine: Engine, model: Path, evaluate: Callable[[], Evaluator]) -> None:
    lowered(engine, model)
    evaluator = evaluate()
    assert evaluator.unmeasurable == ""
    for name in (call.kernel for call in engine.calls()):
        search = engine.search_task(name, space="default", seed=0)
        baseline, *artifacts = built(evaluator, [search.baseline(), *search.propose(2)])
        assert isinstance(baseline, Artifact), baseline
        assert baseline.path.is_file()
        evaluator.set_reference(name, baseline)
        before = evaluator.measure(name, baseline, best_us=None, check=False)
        assert isinstance(before, Measured), before
        assert before.check is None
        assert before.times_us
        for artifact in artifacts:
            assert isinstance(artifact, Artifact), artifact
            measured = evaluator.measure(name, artifact, best_us=None, check=True)
            assert isinstance(measured, Measured), measured
            assert measured.check is not None
            assert measured.check.passed
            assert measured.check.elements == ROWS * COLUMNS
            assert all(time_us > 0 for time_us in measured.times_us)
            only_checked = evaluator.measure(name, artifact, best_us=None, check=True, timed=False)
            assert isinstance(only_checked, Measured)
            assert only_checked.times_us == ()
            hopeless = evaluator.measure(name, artifact, best_us=1e-6, check=True)
            assert isinstance(hopeless, Measured)
            assert len(hopeless.times_us) == 1
        compared = evaluator.compare(name, [baseline, *(artifact for artifact in artifacts if isinstance(artifact, Artifact))], rounds=2)
        assert not isinstance(compared, Failed), compared
        assert [len(row) for row in compared] == [2, 2, 2]


def test_what_goes_wrong_with_a_candidate_is_a_value(engine: Engine, model: Path, evaluate: Callable[[], Evaluator], tmp_path: Path) -> None:
    lowered(engine, model)
    evaluator = evaluate()
    name = engine.calls()[0].kernel
    search = engine.search_task(name, space="default", seed=0)
    good, bad = built(evaluator, [search.baseline(), Candidate("", "0", "search", b"no program")])
    assert isinstance(bad, Failed)
    assert bad.status in FAILURES
    assert bad.error
    assert isinstance(good, Artifact)
    evaluator.set_reference(name, good)
    damaged = tmp_path / "damaged.so"
    damaged.write_bytes(b"no library")
    failed = evaluator.measure(name, Artifact(damaged, 0.0), best_us=None, check=True)
    assert isinstance(failed, Failed)
    assert failed.status in FAILURES
    assert failed.error
    assert isinstance(evaluator.compare(name, [good, Artifact(damaged, 0.0)], rounds=1), Failed)
    assert isinstance(evaluator.measure(name, good, best_us=None, check=True), Measured)


def test_building_stops_when_it_is_told_to_and_a_closed_evaluator_builds_nothing(
    engine: Engine, model: Path, evaluate: Callable[[], Evaluator]
) -> None:
    lowered(engine, model)
    evaluator = evaluate()
    baseline = engine.search_task(engine.calls()[0].kernel, space="default", seed=0).baseline()
    assert list(evaluator.build([baseline], stop=lambda: True)) == []
    assert [type(outcome) for _, outcome in evaluator.build([baseline], stop=lambda: False)] == [Artifact]
    evaluator.close()
    evaluator.close()
    assert list(evaluator.build([baseline], stop=lambda: False)) == []


def test_for_a_target_that_cannot_run_here_candidates_are_built_and_checked(engine: Engine, model: Path, evaluate: Callable[[], Evaluator]) -> None:
    engine.import_model(resolve_model(str(model)), seed=0, function=None)
    target = '{"kind": "llvm", "mtriple": "riscv64-unknown-linux-gnu", "mcpu": "generic-rv64", "num-cores": 2}'
    engine.lower(engine.resolve_target(target, threads=1), layout="keep", fusion=True, on_progress=silent)
    evaluator = evaluate()
    assert "no riscv64 processor here" in evaluator.unmeasurable
    name = engine.calls()[1].kernel
    search = engine.search_task(name, space="default", seed=0)
    baseline, artifact = built(evaluator, [search.baseline(), *search.propose(1)])
    assert isinstance(baseline, Artifact), baseline
    assert isinstance(artifact, Artifact), artifact
    evaluator.set_reference(name, baseline)
    measured = evaluator.measure(name, artifact, best_us=None, check=True, timed=False)
    assert isinstance(measured, Measured), measured
    assert measured.times_us == ()
    assert measured.check is not None
    assert measured.check.passed


def test_every_view_of_a_kernel_has_a_text_or_a_reason(engine: Engine, model: Path) -> None:
    lowered(engine, model)
    viewer = engine.viewer()
    try:
        viewer.begin(ViewQuestion(engine.calls()[0].kernel, "", VIEWS))
        deadline = time.monotonic() + HANG_S
        while (found := viewer.poll()) is None:
            assert time.monotonic() < deadline
            time.sleep(0.01)
    finally:
        viewer.close()
    assert [view.view for view in found] == list(VIEWS)
    assert all(bool(view.text) != bool(view.unavailable) for view in found)
    assert found[0].text


def test_the_limits_of_a_device_are_known_or_have_a_reason(engine: Engine, model: Path) -> None:
    lowered(engine, model)
    peaks = engine.peaks(on_progress=silent)
    assert peaks.known is not bool(peaks.unmeasured)
    assert peaks.key == engine.peaks_key() == engine.peaks_key()


# applying


Applied = tuple[Application, str, RecordedSchedule]


@pytest.fixture
def apply(engine: Engine, model: Path, tmp_path: Path) -> Iterator[Callable[..., Applied]]:
    """Makes an application of a lowered model, with a schedule for its first kernel, and closes it at the end."""
    with ExitStack() as stack:

        def make(on_progress: Progress = silent) -> Applied:
            lowered(engine, model)
            engine.save(tmp_path / "program")
            kernel = engine.calls()[0].kernel
            (candidate,) = engine.search_task(kernel, space="default", seed=0).propose(1)
            (tmp_path / "scratch").mkdir()
            application = engine.apply(
                MeasureOptions(min_repeat_ms=1.0, repeat=3),
                program=tmp_path / "program",
                scratch=tmp_path / "scratch",
                seed=0,
                trust=False,
                expected_s=0.001,
                on_progress=on_progress,
            )
            stack.callback(application.close)
            return application, kernel, RecordedSchedule(candidate.trace, candidate.fingerprint)

        yield make


def new_folder(path: Path) -> Path:
    path.mkdir()
    return path


def test_a_lowered_model_runs_on_given_inputs(engine: Engine, model: Path) -> None:
    lowered(engine, model)
    data = np.random.default_rng(1).standard_normal((ROWS, INNER), dtype=np.float32)
    (found,) = engine.run([data], on_progress=silent)
    exponents = np.exp(np.maximum(data @ WEIGHTS, 0.0))
    np.testing.assert_allclose(found, exponents / exponents.sum(axis=1, keepdims=True), rtol=1e-3)
    for wrong in ([], [data, data], [data[1:]], [data.astype(np.float64)]):
        with pytest.raises(ModelError):
            engine.run(wrong, on_progress=silent)


def test_a_model_with_a_recorded_schedule_is_built_run_and_timed_beside_the_untuned_one(
    engine: Engine, apply: Callable[..., Applied], tmp_path: Path
) -> None:
    application, kernel, schedule = apply()
    assert application.unrunnable == ""
    check = application.check(kernel, schedule)
    assert isinstance(check, Check), check
    assert check.passed
    times = application.time_alone(kernel, schedule, rounds=3)
    assert not isinstance(times, Failed), times
    assert [len(row) for row in times] == [3, 3]
    folder = new_folder(tmp_path / "built")
    built = application.build({kernel: schedule}, folder)
    assert not isinstance(built, Failed), built
    assert {name: item.fingerprint for name, item in built.items()} == {kernel: schedule.fingerprint}
    if engine.name == RelaxEngine.name:  # the records of older TVM are lines of logs, which say both themselves
        assert len(built[kernel].arguments) == 3
        assert all(built[kernel].workload)
    assert {path.name for path in folder.iterdir()} >= {"model.so", "params.bin", "load.py"}
    found = application.compare_outputs(5, each_kernel=True, random_weights=False)
    assert not isinstance(found, Failed), found
    assert [(item.passed, item.elements, item.seed) for item in found.outputs] == [(True, ROWS * COLUMNS, 5)]
    assert (found.kernels_checked, found.wrong, found.says_nothing) == (1, (), "")
    for tuned_first in (False, True):
        one = application.time_round(runs=2, tuned_first=tuned_first)
        assert not isinstance(one, Failed), one
        assert [len(calls) for calls in one.calls_us] == [2, 2]
        assert all(time_us > 0 for time_us in one.total_us)


def test_random_weights_stand_in_for_a_while_for_those_that_prove_little(model: Path, apply: Callable[..., Applied], tmp_path: Path) -> None:
    write_model(model, np.zeros_like(WEIGHTS))
    application, kernel, schedule = apply()
    assert not isinstance(application.build({kernel: schedule}, new_folder(tmp_path / "built")), Failed)
    for random_weights in (False, True, False):
        found = application.compare_outputs(5, each_kernel=True, random_weights=random_weights)
        assert not isinstance(found, Failed), found
        assert [(item.passed, item.what) for item in found.outputs] == [(True, "output 0 with random weights" if random_weights else "output 0")]
        assert (found.kernels_checked, found.wrong, bool(found.says_nothing)) == (1, (), not random_weights)


def test_without_schedules_both_models_are_the_same(apply: Callable[..., Applied], tmp_path: Path) -> None:
    application, _, _ = apply()
    assert application.build({}, new_folder(tmp_path / "built")) == {}
    found = application.compare_outputs(0, each_kernel=False, random_weights=False)
    assert not isinstance(found, Failed), found
    assert [item.max_abs for item in found.outputs] == [0.0]


def test_a_record_that_is_not_what_it_says_is_rejected(apply: Callable[..., Applied], tmp_path: Path) -> None:
    application, kernel, schedule = apply()
    for bad in (
        RecordedSchedule("damaged", schedule.fingerprint),
        RecordedSchedule("[[], []]", schedule.fingerprint),
        RecordedSchedule(schedule.trace, "0" * 16),
    ):
        failed = application.check(kernel, bad)
        assert isinstance(failed, Failed)
        assert failed.status == REJECTED
        assert failed.error
    assert isinstance(application.build({kernel: RecordedSchedule("damaged", "0")}, new_folder(tmp_path / "bad")), Failed)
    assert isinstance(application.check(kernel, schedule), Check)


def test_a_process_that_dies_is_a_failure_that_says_what_was_done(apply: Callable[..., Applied], tmp_path: Path) -> None:
    victims: list[str] = []

    def kill(phase: str, share: float) -> None:
        begun = [victim for victim in victims if phase.startswith(victim)]
        if begun and application.pid is not None:
            victims.remove(begun[0])
            os.kill(application.pid, signal.SIGSEGV)

    application, kernel, schedule = apply(kill)
    victims.append("build")
    failed = application.build({kernel: schedule}, new_folder(tmp_path / "first"))
    assert isinstance(failed, Failed)
    assert "SIGSEGV" in failed.error
    assert "building the model" in failed.error
    assert not isinstance(application.build({kernel: schedule}, new_folder(tmp_path / "second")), Failed)
    victims.append("verify: inputs of seed 3")
    failed = application.compare_outputs(3, each_kernel=True, random_weights=False)
    assert isinstance(failed, Failed)
    assert "running both models on inputs of seed 3" in failed.error


def test_what_progress_raises_ends_an_application_and_its_process(apply: Callable[..., Applied], tmp_path: Path) -> None:
    wanted = [True]

    def stop(phase: str, share: float) -> None:
        if wanted and phase == "build":
            wanted.clear()
            raise Interrupted("The work was stopped.")

    application, kernel, schedule = apply(stop)
    with pytest.raises(Interrupted):
        application.build({kernel: schedule}, new_folder(tmp_path / "first"))
    assert not isinstance(application.build({kernel: schedule}, new_folder(tmp_path / "second")), Failed)


@pytest.mark.parametrize(
    ("target", "reason"),
    [
        ('{"kind": "llvm", "mtriple": "riscv64-unknown-linux-gnu", "mcpu": "generic-rv64"}', "no riscv64 processor here"),
        ("c", "no device for the target kind c"),
    ],
)
def test_a_target_that_cannot_run_here_is_lowered_and_says_why_it_has_no_times(engine: Engine, model: Path, target: str, reason: str) -> None:
    engine.import_model(resolve_model(str(model)), seed=0, function=None)
    engine.lower(engine.resolve_target(target, threads=1), layout="keep", fusion=True, on_progress=silent)
    assert len(engine.calls()) == 2
    measurement = engine.profile(repeat=1, seed=0, on_progress=silent)
    assert reason in measurement.unmeasured
    assert measurement.calls == ()
