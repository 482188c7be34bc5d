"""Kernels of an application alone, outside of the model: each with a schedule checked and timed beside its untuned form, whatever the engine."""

from __future__ import annotations

from collections.abc import Callable

from workbench.engines.apply_protocol import RecordedSchedule
from workbench.engines.protocol import Progress
from workbench.engines.search_protocol import Artifact, Candidate, Evaluator, Failed, Measured
from workbench.records.trial import BUILD_ERROR, RUN_ERROR, WRONG_RESULT, Check


class SingleKernels:
    """Builds each kernel once for each schedule.

    Args:
        evaluator: Builds, checks and times; `close` closes it.
        candidate: Makes what the evaluator builds for a kernel with a schedule, of which an empty trace is the untuned form, or says why it cannot.
        on_progress: Told what is done; what it raises ends the work.
    """

    def __init__(self, evaluator: Evaluator, candidate: Callable[[str, RecordedSchedule], Candidate | Failed], on_progress: Progress) -> None:
        self._evaluator = evaluator
        self._candidate = candidate
        self._on_progress = on_progress
        self._artifacts: dict[tuple[str, str], Artifact] = {}  # by kernel and fingerprint; that of the untuned one is empty

    def check(self, kernel: str, schedule: RecordedSchedule) -> Check | Failed:
        """As `workbench.engines.apply_protocol.Application.check`."""
        made = self._artifacts_of(kernel, schedule)
        if isinstance(made, Failed):
            return made
        self._on_progress(f"check: {kernel}", 0.7)
        return _checked(self._evaluator.measure(kernel, made[-1], best_us=None, check=True, timed=False))

    def time_alone(self, kernel: str, schedule: RecordedSchedule | None, *, rounds: int) -> tuple[tuple[float, ...], ...] | Failed:
        """As `workbench.engines.apply_protocol.Application.time_alone`."""
        made = self._artifacts_of(kernel, schedule)
        if isinstance(made, Failed):
            return made
        self._on_progress(f"measure: {kernel}", 0.0)
        times = self._evaluator.compare(kernel, made, rounds=rounds)
        return times if isinstance(times, Failed) else tuple(tuple(row) for row in times)

    def close(self) -> None:
        """End all processes."""
        self._evaluator.close()

    def _artifacts_of(self, kernel: str, schedule: RecordedSchedule | None) -> list[Artifact] | Failed:
        """Libraries of the untuned kernel, which becomes the reference, and of the one with a schedule, if one is given; built once each."""
        wanted = [RecordedSchedule("", ""), *([] if schedule is None else [schedule])]
        missing = [item for item in wanted if (kernel, item.fingerprint) not in self._artifacts]
        candidates: list[Candidate] = []
        for item in missing:
            candidate = self._candidate(kernel, item)
            if isinstance(candidate, Failed):
                return candidate
            candidates.append(candidate)
        self._on_progress(f"check: {kernel}", 0.3)
        built = dict(self._evaluator.build(candidates, stop=lambda: False))
        for place, item in enumerate(missing):
            artifact = built.get(place, Failed(BUILD_ERROR, "nothing was built"))
            if isinstance(artifact, Failed):
                return artifact
            self._artifacts[kernel, item.fingerprint] = artifact
            if not item.trace:
                self._evaluator.set_reference(kernel, artifact)
        return [self._artifacts[kernel, item.fingerprint] for item in wanted]


def _checked(outcome: Measured | Failed) -> Check | Failed:
    """The check of a kernel alone, if it is right."""
    if isinstance(outcome, Failed):
        return outcome
    if outcome.check is None:
        return Failed(RUN_ERROR, "its output was not compared")
    if not outcome.check.passed:
        check = outcome.check
        largest = "not a number" if check.max_abs is None else f"{check.max_abs:.3g}"
        words = f"{check.mismatches:,} of {check.elements:,} elements differ from the untuned kernel's; the largest difference is {largest}"
        return Failed(WRONG_RESULT, words)
    return outcome.check
