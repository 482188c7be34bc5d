"""Applying as a job of the worker, with an engine that is none: what is written, what stays when it fails, and what is verified again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.apply_fakes import BASELINE_US, PRESENT, WINNER, FakeApplication, agreement, give_winner, winning_progress
from tests.unit.search_fakes import TARGET, trace_of
from workbench.applying.writing import read_verdict
from workbench.engines.apply_protocol import OutputsCompared
from workbench.engines.search_protocol import Failed
from workbench.errors import EnvironmentFault, InputError, Interrupted, SelectionError, SessionError
from workbench.records.comparison import BASELINE, RECORD, SLOWER, Comparison, Verification
from workbench.records.rerun import Rerun
from workbench.records.target import TargetSpec
from workbench.records.trial import RUN_ERROR, WRONG_RESULT, MeasureOptions
from workbench.records.tuning import FASTER, Final
from workbench.session import SessionDirectory
from workbench.tuning_database import read_database
from workbench.worker import applying, rerunning
from workbench.worker.applying import ApplyRequest, apply, read_request, verify
from workbench.worker.context import JobContext
from workbench.worker.rerunning import rerun

QUICK = ApplyRequest(inputs=2, rounds=5)
FILES = ["database_tuning_record.json", "database_workload.json", "load.py", "model.so", "params.bin", "verify.json"]
WRONG = OutputsCompared((agreement(max_abs=2.0, mismatches=4),), (agreement(kernel="dense", row=1, max_abs=2.0, mismatches=4),), 2)


class FakeEngine:
    """As much of an engine as applying needs."""

    name = "fake"

    def __init__(self, application: FakeApplication) -> None:
        self.application = application
        self.asked: list[tuple[MeasureOptions, dict[str, Any]]] = []

    def versions(self) -> dict[str, str]:
        return {"tvm": "0.0"}

    def apply(self, options: MeasureOptions, **arguments: Any) -> FakeApplication:
        self.asked.append((options, arguments))
        self.application.log.clear()
        return self.application


class Job:
    """Runs the jobs in a session with two winners."""

    def __init__(self, directory: SessionDirectory) -> None:
        self.directory = directory
        with directory.store() as store:
            store.update_manifest({"target": TargetSpec("llvm", json.dumps(TARGET, sort_keys=True), "cpu", "llvm znver5, 2 threads").to_dict()})
            profile = store.profile()
        assert profile is not None
        self.profile = profile
        self.application = FakeApplication(profile)
        self.engine = FakeEngine(self.application)
        self.on_progress: Callable[[str, float], None] = lambda phase, share: None

    def run(self, job: Callable[..., dict[str, Any]], request: Any, *, trust: bool = False) -> dict[str, Any]:
        with self.directory.store() as store:
            number = store.add_command("apply", {})
            store.take_command()
            context = JobContext(self.directory, store, number, self.on_progress, lambda: False)
            return job(self.engine, context, request, trust=trust)

    def apply(self, **changes: Any) -> Comparison:
        return Comparison.from_dict(json.loads(json.dumps(self.run(apply, replace(QUICK, **changes)))))

    def choices(self, **changes: Any) -> dict[str, str]:
        """What each kernel uses once the winners are applied."""
        return {kernel.kernel: kernel.used for kernel in self.apply(**changes).kernels}

    def verify(self) -> Verification:
        return Verification.from_dict(json.loads(json.dumps(self.run(verify, QUICK))))

    def rerun(self, **arguments: Any) -> Rerun:
        return Rerun.from_dict(json.loads(json.dumps(self.run(rerun, {"task": "conv2d", "trial": WINNER, **arguments}))))

    def files(self) -> dict[str, str]:
        tuned = self.directory.tuned
        return {path.name: path.read_text() for path in sorted(tuned.iterdir())} if tuned.exists() else {}

    def leftovers(self) -> list[str]:
        return [path.name for path in self.directory.path.glob("tuned*") if path.name != "tuned"] + [
            path.name for path in self.directory.artifacts.glob("*")
        ]


@pytest.fixture
def job(session: SessionDirectory, monkeypatch: pytest.MonkeyPatch) -> Job:
    monkeypatch.setattr(applying, "conditions_of", lambda *_, **__: PRESENT)
    monkeypatch.setattr(rerunning, "conditions_of", lambda *_, **__: PRESENT)
    give_winner(session, "conv2d")
    give_winner(session, "dense")
    return Job(session)


def test_a_verified_model_is_written_with_its_records_and_its_verdict(job: Job) -> None:
    comparison = job.apply()
    assert comparison.applied
    assert comparison.profile_id == "1"
    assert sorted(job.files()) == FILES
    verdict = json.loads(job.files()["verify.json"])
    assert (verdict["format"], verdict["verified"], verdict["speedup"]) == ("workbench-tuned", True, comparison.total.ratio)
    assert Comparison.from_dict(verdict) == comparison
    assert read_verdict(job.directory.tuned) == (comparison, ())
    records = read_database(job.directory.tuned).records
    assert len(records) == 2
    assert {record.time_us for record in records} == {50.0}
    assert {json.loads(record.trace_json)[1][0][1][0] for record in records} == {WINNER}
    assert job.leftovers() == []
    with job.directory.store() as store:
        assert Comparison.from_dict(store.document("comparison") or {}) == comparison


def test_the_engine_is_told_where_and_on_which_device(job: Job) -> None:
    give_winner(job.directory, "softmax", options=MeasureOptions(device=1, cooldown_ms=1e9))
    job.run(apply, QUICK, trust=True)
    options, arguments = job.engine.asked[0]
    assert options == MeasureOptions()  # of the first winner, and nothing else of what the store says
    assert arguments["program"] == job.directory.program
    assert (arguments["seed"], arguments["trust"], arguments["expected_s"]) == (0, True, pytest.approx(1e-3))


def test_a_failed_verification_leaves_what_was_applied_before(job: Job) -> None:
    job.apply()
    before = job.files()
    job.application.outputs[0] = WRONG
    comparison = job.apply()
    assert not comparison.applied
    assert comparison.verification.faulty == ("dense",)
    assert job.files() == before
    assert job.leftovers() == []
    with job.directory.store() as store:
        assert (store.document("comparison") or {})["applied"] is False


@pytest.mark.parametrize("phase", ["choose", "check: conv2d", "verify: inputs of seed 1", "compare (round 3)", "write"])
def test_an_interrupted_apply_leaves_what_was_applied_before(job: Job, phase: str) -> None:
    job.apply()
    before = job.files()

    def stop(told: str, share: float) -> None:
        if told == phase:
            raise Interrupted("The work was stopped.")

    job.on_progress = stop
    with pytest.raises(Interrupted):
        job.apply()
    assert job.files() == before
    assert job.leftovers() == []


def test_a_store_that_cannot_be_written_leaves_what_was_applied_before(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    job.apply()
    before = job.files()

    def full(*arguments: object) -> None:
        raise EnvironmentFault("The disk is full.")

    monkeypatch.setattr("workbench.store.Store.write_document", full)
    job.application.ratios["conv2d"] = 3.0
    with pytest.raises(EnvironmentFault):
        job.apply()
    assert job.files() == before


def test_a_second_apply_replaces_the_first(job: Job) -> None:
    first = job.apply()
    job.application.alone["conv2d"] = Failed(WRONG_RESULT, "it differs")
    second = job.apply()
    assert (len(first.used_records), len(second.used_records)) == (2, 1)
    assert len(read_database(job.directory.tuned).records) == 1


def test_without_any_winner_the_untuned_model_is_applied_and_said_so(job: Job) -> None:
    for kernel in ("conv2d", "dense"):
        job.application.alone[kernel] = Failed(WRONG_RESULT, "it differs")
    comparison = job.apply()
    assert comparison.applied
    assert not comparison.used_records
    assert read_database(job.directory.tuned).records == ()
    assert "the model is the untuned one" in comparison.notes[0]


def test_a_session_without_searches_is_refused(session: SessionDirectory) -> None:
    with pytest.raises(SessionError, match="Nothing was searched") as caught:
        Job(session).apply()
    assert "workbench tune" in caught.value.remedy


def test_a_session_without_a_profile_is_refused(tmp_path: Path, job: Job) -> None:
    empty = SessionDirectory.create(tmp_path / "empty")
    job.directory = empty
    with pytest.raises(SessionError, match="no profile"):
        job.apply()


def test_where_nothing_can_be_run_nothing_is_applied(job: Job) -> None:
    job.application.unrunnable = "no CUDA device here"
    with pytest.raises(EnvironmentFault, match="cannot be verified here: no CUDA device here"):
        job.apply()
    assert job.files() == {}


def test_searched_tasks_of_another_target_are_named(job: Job) -> None:
    task = replace(job.profile.tasks[0], task="conv2d-of-a-gpu", name="conv2d\x1b[31m")
    with job.directory.store() as store:
        store.trials.set_progress(winning_progress(task))
    note = job.apply().notes[-1]
    assert "1 searched tasks belong to another target" in note
    assert note.isprintable()


@pytest.mark.parametrize("arguments", [{"inputs": 0}, {"rounds": 0}, {"inputs": -1}])
def test_requests_that_make_no_sense_are_refused(arguments: dict[str, Any]) -> None:
    with pytest.raises(SelectionError):
        read_request(arguments)


def test_a_link_out_of_the_session_is_not_followed(job: Job, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (job.directory.path / "tuned").symlink_to(elsewhere)
    with pytest.raises(SessionError, match="leads out of the session"):
        job.apply()
    assert list(elsewhere.iterdir()) == []


# applying again


def test_what_was_too_slow_in_the_model_stays_so_whatever_is_measured_the_next_times(job: Job) -> None:
    job.application.ratios["conv2d"] = 0.5
    first = job.apply()
    job.application.ratios["conv2d"] = 2.0
    second, third = job.apply(), job.apply()
    for comparison in (first, second, third):
        assert {kernel.kernel: kernel.used for kernel in comparison.kernels} == {"conv2d": BASELINE, "dense": RECORD, "softmax": BASELINE}
    whys = [comparison.kernels[0].why for comparison in (first, second, third)]
    assert whys[0].startswith("slower in the model: trial 3: slower: 100.")
    assert whys[1] == whys[2] == f"{whys[0]} (measured by an earlier apply of the same records)"
    assert "check conv2d" not in job.application.log
    assert job.choices(anew=True)["conv2d"] == RECORD


def test_what_was_kept_stays_though_it_is_slower_the_next_times_and_that_is_told(job: Job) -> None:
    assert job.choices()["conv2d"] == RECORD
    job.application.ratios["conv2d"] = 0.5
    for _ in range(2):
        comparison = job.apply()
        assert (comparison.kernels[0].used, comparison.kernels[0].verdict) == (RECORD, SLOWER)
    job.application.overhead_us = (10.0, 400.0)
    comparison = job.apply()
    assert len(comparison.used_records) == 2
    assert "The whole model is not faster" in comparison.notes[0]
    assert job.choices(anew=True)["conv2d"] == BASELINE


def test_a_kept_record_that_is_wrong_now_goes_back_all_the_same(job: Job) -> None:
    assert job.choices()["conv2d"] == RECORD
    job.application.alone["conv2d"] = Failed(WRONG_RESULT, "it differs")
    assert job.choices()["conv2d"] == BASELINE
    job.application.alone.clear()
    assert job.choices()["conv2d"] == RECORD  # that one was not a matter of time


def test_another_choice_of_records_is_judged_anew(job: Job) -> None:
    job.application.ratios["conv2d"] = 0.5
    assert job.choices()["conv2d"] == BASELINE
    job.application.ratios.clear()
    give_winner(job.directory, "softmax")
    assert job.choices() == dict.fromkeys(("conv2d", "dense", "softmax"), RECORD)


@pytest.mark.parametrize("changes", [{"profile_id": "0"}, {"applied": False}, {"rounds": 1}])
def test_a_comparison_that_proves_nothing_settles_nothing(job: Job, changes: dict[str, Any]) -> None:
    job.application.ratios["conv2d"] = 0.5
    comparison = job.apply()
    with job.directory.store() as store:
        store.write_document("comparison", replace(comparison, **changes).to_dict())
    job.application.ratios.clear()
    assert job.choices()["conv2d"] == RECORD


# verifying again


def test_it_is_verified_on_the_device_that_it_was_applied_on(job: Job) -> None:
    final = Final(WINNER + 1, BASELINE_US, 1.0, 50.0, 1.0, WINNER + 1, 11, FASTER, "2.00x")
    for kernel in ("conv2d", "dense"):
        give_winner(job.directory, kernel, number=WINNER + 1, options=MeasureOptions(device=1), progress={"final": final})
    assert job.apply().device == 1
    job.verify()
    assert [options.device for options, _ in job.engine.asked] == [1, 1]


def test_what_is_applied_is_verified_again_from_its_records(job: Job) -> None:
    job.apply()
    verification = job.verify()
    assert verification.verified
    assert verification.seeds == (0, 1)
    assert job.application.log[0] == "build conv2d dense"
    assert job.leftovers() == []


def test_a_changed_file_is_noticed_without_being_loaded(job: Job) -> None:
    job.apply()
    (job.directory.tuned / "model.so").write_text("anything")
    verification = job.verify()
    assert verification.verified is False
    assert verification.reason == "not what was applied: model.so"
    for damage in ("[]", "{}", "{", "[" * 100_000):
        (job.directory.tuned / "verify.json").write_text(damage)
        with pytest.raises(SessionError, match="damaged"):
            job.verify()


def test_an_applied_model_that_is_wrong_now_is_told(job: Job) -> None:
    job.apply()
    job.application.outputs[0] = WRONG
    verification = job.verify()
    assert (verification.verified, verification.faulty) == (False, ("dense",))


def test_records_that_were_changed_since_are_told(job: Job) -> None:
    job.apply()
    with job.directory.store() as store:
        task = job.profile.tasks[0].task
        trial = store.trials.trial(task, WINNER)
        assert trial is not None
        store._sql.execute("DELETE FROM trials WHERE task = ?", (task,))  # noqa: SLF001 - what a stranger may do
        store.trials.add(replace(trial, fingerprint="other"), trace_of(1), winning_progress(job.profile.tasks[0]))
    with pytest.raises(SessionError, match="is not what was applied"):
        job.verify()


def test_nothing_that_is_not_applied_is_verified(job: Job) -> None:
    with pytest.raises(SessionError, match="Nothing is applied"):
        job.verify()
    job.apply()
    with job.directory.store() as store:
        store.update_manifest({"profile_id": "2"})
    with pytest.raises(SessionError, match="profiled again"):
        job.verify()


def test_a_failed_attempt_does_not_hide_what_is_applied(job: Job) -> None:
    job.apply()
    job.application.outputs[0] = WRONG
    assert not job.apply().applied
    job.application.outputs.clear()
    assert job.verify().verified


# measuring a trial again


def test_a_trial_is_measured_again_and_its_distance_from_the_record_told(job: Job) -> None:
    found = job.rerun()
    assert (found.task, found.kernel, found.trial, found.status) == (job.profile.tasks[0].task, "conv2d", WINNER, "ok")
    assert (found.recorded_us, found.measured_us, found.baseline_us) == (50.0, 55.5, BASELINE_US + 0.5)
    assert found.distance_percent == pytest.approx(11.0)
    assert found.distance == "+11.0 %: 50.0 us in the record, 55.5 us now"
    assert "as fast" in found.gain
    assert found.same_conditions
    assert found.check is not None
    assert job.application.log == ["check conv2d", "time conv2d 11"]


def test_a_record_of_another_machine_is_measured_here_and_its_distance_is_said_to_be_one_between_machines(job: Job) -> None:
    give_winner(job.directory, "softmax", conditions="of another machine")
    found = job.rerun(task="softmax")
    assert (found.status, found.measured_us, found.same_conditions) == ("ok", 55.5, False)
    assert found.distance.endswith("us now; the record is of another machine, device, target, version or number of threads")


def test_the_untuned_kernel_is_measured_again_even_if_it_has_no_record(job: Job) -> None:
    found = job.rerun(trial=0)
    assert (found.measured_us, found.recorded_us, found.distance, found.check) == (BASELINE_US + 0.5, None, "", None)


@pytest.mark.parametrize("failed", [Failed(WRONG_RESULT, "it differs"), Failed(RUN_ERROR, "it died with SIGSEGV")])
def test_a_trial_that_fails_now_is_told_with_its_status(job: Job, failed: Failed) -> None:
    job.application.alone["conv2d"] = failed
    found = job.rerun()
    assert (found.status, found.error, found.measured_us, found.passed) == (failed.status, failed.error, None, False)


def test_the_device_is_the_records_unless_another_one_is_given(job: Job) -> None:
    give_winner(job.directory, "softmax", options=MeasureOptions(device=2, repeat=3))
    job.rerun(task="softmax")
    job.rerun(task="softmax", device=1)
    assert [options for options, _ in job.engine.asked] == [MeasureOptions(device=2, repeat=3), MeasureOptions(device=1, repeat=3)]


@pytest.mark.parametrize("arguments", [{"task": "no such"}, {"trial": 99}, {"device": -1}])
def test_what_is_not_there_cannot_be_measured_again(job: Job, arguments: dict[str, Any]) -> None:
    with pytest.raises(InputError):
        job.rerun(**arguments)


def test_options_that_a_stranger_wrote_are_checked(job: Job) -> None:
    give_winner(job.directory, "softmax", options=MeasureOptions(cooldown_ms=1e12))
    with pytest.raises(InputError, match="cooldown_ms"):
        job.rerun(task="softmax")
