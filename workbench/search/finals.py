"""Measures a task's best trials again, by turns with the baseline, and names the winner."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol, TypeVar

from workbench.analysis.confidence import compare, spread
from workbench.engines.search_protocol import Artifact, Evaluator, Experience, Failed, TaskSearch
from workbench.errors import EnvironmentFault, Interrupted
from workbench.records.trial import BASELINE, REJECTED, RUN_ERROR, WRONG_RESULT
from workbench.records.tuning import FASTER, NOT_FASTER, Final
from workbench.search.error_text import full_text, shortened
from workbench.search.task_run import TaskRun, difference, make_sense

ROUNDS = 11
FINAL_ERROR = "final"
"""Name in ``first_errors`` of why no winner could be named."""

Result = TypeVar("Result")
Compare = Callable[[Sequence[Artifact]], list[list[float]] | Failed]


class OnDevice(Protocol):
    """Uses the device in its own thread and waits for it."""

    def __call__(self, work: Callable[[], Result], /) -> Result:
        """Do something there."""
        ...


class Finals:
    """Names winners, once nothing is built or measured any more.

    Args:
        evaluator: Builds and measures.
        on_device: Where it does.
        known: All trials of a task with their traces.
        count: How many trials take part beside the baseline.
        rounds: Measured times of each.
    """

    def __init__(
        self, evaluator: Evaluator, on_device: OnDevice, known: Callable[[str], list[Experience]], *, count: int, rounds: int = ROUNDS
    ) -> None:
        self._evaluator = evaluator
        self._on_device = on_device
        self._known = known
        self._count = count
        self._rounds = rounds

    def hold(self, run: TaskRun) -> None:
        """Name the winner of a task in its progress, or say there why there is none."""
        final = self._outcome(run)
        if isinstance(final, Failed):
            run.progress = replace(run.progress, first_errors={**run.progress.first_errors, FINAL_ERROR: shortened(final.error)})
        else:
            run.progress = replace(run.progress, final=final)

    def _outcome(self, run: TaskRun) -> Final | Failed:
        baseline = BASELINE if run.baseline_number is None else run.baseline_number
        known: dict[int, Experience] = {}
        built: dict[int, Artifact] = {}
        for number in [baseline, *run.finalists(self._count)]:
            artifact = run.artifacts.get(number) or self._rebuilt(run, number, known)
            if isinstance(artifact, Artifact):
                built[number] = artifact
            elif number == baseline:
                return artifact
        times = _times(built, baseline, lambda artifacts: self._compare(run.kernel, artifacts))
        return times if isinstance(times, Failed) else _final(times, baseline, self._rounds, alone=_why_alone(run))

    def _compare(self, kernel: str, artifacts: Sequence[Artifact]) -> list[list[float]] | Failed:
        try:
            return self._on_device(lambda: self._evaluator.compare(kernel, artifacts, rounds=self._rounds))
        except (EnvironmentFault, Interrupted):
            raise
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with one task is told there
            return Failed(RUN_ERROR, full_text(error))

    def _rebuilt(self, run: TaskRun, number: int, known: dict[int, Experience]) -> Artifact | Failed:
        """A trial of an earlier search built again; what is not that very schedule any more, or computes something else, takes no part."""
        if not known:
            known.update({item.trial.number: item for item in self._known(run.task.task)})
        search, measured = run.search, known.get(number)
        is_baseline = number == run.baseline_number
        if search is None or measured is None or not (measured.trace or is_baseline):
            return Failed(REJECTED, f"Trial {number} has no trace to build it from.")
        try:
            return self._on_device(lambda: self._build(run.kernel, search, measured, is_baseline=is_baseline))
        except (EnvironmentFault, Interrupted):
            raise
        except Exception as error:  # noqa: BLE001 - replaying a schedule may raise anything
            return Failed(REJECTED, f"Trial {number} cannot be built again: {full_text(error)}")

    def _build(self, kernel: str, search: TaskSearch, measured: Experience, *, is_baseline: bool) -> Artifact | Failed:
        candidate = search.rebuild(measured.trace)
        if candidate.fingerprint != measured.trial.fingerprint:
            return Failed(REJECTED, f"The trace of trial {measured.trial.number} gives another schedule than the one that was measured.")
        built = next(self._evaluator.build([candidate], stop=lambda: False), None)
        if built is None:
            raise Interrupted("The search was stopped.")
        artifact = built[1]
        return artifact if is_baseline or isinstance(artifact, Failed) else self._checked(kernel, artifact)

    def _checked(self, kernel: str, artifact: Artifact) -> Artifact | Failed:
        """The artifact, if its output is right."""
        outcome = self._evaluator.measure(kernel, artifact, best_us=None, check=True, timed=False)
        if isinstance(outcome, Failed):
            return outcome
        if outcome.check is not None and not outcome.check.passed:
            return Failed(WRONG_RESULT, difference(outcome.check))
        return artifact


def _times(built: dict[int, Artifact], baseline: int, compare_artifacts: Compare) -> dict[int, list[float]] | Failed:
    """Times of all; if one of them spoils it, of the baseline and the best one that can be measured beside it."""
    others = [number for number in built if number != baseline]
    contests = [[baseline, *others], *([baseline, number] for number in others if len(others) > 1), [baseline]]
    failed = Failed(RUN_ERROR, "nothing was measured")
    for contestants in contests:
        times = compare_artifacts([built[number] for number in contestants])
        if isinstance(times, Failed):
            failed = times
        elif len(times) == len(contestants) and all(make_sense(row) for row in times):
            return dict(zip(contestants, times, strict=True))
        else:
            failed = Failed(RUN_ERROR, f"The measured times make no sense: {times!r:.300}.")
    return failed


def _why_alone(run: TaskRun) -> str:
    """Why no trial was measured again beside the baseline, should that be so."""
    if run.rivals:
        return "no trial was right and could be measured"
    earlier = f"; earlier ones were {run.progress.elsewhere}" if run.progress.elsewhere else ""
    return f"no candidate was measured beside it{earlier}"


def _final(times: dict[int, list[float]], baseline: int, rounds: int, *, alone: str) -> Final:
    before = spread(times[baseline])
    others = [number for number in times if number != baseline]
    if not others:
        return Final(BASELINE, before.median, before.iqr, before.median, before.iqr, baseline, rounds, NOT_FASTER, alone)
    best = min(others, key=lambda number: (spread(times[number]).median, number))
    after = spread(times[best])
    verdict = compare(times[baseline], times[best])
    return Final(
        winner=best if verdict.faster else BASELINE,
        baseline_us=before.median,
        baseline_us_iqr=before.iqr,
        winner_us=after.median,
        winner_us_iqr=after.iqr,
        best=best,
        rounds=rounds,
        verdict=FASTER if verdict.faster else NOT_FASTER,
        why=verdict.text,
    )
