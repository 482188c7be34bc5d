"""The owner's side of an application: what the process that builds and runs both models is asked, and what its answers mean."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workbench.engines.apply_protocol import AppliedSchedule, OutputsCompared, RecordedSchedule, Round
from workbench.engines.protocol import Progress
from workbench.engines.relax.applying.model_process import OPEN_LIMIT_S, ModelProcess
from workbench.engines.search_protocol import Candidate, Evaluator, Failed
from workbench.engines.single_kernels import SingleKernels
from workbench.isolation import Message, Nursery
from workbench.records.decode import decode
from workbench.records.target import TargetSpec
from workbench.records.trial import BUILD_ERROR, BUILD_TIMEOUT, REJECTED, RUN_ERROR, RUN_TIMEOUT, Check

_BUILD_LIMIT_S = 3600.0
_RUN_LIMIT_S = 120.0
_PATIENCE = 30.0  # a run may take so many times what the untuned model took in the profile


class RelaxApplication:
    """Implements `workbench.engines.apply_protocol.Application`.

    Args:
        program: The directory of the lowered model.
        target: What it was lowered for.
        scratch: Where libraries go.
        evaluator: Checks single kernels; `close` closes it too.
        nursery: Starts the process.
        seed: Seed of the inputs that models are timed on.
        trust: True allows schedules, and a model, that bring code of their own.
        device: Index of the device.
        expected_s: Time that a run of the untuned model takes; decides how long one may take at most.
        on_progress: Told what is done; what it raises ends the work.
        owns_nursery: True has `close` close the nursery too.
    """

    def __init__(
        self,
        *,
        program: Path,
        target: TargetSpec,
        scratch: Path,
        evaluator: Evaluator,
        nursery: Nursery,
        seed: int,
        trust: bool,
        device: int,
        expected_s: float,
        on_progress: Progress,
        owns_nursery: bool,
    ) -> None:
        self.unrunnable = evaluator.unmeasurable
        opening = {"program": str(program), "target": target.to_dict(), "scratch": str(scratch), "seed": seed, "trust": trust, "device": device}
        self._models = ModelProcess(nursery, opening, on_progress)
        self._reference = ModelProcess(nursery, opening, on_progress)  # for onnxruntime: if that crashes, the built models stay
        self._alone = SingleKernels(evaluator, self._replayed, on_progress)
        self._nursery = nursery
        self._expected_s = expected_s
        self._owns_nursery = owns_nursery

    @property
    def pid(self) -> int | None:
        """Number of the process of both models; None while there is none."""
        return self._models.pid

    def check(self, kernel: str, schedule: RecordedSchedule) -> Check | Failed:
        """Replay, build and check one kernel alone."""
        return self._alone.check(kernel, schedule)

    def time_alone(self, kernel: str, schedule: RecordedSchedule | None, *, rounds: int) -> tuple[tuple[float, ...], ...] | Failed:
        """Time a kernel alone beside its untuned form."""
        return self._alone.time_alone(kernel, schedule, rounds=rounds)

    def _replayed(self, kernel: str, schedule: RecordedSchedule) -> Candidate | Failed:
        question = Message({"do": "replay", "kernel": kernel, "fingerprint": schedule.fingerprint}, (schedule.trace.encode("utf-8", "replace"),))
        doing = f"replaying the schedule of {kernel}"
        answer = self._models.ask(question, OPEN_LIMIT_S, f"check: {kernel}", doing=doing, died=REJECTED, late=REJECTED)
        if isinstance(answer, Failed):
            return answer
        return Candidate(schedule.trace, str(answer.values["fingerprint"]), "search", answer.blobs[0])

    def build(self, schedules: Mapping[str, RecordedSchedule], directory: Path) -> dict[str, AppliedSchedule] | Failed:
        """Build both models in the process."""
        names = sorted(schedules)
        blobs = tuple(schedules[name].trace.encode("utf-8", "replace") for name in names)
        fingerprints = [schedules[name].fingerprint for name in names]
        question = Message({"do": "build", "kernels": names, "fingerprints": fingerprints, "folder": str(directory)}, blobs)
        answer = self._models.ask(question, _BUILD_LIMIT_S, "build", doing="building the model", died=BUILD_ERROR, late=BUILD_TIMEOUT)
        if isinstance(answer, Failed):
            return answer
        return {name: _applied(item) for name, item in answer.values["applied"].items()}

    def compare_outputs(self, seed: int, *, each_kernel: bool, random_weights: bool) -> OutputsCompared | Failed:
        """Run both models in the process."""
        question = Message({"do": "outputs", "seed": seed, "each_kernel": each_kernel, "random_weights": random_weights})
        on_what = f"{'random weights and ' if random_weights else ''}inputs of seed {seed}"
        answer = self._run(question, runs=4, phase=f"verify: {on_what}", doing=f"running both models on {on_what}")
        return answer if isinstance(answer, Failed) else decode(OutputsCompared, answer.values)

    def compare_with_onnxruntime(self, model: Path, seed: int) -> OutputsCompared | Failed | str:
        """Run onnxruntime in a process of its own, and then the model with schedules."""
        phase, doing = "verify: onnxruntime", "running onnxruntime"
        question = Message({"do": "onnxruntime", "model": str(model), "seed": seed})
        expected = self._reference.ask(question, self._limit_s(4), phase, doing=doing, died=RUN_ERROR, late=RUN_TIMEOUT)
        self._reference.close()
        if isinstance(expected, Failed):
            return expected
        if "why_not" in expected.values:
            return str(expected.values["why_not"])
        answer = self._run(Message({"do": "beside", "seed": seed}, expected.blobs), runs=4, phase=phase, doing="running the model with schedules")
        if isinstance(answer, Failed):
            return answer
        return str(answer.values["why_not"]) if "why_not" in answer.values else decode(OutputsCompared, answer.values)

    def time_round(self, *, runs: int, tuned_first: bool) -> Round | Failed:
        """Time both models in the process."""
        question = Message({"do": "round", "runs": runs, "tuned_first": tuned_first})
        answer = self._run(question, runs=4 * runs + 8, phase="compare", doing="timing both models")
        if isinstance(answer, Failed):
            return answer
        calls, totals = answer.values["calls_us"], answer.values["total_us"]
        return Round((tuple(calls[0]), tuple(calls[1])), (float(totals[0]), float(totals[1])))

    def close(self) -> None:
        """End all processes."""
        self._models.close()
        self._reference.close()
        self._alone.close()
        if self._owns_nursery:
            self._nursery.close()

    def _run(self, question: Message, *, runs: int, phase: str, doing: str) -> Message | Failed:
        return self._models.ask(question, self._limit_s(runs), phase, doing=doing, died=RUN_ERROR, late=RUN_TIMEOUT)

    def _limit_s(self, runs: int) -> float:
        """How long so many runs of the untuned model may take."""
        return _RUN_LIMIT_S + _PATIENCE * runs * self._expected_s


def _applied(values: Mapping[str, Any]) -> AppliedSchedule:
    structural_hash, module = values["workload"]
    return AppliedSchedule(str(values["fingerprint"]), (str(structural_hash), str(module)), tuple(values["arguments"]))
