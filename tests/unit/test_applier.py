"""What becomes of choices: alone, in the built model, on its inputs, and in its times; no kernel is applied that fails anywhere."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.apply_fakes import WINNER, FakeApplication, agreement, give_winner, here
from workbench.applying.applier import Applier, Outcome
from workbench.applying.choice import choose
from workbench.applying.timing import rows_timing, timing, total_timing
from workbench.applying.verifying import Verifier
from workbench.engines.apply_protocol import OutputsCompared, Round
from workbench.engines.search_protocol import Failed
from workbench.errors import InternalError, Interrupted
from workbench.records.comparison import BASELINE, FASTER, NO_DIFFERENCE, RECORD, SLOWER, UNCHANGED, UNMEASURED, KernelComparison
from workbench.records.profile import Profile
from workbench.records.trial import RUN_ERROR, RUN_TIMEOUT, WRONG_RESULT
from workbench.session import SessionDirectory

DIFFERS = agreement(max_abs=2.0, mismatches=4, found="3.0", expected="1.0")
WRONG_KERNEL = replace(DIFFERS, kernel="conv2d", row=2)


class Bench:
    """Applies the winners of two of the three tasks: conv2d (rows 0 and 2) and dense (row 1); softmax was never searched."""

    def __init__(self, session: SessionDirectory, folder: Path) -> None:
        give_winner(session, "conv2d")
        give_winner(session, "dense")
        with session.store() as store:
            profile = store.profile()
        assert profile is not None
        self.session = session
        self.profile: Profile = profile
        self.application = FakeApplication(profile)
        self.folder = folder
        self.runs = 0
        self.told: list[str] = []
        self.on_progress: Callable[[str, float], None] = lambda phase, share: self.told.append(phase)

    def run(self, *, rounds: int | None = 5, seeds: tuple[int, ...] = (0, 1, 2), onnx_model: Path | None = None) -> Outcome:
        with self.session.store() as store:
            choices = choose(self.profile, store.trials, here)
        self.runs += 1
        folder = self.folder / str(self.runs)
        folder.mkdir(parents=True)
        why_not = "" if onnx_model else "the model is not of ONNX"
        verifier = Verifier(seeds, onnx_model, why_not, self.on_progress)
        return Applier(self.application, self.profile, choices, verifier, folder=folder, rounds=rounds, on_progress=self.on_progress).run()

    def kernels(self, **options: Any) -> dict[str, KernelComparison]:
        return {kernel.kernel: kernel for kernel in self.run(**options).comparison.kernels}


@pytest.fixture
def bench(session: SessionDirectory, tmp_path: Path) -> Bench:
    return Bench(session, tmp_path / "scratch")


def test_winners_are_applied_counted_and_compared_and_the_rest_stays_as_it_is(bench: Bench) -> None:
    outcome = bench.run()
    found = {kernel.kernel: kernel for kernel in outcome.comparison.kernels}
    assert list(found) == ["conv2d", "dense", "softmax"]
    assert (found["conv2d"].used, found["conv2d"].trial, found["conv2d"].weight, found["conv2d"].rows) == (RECORD, WINNER, 2, (0, 2))
    assert found["conv2d"].fingerprint == "fconv2d"
    assert (found["conv2d"].verdict, found["dense"].verdict) == (FASTER, FASTER)
    assert found["conv2d"].ratio == pytest.approx(2.0, rel=0.01)
    assert (found["softmax"].used, found["softmax"].trial, found["softmax"].verdict) == (BASELINE, None, UNCHANGED)
    assert found["softmax"].why == "never searched"
    comparison = outcome.comparison
    assert comparison.applied
    assert comparison.total.verdict == FASTER
    assert comparison.total.baseline_us == pytest.approx(410.0, rel=0.01)
    assert comparison.total.tuned_us == pytest.approx(260.0, rel=0.01)
    assert comparison.rounds == 5
    assert comparison.notes == ()
    assert set(outcome.applied) == {"conv2d", "dense"}
    assert outcome.folder is not None
    assert (outcome.folder / "model.so").is_file()


def test_both_models_take_turns_after_a_warm_up(bench: Bench) -> None:
    bench.run(rounds=4)
    rounds = [entry for entry in bench.application.log if entry.startswith("round")]
    assert rounds == ["round", "round", "round tuned first", "round", "round tuned first"]


@pytest.mark.parametrize(
    ("failed", "why"),
    [
        (Failed(WRONG_RESULT, "5 of 10 elements differ"), "wrong: trial 3: 5 of 10 elements differ"),
        (Failed(RUN_ERROR, "The measuring process died with SIGSEGV. Fatal"), "run_error: trial 3: The measuring process died with SIGSEGV"),
        (Failed(RUN_TIMEOUT, "The kernel did not end within 10 s."), "run_timeout: trial 3: The kernel did not end"),
        (Failed("rejected", "The recorded schedule is not the one that was measured"), "rejected: trial 3"),
    ],
)
def test_a_kernel_that_fails_alone_keeps_its_baseline_and_the_others_are_applied(bench: Bench, failed: Failed, why: str) -> None:
    bench.application.alone["conv2d"] = failed
    found = bench.kernels()
    assert found["conv2d"].used == BASELINE
    assert found["conv2d"].why.startswith(why)
    assert (found["conv2d"].trial, found["conv2d"].considered) == (None, WINNER)
    assert found["dense"].used == RECORD
    assert "build dense" in bench.application.log


def test_a_kernel_that_is_slower_in_the_model_goes_back_to_its_baseline(bench: Bench) -> None:
    bench.application.ratios["conv2d"] = 0.5
    found = bench.kernels()
    assert found["conv2d"].used == BASELINE
    assert found["conv2d"].why.startswith("slower in the model: trial 3: slower: 100.")
    assert found["conv2d"].verdict == UNCHANGED
    assert found["dense"].used == RECORD
    assert [entry for entry in bench.application.log if entry.startswith("build")] == ["build conv2d dense", "build dense"]
    assert bench.application.log.count("outputs 0 each") == 2  # what is built again is verified again


def test_one_slow_batch_of_rounds_is_no_reason(bench: Bench) -> None:
    bench.application.ratios["conv2d"] = [0.5, 1.0]
    assert bench.kernels()["conv2d"].used == RECORD


def test_a_little_slower_is_no_reason(bench: Bench) -> None:
    bench.application.ratios["conv2d"] = 0.97
    found = bench.kernels()
    assert (found["conv2d"].used, found["conv2d"].verdict) == (RECORD, SLOWER)


def test_if_the_whole_is_slower_all_kernels_go_back(bench: Bench) -> None:
    bench.application.overhead_us = (10.0, 400.0)
    outcome = bench.run()
    assert not outcome.comparison.used_records
    assert all("the whole with all schedules" in kernel.why for kernel in outcome.comparison.kernels if kernel.considered)
    assert outcome.comparison.applied
    assert "the model is the untuned one" in outcome.comparison.notes[0]


def test_if_the_whole_is_not_faster_it_says_so(bench: Bench) -> None:
    bench.application.overhead_us = (10.0, 160.0)
    outcome = bench.run()
    assert outcome.comparison.total.verdict == NO_DIFFERENCE
    assert len(outcome.comparison.used_records) == 2
    assert "not faster beyond the noise" in outcome.comparison.notes[0]


def test_a_schedule_that_is_not_in_the_module_is_not_counted(bench: Bench) -> None:
    bench.application.absent.add("dense")
    found = bench.kernels()
    assert found["dense"].used == BASELINE
    assert "does not have its schedule" in found["dense"].why
    assert found["conv2d"].used == RECORD


def test_a_wrong_output_applies_nothing_and_names_the_kernel(bench: Bench) -> None:
    bench.application.outputs[0] = OutputsCompared((DIFFERS,), (WRONG_KERNEL,), 3)
    comparison = bench.run().comparison
    assert not comparison.applied
    assert comparison.verification.verified is False
    assert comparison.verification.faulty == ("conv2d",)
    assert "kernel conv2d (row 2)" in comparison.verification.reason
    assert "at [3] it is 3.0 instead of 1.0" in comparison.verification.reason
    assert comparison.total.verdict == UNMEASURED
    assert "Nothing was applied." in comparison.notes


def test_outputs_that_differ_on_later_inputs_only_are_looked_into_kernel_by_kernel(bench: Bench) -> None:
    bench.application.outputs[2] = OutputsCompared((replace(DIFFERS, seed=2),), (replace(WRONG_KERNEL, seed=2),), 3)
    verification = bench.run().comparison.verification
    assert verification.faulty == ("conv2d",)
    assert [entry for entry in bench.application.log if entry.startswith("outputs")] == ["outputs 0 each", "outputs 1", "outputs 2", "outputs 2 each"]


def test_a_kernel_that_is_wrong_on_the_models_tensors_fails_though_the_outputs_agree(bench: Bench) -> None:
    bench.application.outputs[0] = OutputsCompared((agreement(),), (WRONG_KERNEL,), 3)
    assert not bench.run().comparison.applied


def test_outputs_that_differ_without_a_kernel_to_blame_fail_too(bench: Bench) -> None:
    bench.application.outputs[0] = OutputsCompared((DIFFERS,), (), 3)
    verification = bench.run().comparison.verification
    assert (verification.verified, verification.faulty) == (False, ())
    assert "no single kernel" in verification.reason


def test_whole_numbers_that_differ_are_said_to_be_such_and_that_ties_may_be_the_reason(bench: Bench) -> None:
    bench.application.outputs[0] = OutputsCompared((replace(DIFFERS, dtype="int64"),), (), 3)
    reason = bench.run().comparison.verification.reason
    assert "the output is of int64, which has to be equal" in reason
    assert "ties" in reason
    bench.application.outputs[0] = OutputsCompared((replace(DIFFERS, dtype="int64"), replace(DIFFERS, dtype="float32")), (), 3)
    assert "ties" not in bench.run().comparison.verification.reason


def test_a_crash_while_both_run_applies_nothing_and_names_what_ran(bench: Bench) -> None:
    text = "The process died with SIGSEGV while running both models on inputs of seed 0, running kernel dense. Fatal Python error"
    bench.application.outputs[0] = Failed(RUN_ERROR, text)
    comparison = bench.run().comparison
    assert not comparison.applied
    assert comparison.verification.faulty == ("dense",)
    assert "SIGSEGV" in comparison.verification.reason


def test_a_crash_while_building_applies_nothing(bench: Bench) -> None:
    bench.application.failed_build = Failed("build_error", "The process died with SIGSEGV while building the model.")
    outcome = bench.run()
    assert not outcome.comparison.applied
    assert "building the model" in outcome.comparison.verification.reason
    assert outcome.folder is None


def test_the_largest_differences_over_all_inputs_are_told(bench: Bench) -> None:
    bench.application.outputs[1] = OutputsCompared((agreement(seed=1, max_abs=3e-5, max_rel=4e-5),))
    verification = bench.run().comparison.verification
    assert (verification.verified, verification.max_abs_err, verification.max_rel_err) == (True, 3e-5, 4e-5)
    assert verification.kernels_checked == 2
    assert len(verification.differences) == 3


FLAT = OutputsCompared((agreement(),), kernels_checked=2, says_nothing="every element is the same")


def test_outputs_that_say_nothing_are_compared_with_random_weights_too(bench: Bench) -> None:
    bench.application.outputs = dict.fromkeys((0, 1, 2), FLAT)
    bench.application.with_random_weights = OutputsCompared((agreement(max_abs=3e-5),), kernels_checked=2)
    verification = bench.run().comparison.verification
    assert (verification.verified, verification.reason, verification.max_abs_err) == (True, "", 1e-6)
    assert verification.random_weights == "largest difference 3e-05; with the model's own weights every element is the same, which proves little"
    assert [entry for entry in bench.application.log if "random" in entry] == ["outputs 0 each random weights"]


def test_agreement_that_says_nothing_with_random_weights_either_is_told(bench: Bench) -> None:
    bench.application.outputs[0] = FLAT
    bench.application.with_random_weights = replace(FLAT, says_nothing="no output is finite")
    verification = bench.run().comparison.verification
    assert (verification.verified, verification.random_weights) == (True, "")
    assert verification.reason == "agreement proves little: every element is the same, and with random weights no output is finite"


@pytest.mark.parametrize(
    ("found", "faulty", "reason"),
    [
        (OutputsCompared((DIFFERS,), (replace(DIFFERS, kernel="dense"),), 2), ("dense",), "wrong result of kernel dense"),
        (Failed(RUN_ERROR, "The process died with SIGSEGV, running kernel dense."), ("dense",), "SIGSEGV"),
    ],
)
def test_what_is_wrong_with_random_weights_alone_applies_nothing(
    bench: Bench, found: OutputsCompared | Failed, faulty: tuple[str, ...], reason: str
) -> None:
    bench.application.outputs[0] = FLAT
    bench.application.with_random_weights = found
    comparison = bench.run().comparison
    assert not comparison.applied
    assert (comparison.verification.verified, comparison.verification.faulty) == (False, faulty)
    assert reason in comparison.verification.reason


def test_outputs_that_differ_already_need_no_random_weights(bench: Bench) -> None:
    bench.application.outputs = {0: replace(FLAT, outputs=(DIFFERS,)), 1: FLAT}
    assert bench.run().comparison.verification.verified is False
    assert not any("random" in entry for entry in bench.application.log)


def test_onnxruntime_is_asked_where_there_is_an_onnx_model(bench: Bench, tmp_path: Path) -> None:
    verification = bench.run().comparison.verification
    assert verification.onnxruntime == "not compared: the model is not of ONNX"
    verification = bench.run(onnx_model=tmp_path / "m.onnx").comparison.verification
    assert (verification.verified, verification.onnxruntime) == (True, "not compared: onnxruntime is not installed here")
    bench.application.onnxruntime = OutputsCompared((agreement(against="onnxruntime", max_abs=5e-6),))
    assert bench.run(onnx_model=tmp_path / "m.onnx").comparison.verification.onnxruntime == "largest difference 5e-06"


def test_a_model_that_differs_from_onnxruntime_is_not_applied_and_the_tuning_is_not_blamed(bench: Bench, tmp_path: Path) -> None:
    bench.application.onnxruntime = OutputsCompared((replace(DIFFERS, against="onnxruntime"),))
    comparison = bench.run(onnx_model=tmp_path / "m.onnx").comparison
    assert not comparison.applied
    assert "onnxruntime" in comparison.verification.reason
    assert "the tuning is not to blame" in comparison.verification.reason


def test_three_runs_choose_the_same_records(bench: Bench) -> None:
    bench.application.ratios["dense"] = 0.5
    runs = [[(kernel.kernel, kernel.used, kernel.trial) for kernel in bench.run().comparison.kernels] for _ in range(3)]
    assert runs[0] == [("conv2d", RECORD, WINNER), ("dense", BASELINE, None), ("softmax", BASELINE, None)]
    assert runs[0] == runs[1] == runs[2]


def test_what_the_progress_raises_ends_the_work(bench: Bench) -> None:
    def stop(phase: str, share: float) -> None:
        if phase.startswith("compare (round 2"):
            raise Interrupted("The work was stopped.")

    bench.on_progress = stop
    with pytest.raises(Interrupted):
        bench.run()


def test_models_that_run_and_cannot_be_timed_are_no_result(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeApplication, "time_round", lambda *_, **__: Failed(RUN_ERROR, "The process died with SIGBUS while timing both models."))
    with pytest.raises(InternalError, match="SIGBUS"):
        bench.run()


def test_the_number_of_rounds_follows_the_time_that_they_take(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("workbench.applying.applier.time.monotonic", lambda: now[0])

    def counted(seconds: float) -> int:
        original = FakeApplication.time_round

        def slow(self: FakeApplication, **options: Any) -> Round | Failed:
            now[0] += seconds
            return original(self, **options)

        with monkeypatch.context() as patch:
            patch.setattr(FakeApplication, "time_round", slow)
            return bench.run(rounds=None).comparison.rounds

    assert counted(0.01) == 30
    assert counted(0.5) == 13
    assert counted(10.0) == 3


# times


def test_a_time_that_the_cost_of_the_instrument_swallowed_divides_by_nothing() -> None:
    assert timing([0.0] * 5, [0.0] * 5, changed=True).verdict == NO_DIFFERENCE


def test_the_same_code_is_never_called_slower() -> None:
    found = timing([10.0] * 5, [12.0] * 5, changed=False)
    assert (found.verdict, found.baseline_us, found.tuned_us) == (UNCHANGED, 10.0, 12.0)


def test_without_rounds_nothing_was_measured() -> None:
    assert total_timing([], changed=True).verdict == UNMEASURED
    assert rows_timing([], [0], changed=True).baseline_us is None
    assert rows_timing([Round(((1.0,), (1.0,)), (1.0, 1.0))], [], changed=True).verdict == UNMEASURED


def test_a_kernel_of_several_rows_has_the_time_of_one_call() -> None:
    rounds = [Round(((10.0, 99.0, 30.0), (5.0, 99.0, 15.0)), (1.0, 1.0))] * 5
    found = rows_timing(rounds, [0, 2], changed=True)
    assert (found.baseline_us, found.tuned_us, found.ratio) == (20.0, 10.0, 2.0)
