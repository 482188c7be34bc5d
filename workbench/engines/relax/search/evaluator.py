"""Builds candidates in a pool of kept processes and measures them in one isolated process of the device."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import psutil

from workbench.engines.candidate_faults import check_scratch, overwritten_inputs, run_failure
from workbench.engines.reference import KernelFacts
from workbench.engines.relax.search.processes import BUILD_ENTRY, MEASURE_ENTRY, new_nursery
from workbench.engines.search_protocol import Artifact, Candidate, Failed, Measured
from workbench.errors import Interrupted
from workbench.isolation import IsolatedProcess, JobError, JobTimeout, Message, Nursery, Pool, ProcessDied
from workbench.records.decode import decode
from workbench.records.target import TargetSpec
from workbench.records.trial import BUILD_ERROR, BUILD_TIMEOUT, RUN_ERROR, RUN_TIMEOUT, Check, MeasureOptions

_LEAST_MEMORY_BYTES = 2 * 2**30
_RUNS_OF_A_TRIAL = 12
_REFERENCE_PATIENCE = 12.0
_COMPARE_PATIENCE = 3.0
_CLOSE_POLL_S = 0.02
_STOPPED = "The measurement was stopped."

_Answer = tuple[int, Message | JobError | ProcessDied | JobTimeout, float]


class RelaxEvaluator:
    """Implements `workbench.engines.search_protocol.Evaluator`.

    Args:
        target: What candidates are built for.
        facts: What is known of each task's kernel, by the name that the caller gives to `set_reference`.
        options: How to measure.
        scratch: Where built libraries go.
        builders: Processes that build.
        seed: Seed of the random inputs.
        unmeasurable: Why nothing can be measured here; empty if it can.
        host: This machine's processor, to check candidates on if the target's device is not here.
        memory_bytes: What each process may take; None for half of what is free.
        nursery: One that is shared, and that others close; None makes one that ends with this evaluator.
    """

    def __init__(
        self,
        target: TargetSpec,
        facts: Callable[[str], KernelFacts],
        *,
        options: MeasureOptions,
        scratch: Path,
        builders: int,
        seed: int,
        unmeasurable: str,
        host: TargetSpec,
        memory_bytes: int | None = None,
        nursery: Nursery | None = None,
    ) -> None:
        self._target = target
        self._facts = facts
        self._options = options
        self._scratch = scratch
        self._seed = seed
        self._built = 0
        self._references: dict[str, Artifact] = {}
        self._reference_s: dict[str, float] = {}  # of the kernels that the measuring process knows
        self._process: IsolatedProcess | None = None
        self._closed = False
        self._measuring = threading.RLock()  # held while the measuring process is in use
        self._building = threading.RLock()  # held while the pool is in use
        self._for_cpu = bool(unmeasurable)  # then candidates can be checked, in a form for the processor
        self._host = host
        self._device_kind = "cpu" if target.kind == "llvm" or self._for_cpu else target.kind
        self.exclusive = self._device_kind == "cpu"
        self.unmeasurable = unmeasurable
        self._memory_bytes = memory_bytes or max(psutil.virtual_memory().available // 2, _LEAST_MEMORY_BYTES)
        self._nursery = nursery or new_nursery()
        self._owns_nursery = nursery is None
        # What a builder that is killed leaves behind lies in the scratch folder too, and goes with it.
        environment = {"TMPDIR": str(scratch.absolute())}
        self._pool = Pool(self._nursery, BUILD_ENTRY, size=builders, memory_limit_bytes=self._memory_bytes, environment=environment)

    def build(
        self, candidates: Sequence[Candidate], *, stop: Callable[[], bool], limit_s: float | None = None
    ) -> Iterator[tuple[int, Artifact | Failed]]:
        """Build candidates in the pool."""
        timeout_s = min(self._options.build_timeout_s, limit_s or self._options.build_timeout_s)
        paths = [self._scratch / f"{self._built + place}.so" for place in range(len(candidates))]
        self._built += len(candidates)
        jobs = [(place, self._job(candidate, paths[place])) for place, candidate in enumerate(candidates)]
        run = self._pool.run(jobs, timeout_s=timeout_s, stop=lambda: self._closed or stop())
        answers = cast("Generator[_Answer]", run)
        try:
            while (answer := self._next(answers)) is not None:
                place, outcome, seconds = answer
                built = _built(outcome, paths[place], seconds, limit_s=timeout_s)
                if isinstance(built, Failed):
                    check_scratch(self._scratch)
                yield place, built
        finally:
            with self._building:
                answers.close()

    def _next(self, answers: Iterator[_Answer]) -> _Answer | None:
        with self._building:
            return next(answers, None)

    def _job(self, candidate: Candidate, path: Path) -> Message:
        programs = (candidate.program, candidate.cpu_program) if self._for_cpu and candidate.cpu_program else (candidate.program,)
        values = {"target": self._target.to_dict(), "path": str(path), "for_cpu": self._for_cpu}
        return Message({**values, "host": self._host.to_dict()} if self._for_cpu else values, programs)

    def set_reference(self, kernel: str, artifact: Artifact) -> None:
        """Keep the baseline; the measuring process runs it when it needs its outputs."""
        self._references[kernel] = artifact
        self._reference_s.pop(kernel, None)

    def measure(self, kernel: str, artifact: Artifact, *, best_us: float | None, check: bool, timed: bool = True) -> Measured | Failed:
        """Check and time one candidate in the measuring process."""
        if artifact.unchecked:
            return Measured((), 0, None, 0.0)
        question = {"do": "measure", "path": str(artifact.path), "best_us": best_us, "check": check, "timed": timed}
        with self._measuring:
            answer = self._ask(kernel, question)
            if not isinstance(answer, Failed) and answer["in_doubt"]:  # an earlier candidate may have spoilt what this one was run on
                self._end_process()
                answer = self._ask(kernel, question)
            if isinstance(answer, Failed):
                if not artifact.path.exists():
                    check_scratch(self._scratch)
                return answer
            if answer["overwritten"]:
                self._end_process()
                return overwritten_inputs(answer["overwritten"], float(answer["run_s"]))
            return _measured(answer)

    def compare(self, kernel: str, artifacts: Sequence[Artifact], *, rounds: int) -> list[list[float]] | Failed:
        """Time artifacts by turns in the measuring process."""
        paths = [str(artifact.path) for artifact in artifacts]
        probe = self._ask(kernel, {"do": "probe", "paths": paths, "rounds": rounds}, patience=len(paths))
        if isinstance(probe, Failed):
            return probe
        planned = zip(probe["rounds"], probe["numbers"], probe["times_us"], strict=True)
        runs_s = sum(turns * (number + 1) * time_us / 1e6 for turns, number, time_us in planned)
        question = {"do": "compare", "paths": paths, "rounds": probe["rounds"], "numbers": probe["numbers"], "expected_us": probe["times_us"]}
        answer = self._ask(kernel, question, patience=len(paths), extra_s=_COMPARE_PATIENCE * runs_s)
        return answer if isinstance(answer, Failed) else [list(map(float, times)) for times in answer["times_us"]]

    def close(self) -> None:
        """End all processes; what is measured or built in other threads ends at once."""
        self._closed = True
        killed: IsolatedProcess | None = None
        while not self._measuring.acquire(timeout=_CLOSE_POLL_S):
            process = self._process
            if process is not None and process is not killed:  # its owner, the thread that waits for it, sees it die
                killed = process
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGKILL)
        try:
            with self._building:
                self._pool.close()
            self._end_process()
            if self._owns_nursery:
                self._nursery.close()
        finally:
            self._measuring.release()

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process = None

    def _ask(self, kernel: str, question: dict[str, Any], *, patience: int = 1, extra_s: float = 0.0) -> dict[str, Any] | Failed:
        """Ask about a kernel; the limit grows with the time that its untuned form takes."""
        with self._measuring:
            failed = self._prepare(kernel)
            if failed is not None:
                return failed
            limit_s = patience * (self._options.timeout_s + _RUNS_OF_A_TRIAL * self._reference_s[kernel]) + self._options.cooldown_ms / 1e3 + extra_s
            return self._send({**question, "kernel": kernel, "options": self._options.to_dict()}, limit_s)

    def _prepare(self, kernel: str) -> Failed | None:
        """Have the measuring process, perhaps a new one, know the kernel's reference."""
        if self._closed:
            raise Interrupted(_STOPPED)
        if self._process is None or not self._process.alive:
            self._reference_s.clear()
            self._process = self._nursery.start(MEASURE_ENTRY, memory_limit_bytes=self._memory_bytes)
        if kernel in self._reference_s:
            return None
        facts = self._facts(kernel)
        question = {
            "do": "reference",
            "kernel": kernel,
            "path": str(self._references[kernel].path),
            "tensors": [{"shape": list(shape), "dtype": dtype} for shape, dtype in facts.tensors],
            "results": facts.results,
            "reduction": facts.reduction,
            "seed": self._seed,
        }
        answer = self._send(question, _REFERENCE_PATIENCE * self._options.timeout_s)
        if isinstance(answer, Failed):
            return Failed(answer.status, f"The untuned kernel does not run: {answer.error}", answer.seconds)
        self._reference_s[kernel] = float(answer["run_s"])
        for forgotten in answer["forgotten"]:
            self._reference_s.pop(forgotten, None)
        return None

    def _send(self, question: dict[str, Any], limit_s: float) -> dict[str, Any] | Failed:
        """Ask the measuring process; one that dies or hangs is replaced at the next question."""
        process = self._process
        if process is None:
            raise RuntimeError("there is no measuring process")
        started = time.perf_counter()
        try:
            values = {**question, "device_kind": self._device_kind, "device": 0 if self._for_cpu else self._options.device}
            return dict(process.call(Message(values), limit_s).values)
        except JobError as error:
            if self._device_kind != "cpu":
                process.kill()  # an error of the device sticks to the process that met it
            return Failed(run_failure(error.text), error.text, time.perf_counter() - started)
        except JobTimeout:
            return Failed(RUN_TIMEOUT, f"The kernel did not end within {limit_s:.3g} s.", limit_s)
        except ProcessDied as error:
            if self._closed:
                raise Interrupted(_STOPPED) from error
            return Failed(RUN_ERROR, f"The measuring process {error.cause}. {error.last_words}".strip(), time.perf_counter() - started)


def _built(outcome: Message | JobError | ProcessDied | JobTimeout, path: Path, seconds: float, *, limit_s: float) -> Artifact | Failed:
    if isinstance(outcome, Message):
        return Artifact(path, float(outcome.values["build_s"]), str(outcome.values.get("unchecked", "")))
    path.unlink(missing_ok=True)
    path.with_suffix(".o").unlink(missing_ok=True)
    if isinstance(outcome, JobTimeout):
        return Failed(BUILD_TIMEOUT, f"Building took more than {limit_s:.3g} s.", seconds)
    if isinstance(outcome, ProcessDied):
        return Failed(BUILD_ERROR, f"The building process {outcome.cause}. {outcome.last_words}".strip(), seconds)
    return Failed(BUILD_ERROR, outcome.text, seconds)


def _measured(answer: dict[str, Any]) -> Measured | Failed:
    check = None if answer["check"] is None else decode(Check, answer["check"])
    seconds = float(answer["run_s"])
    if check is not None and not check.passed:
        return Measured((), 0, check, seconds)
    return Measured(tuple(map(float, answer["times_us"])), int(answer["runs"]), check, seconds)
