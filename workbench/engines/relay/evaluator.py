"""Builds candidates in several processes of the old Python, and measures them in one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from workbench.engines.candidate_faults import check_scratch, overwritten_inputs, run_failure
from workbench.engines.reference import KernelFacts
from workbench.engines.relay.bench import Bench, Taken
from workbench.engines.relay.children import Crew, make_ready, memory_bound
from workbench.engines.relay.interpreter import ChildCrashed, ChildFault, ChildTimeout, Interpreter
from workbench.engines.search_protocol import Artifact, Candidate, Failed, Measured
from workbench.errors import InputError, InternalError, Interrupted, WorkbenchError
from workbench.records.target import TargetSpec
from workbench.records.trial import (
    BUILD_ERROR,
    BUILD_TIMEOUT,
    REJECTED,
    RUN_ERROR,
    RUN_TIMEOUT,
    MeasureOptions,
)

Result = TypeVar("Result")

_CLOSE_POLL_S = 0.02
_STOPPED = "The measurement was stopped."


@dataclass(frozen=True)
class _Job:
    program: bytes
    path: Path
    limit_s: float


class RelayEvaluator:
    """Implements `workbench.engines.search_protocol.Evaluator`.

    Args:
        make_child: Makes a process of the old Python, not started yet.
        target: What candidates are built for; one for a processor is one that is here.
        facts: What is known of each task's kernel.
        options: How to measure.
        scratch: Where built libraries go.
        builders: Processes that build.
        seed: Seed of the random inputs.
        unmeasurable: Why nothing can be measured here; empty if it can.
    """

    def __init__(
        self,
        make_child: Callable[[], Interpreter],
        target: TargetSpec,
        facts: Callable[[str], KernelFacts],
        *,
        options: MeasureOptions,
        scratch: Path,
        builders: int,
        seed: int,
        unmeasurable: str,
    ) -> None:
        self._target = target
        self._facts = facts
        self._options = options
        self._scratch = scratch
        self._built = 0
        self._baselines: dict[str, Artifact] = {}
        self._closed = False
        self._memory_bytes = memory_bound()
        self._builders: Crew[_Job, Artifact | Failed] = Crew(make_child, builders, self._build)
        self._measurer = make_child()
        device = ("cpu" if target.kind == "llvm" else target.kind, options.device)
        self._bench = Bench(self._measurer, device, options=options, seed=seed, memory_bytes=self._memory_bytes)
        self._measuring = threading.RLock()  # held while the measuring process is in use
        self.exclusive = target.kind == "llvm"
        self.unmeasurable = unmeasurable

    def build(
        self, candidates: Sequence[Candidate], *, stop: Callable[[], bool], limit_s: float | None = None
    ) -> Iterator[tuple[int, Artifact | Failed]]:
        """Build candidates, as many at once as there are processes for it."""
        if self._closed:
            return
        timeout_s = min(self._options.build_timeout_s, limit_s or self._options.build_timeout_s)
        jobs = [_Job(candidate.program, self._scratch / f"{self._built + place}.so", timeout_s) for place, candidate in enumerate(candidates)]
        self._built += len(jobs)
        for place, built in self._builders.run(jobs, stop=lambda: self._closed or stop()):
            if isinstance(built, Failed):
                jobs[place].path.unlink(missing_ok=True)
                check_scratch(self._scratch)
            yield place, built

    def set_reference(self, kernel: str, artifact: Artifact) -> None:
        """Keep the baseline; it is run when its outputs are needed."""
        self._baselines[kernel] = artifact
        self._bench.forget(kernel)

    def measure(self, kernel: str, artifact: Artifact, *, best_us: float | None, check: bool, timed: bool = True) -> Measured | Failed:
        """Check and time one candidate in the measuring process."""
        if artifact.unchecked:
            return Measured((), 0, None, 0.0)
        started = time.perf_counter()
        baseline = str(self._baselines[kernel].path)

        def work() -> Taken:
            return self._bench.measure(kernel, str(artifact.path), baseline, best_us=best_us, check=check, timed=timed)

        with self._measuring:
            taken = self._attempt(kernel, work)
            if isinstance(taken, Taken) and taken.in_doubt:  # an earlier candidate may have spoilt what this one was run on
                self._measurer.close()
                taken = self._attempt(kernel, work)
            if isinstance(taken, Failed):
                if not artifact.path.exists():
                    check_scratch(self._scratch)
                return taken
            run_s = time.perf_counter() - started
            if taken.overwritten:
                self._measurer.close()
                return overwritten_inputs(taken.overwritten, run_s)
            is_wrong = taken.check is not None and not taken.check.passed
            return Measured(() if is_wrong else taken.times_us, 0 if is_wrong else taken.runs, taken.check, run_s)

    def compare(self, kernel: str, artifacts: Sequence[Artifact], *, rounds: int) -> list[list[float]] | Failed:
        """Time artifacts by turns in the measuring process."""
        paths = [str(artifact.path) for artifact in artifacts]
        with self._measuring:
            return self._attempt(kernel, lambda: self._bench.compare(kernel, paths, rounds=rounds))

    def close(self) -> None:
        """End all processes; what is measured or built in other threads ends at once."""
        self._closed = True
        while not self._measuring.acquire(timeout=_CLOSE_POLL_S):
            self._measurer.kill()  # its owner, the thread that waits for it, sees it die
        try:
            self._measurer.close()
            self._builders.close()
        finally:
            self._measuring.release()

    def _build(self, child: Interpreter, job: _Job) -> Artifact | Failed:
        make_ready(child, self._memory_bytes)
        started = time.perf_counter()
        try:
            values = {"path": str(job.path), "target": self._target.options}
            built = child.call("building.build", values, (job.program,), timeout_s=job.limit_s)
        except ChildTimeout:
            return Failed(BUILD_TIMEOUT, f"Building took more than {job.limit_s:.3g} s.", job.limit_s)
        except ChildCrashed as error:
            return Failed(BUILD_ERROR, _told("The building process", error), time.perf_counter() - started)
        except InputError as error:
            return Failed(REJECTED, f"{error.message}\n{_full(error)}", time.perf_counter() - started)
        except InternalError as error:
            return Failed(BUILD_ERROR, _full(error), time.perf_counter() - started)
        return Artifact(job.path, float(built.value["build_s"]), "" if self._target.kind == "llvm" else self.unmeasurable)

    def _attempt(self, kernel: str, work: Callable[[], Result]) -> Result | Failed:
        """Do something in the measuring process, once it knows the kernel; a process that dies or hangs is replaced at the next attempt."""
        if self._closed:
            raise Interrupted(_STOPPED)
        started = time.perf_counter()
        subject = "The untuned kernel does not run: the measuring process"
        try:
            self._bench.prepare(kernel, str(self._baselines[kernel].path), self._facts(kernel))
            subject = "The measuring process"
            return work()
        except ChildTimeout:
            if self._closed:
                raise Interrupted(_STOPPED) from None
            seconds = time.perf_counter() - started
            what = "The untuned kernel" if "untuned" in subject else "The kernel"
            return Failed(RUN_TIMEOUT, f"{what} did not end within {seconds:.3g} s.", seconds)
        except ChildCrashed as error:
            if self._closed:
                raise Interrupted(_STOPPED) from error
            return Failed(RUN_ERROR, _told(subject, error), time.perf_counter() - started)
        except InternalError as error:
            text = _full(error)
            if not self.exclusive:
                self._measurer.close()  # an error of the device sticks to the process that met it
            told = f"The untuned kernel does not run: {text}" if "untuned" in subject else text
            return Failed(run_failure(text), told, time.perf_counter() - started)


def _told(subject: str, error: ChildFault) -> str:
    """How a process ended, with the end of what it printed."""
    return f"{error.message.replace('The old Python', subject, 1)} {error.last_words}".strip()


def _full(error: WorkbenchError) -> str:
    """The whole text of what TVM raised."""
    return "\n".join(getattr(error, "__notes__", ())) or error.message
