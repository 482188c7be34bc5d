"""The owner's side of an application on old TVM: asks the process that builds and runs both models, and replaces one that crashed."""

from __future__ import annotations

import platform
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from workbench.analysis.tolerance import tolerance
from workbench.engines.apply_protocol import AppliedSchedule, OutputsCompared, RecordedSchedule, Round
from workbench.engines.arrays import Array
from workbench.engines.differences import UNTUNED, model_tolerance, output_name, overflow, tensor_difference, why_it_says_nothing
from workbench.engines.protocol import Progress
from workbench.engines.reference import KernelFacts
from workbench.engines.relay.children import START_S
from workbench.engines.relay.interpreter import ChildCrashed, ChildFault, ChildTimeout, Interpreter, Reply
from workbench.engines.relay.package import write_package
from workbench.engines.relay.traces import fingerprint
from workbench.engines.search_protocol import Candidate, Evaluator, Failed
from workbench.engines.single_kernels import SingleKernels
from workbench.errors import EnvironmentFault, InputError, InternalError
from workbench.escaping import plain
from workbench.isolation import JobError, JobTimeout, Message, Nursery, ProcessDied
from workbench.records.comparison import Difference
from workbench.records.decode import decode
from workbench.records.target import TargetSpec
from workbench.records.trial import BUILD_ERROR, BUILD_TIMEOUT, REJECTED, RUN_ERROR, RUN_TIMEOUT, Check

_ANNOUNCED = "running kernel "
_ONNX = "workbench.engines.onnx_reference"
_BUILD_LIMIT_S = 3600.0
_RUN_LIMIT_S = 120.0
_PATIENCE = 30.0  # a run may take so many times what the untuned model took in the profile

Program = Callable[[str, str], bytes]
"""What the evaluator builds for a kernel with a trace, which is empty for the untuned kernel."""


class RelayApplication:
    """Implements `workbench.engines.apply_protocol.Application`.

    Args:
        child: The process of the old Python for both models, not started yet; `close` closes it.
        program: The directory of the lowered model.
        target: What it was lowered for.
        scratch: Where libraries go.
        evaluator: Checks single kernels; `close` closes it too.
        programs: Makes what the evaluator builds.
        facts: What is known of each kernel.
        calls: Kernels in execution order.
        seed: Seed of the inputs that models are timed on.
        device: Index of the device.
        expected_s: Time that a run of the untuned model takes; decides how long one may take at most.
        version: Of the old TVM.
        on_progress: Told what is done; what it raises ends the work.
    """

    def __init__(
        self,
        child: Interpreter,
        *,
        program: Path,
        target: TargetSpec,
        scratch: Path,
        evaluator: Evaluator,
        programs: Program,
        facts: Callable[[str], KernelFacts],
        calls: Sequence[str],
        seed: int,
        device: int,
        expected_s: float,
        version: str,
        on_progress: Progress,
    ) -> None:
        self.unrunnable = evaluator.unmeasurable
        self._child = child
        self._program = program
        self._target = target
        self._scratch = scratch
        self._programs = programs
        self._alone = SingleKernels(evaluator, self._candidate, on_progress)
        self._facts = facts
        self._calls = tuple(calls)
        self._seed = seed
        self._device = device
        self._expected_s = expected_s
        self._version = version
        self._on_progress = on_progress

    @property
    def pid(self) -> int | None:
        """Number of the process of both models; None while there is none."""
        return self._child.pid

    def check(self, kernel: str, schedule: RecordedSchedule) -> Check | Failed:
        """Build and check one kernel alone."""
        return self._alone.check(kernel, schedule)

    def time_alone(self, kernel: str, schedule: RecordedSchedule | None, *, rounds: int) -> tuple[tuple[float, ...], ...] | Failed:
        """Time a kernel alone beside its untuned form."""
        return self._alone.time_alone(kernel, schedule, rounds=rounds)

    def build(self, schedules: Mapping[str, RecordedSchedule], directory: Path) -> dict[str, AppliedSchedule] | Failed:
        """Build both models in the process."""
        names = sorted(schedules)
        unfit = next((f"{name}: {why}" for name in names if (why := _unfit(schedules[name]))), "")
        if unfit:
            return Failed(REJECTED, unfit)
        asked = {"kernels": names, "folder": str(directory), "scratch": str(self._scratch), "device": self._device}
        traces = tuple(schedules[name].trace.encode() for name in names)
        limit_s = _BUILD_LIMIT_S
        answer = self._ask("applying.build", asked, traces, limit_s, "build", doing="building the model", died=BUILD_ERROR, late=BUILD_TIMEOUT)
        if isinstance(answer, Failed):
            return answer
        try:
            write_package(directory, schedules, answer.value["inputs"], self._target, threads=self._child.threads, version=self._version)
        except OSError as error:
            raise EnvironmentFault(f"{plain(str(directory), 120)} cannot be written: {plain(str(error), 120)}.", "Free some space.") from error
        return {name: AppliedSchedule(schedules[name].fingerprint, ("", ""), ()) for name in answer.value["applied"]}

    def compare_outputs(self, seed: int, *, each_kernel: bool, random_weights: bool) -> OutputsCompared | Failed:
        """Run both models in the process, and compare here."""
        asked = {"seed": seed, "each_kernel": each_kernel, "random_weights": random_weights}
        on_what = f"{'random weights and ' if random_weights else ''}inputs of seed {seed}"
        answer = self._run("outputs", asked, runs=4, phase=f"verify: {on_what}", doing=f"running both models on {on_what}")
        if isinstance(answer, Failed):
            return answer
        pairs = _pairs(answer.blobs)
        ends = [next(pairs) for _ in range(answer.value["outputs"])]
        if random_weights and (why := overflow([expected for _, expected in ends])):
            return OutputsCompared((), says_nothing=why)
        allowed = self._tolerance()
        outputs = tuple(
            tensor_difference(found, expected, allowed, place=output_name(place, random_weights=random_weights), against=UNTUNED, seed=seed)
            for place, (found, expected) in enumerate(ends)
        )
        wrong: list[Difference] = []
        for row, kernel, count in answer.value["calls"]:
            for place in range(count):
                found, expected = next(pairs)
                own = tolerance(str(expected.dtype), self._facts(kernel).reduction)
                name = output_name(place, random_weights=random_weights)
                item = tensor_difference(found, expected, own, place=name, against=UNTUNED, seed=seed, kernel=kernel, row=row)
                wrong.extend([] if item.passed else [item])
        return OutputsCompared(outputs, tuple(wrong), len(answer.value["calls"]), why_it_says_nothing([expected for _, expected in ends]))

    def compare_with_onnxruntime(self, model: Path, seed: int) -> OutputsCompared | Failed | str:
        """Run the model with schedules in the process, and onnxruntime in another one."""
        answer = self._run("tuned_outputs", {"seed": seed}, runs=4, phase="verify: onnxruntime", doing="running the model with schedules")
        if isinstance(answer, Failed):
            return answer
        arrays = self._scratch / "onnxruntime.npz"
        np.savez(arrays, *(array for array in answer.blobs if isinstance(array, np.ndarray)))
        allowed = self._tolerance()
        asked = {"model": str(model), "arrays": str(arrays), "inputs": answer.value, "seed": seed, **vars(allowed)}
        limit_s = _RUN_LIMIT_S + _PATIENCE * self._expected_s
        try:
            with Nursery((_ONNX,)) as nursery:
                found = nursery.start(f"{_ONNX}:serve").call(Message(asked), limit_s).values
        except (JobError, ProcessDied, JobTimeout) as error:
            return Failed(RUN_ERROR, f"onnxruntime failed on the source model: {plain(str(error), 400)}")
        return str(found["why_not"]) if "why_not" in found else decode(OutputsCompared, found)

    def time_round(self, *, runs: int, tuned_first: bool) -> Round | Failed:
        """Time both models in the process."""
        asked = {"seed": self._seed, "runs": runs, "tuned_first": tuned_first}
        answer = self._run("time_both", asked, runs=4 * runs + 8, phase="compare", doing="timing both models")
        if isinstance(answer, Failed):
            return answer
        calls, totals = answer.value["calls_us"], answer.value["total_us"]
        return Round((tuple(map(float, calls[0])), tuple(map(float, calls[1]))), (float(totals[0]), float(totals[1])))

    def close(self) -> None:
        """End all processes."""
        self._child.close()
        self._alone.close()

    def _candidate(self, kernel: str, schedule: RecordedSchedule) -> Candidate | Failed:
        unfit = _unfit(schedule)
        if unfit:
            return Failed(REJECTED, unfit)
        return Candidate(schedule.trace, schedule.fingerprint, "search", self._programs(kernel, schedule.trace))

    def _tolerance(self) -> Any:
        """How far an output of the model may differ."""
        known = {name: self._facts(name) for name in dict.fromkeys(self._calls)}
        dtypes = [dtype for facts in known.values() for _, dtype in facts.tensors[len(facts.tensors) - facts.results :] if "float" in dtype]
        return model_tolerance(dtypes, sum(known[name].reduction for name in self._calls))

    def _run(self, name: str, asked: Mapping[str, Any], *, runs: int, phase: str, doing: str) -> Reply | Failed:
        limit_s = _RUN_LIMIT_S + _PATIENCE * runs * self._expected_s
        return self._ask(f"model_runs.{name}", asked, (), limit_s, phase, doing=doing, died=RUN_ERROR, late=RUN_TIMEOUT)

    def _ask(
        self, name: str, asked: Mapping[str, Any], blobs: Sequence[bytes], limit_s: float, phase: str, *, doing: str, died: str, late: str
    ) -> Reply | Failed:
        """Ask the process, a new one after a crash; a crash, a hang and an error in it are values.

        Raises:
            WorkbenchError: What a user can act on, apart from a schedule that does not fit.
        """
        started = time.perf_counter()
        try:
            if not self._child.alive:
                self._open(phase)
            self._on_progress(phase, 0.0)
            return self._child.call(
                name, asked, blobs, timeout_s=limit_s, on_progress=lambda what, share: self._on_progress(f"{phase}: {what}", share)
            )
        except ChildTimeout as error:
            return Failed(late, f"The process was ended: {doing} took more than {limit_s:g} s{_kernel(error)}.", limit_s)
        except ChildCrashed as error:
            how = error.message.replace("The old Python", "The process", 1).rstrip(".")
            return Failed(died, f"{how} while {doing}{_kernel(error)}. {error.last_words}".strip(), time.perf_counter() - started)
        except InputError as error:
            return Failed(REJECTED, str(error), time.perf_counter() - started)
        except InternalError as error:
            notes = "\n".join(getattr(error, "__notes__", ()))
            return Failed(died, f"TVM failed while {doing}: {error.message}\n{notes}".strip(), time.perf_counter() - started)

    def _open(self, phase: str) -> None:
        """Start the process, and have it load the program."""
        self._on_progress(phase, 0.0)
        self._child.call("targets.take", {"config": self._target.options, "machine": platform.machine()}, timeout_s=START_S)
        self._child.call("files.load", {"folder": str(self._program)}, timeout_s=START_S)


def _unfit(schedule: RecordedSchedule) -> str:
    """Why a schedule cannot be that of its trial; empty if nothing speaks against it."""
    if not schedule.trace:
        return ""
    try:
        found = fingerprint(schedule.trace)
    except InputError as error:
        return error.message
    return "" if found == schedule.fingerprint else "The recorded schedule is not the one that was measured."


def _pairs(arrays: Sequence[Any]) -> Iterator[tuple[Array, Array]]:
    return zip(arrays[::2], arrays[1::2], strict=True)


def _kernel(error: ChildFault) -> str:
    """Which kernel ran when a process ended, to be added to a sentence; empty if that is not known."""
    announced = [line for line in error.last_words.splitlines() if line.startswith(_ANNOUNCED)]
    return f", {announced[-1]}" if announced else ""
