"""Measures a task's best trials again, by turns with the baseline, and names the winner."""

from __future__ import annotations

from collections.abc import Callable

from workbench.analysis.confidence import compare, spread
from workbench.engines.search_protocol import Artifact, Evaluator, Failed
from workbench.records.trial import BASELINE
from workbench.records.tuning import FASTER, NOT_FASTER, Final
from workbench.search.task_run import TaskRun

ROUNDS = 11


def finalists(run: TaskRun, count: int) -> list[int]:
    """Numbers of the best trials apart from the baseline, best first."""
    others = [number for number in run.times if number != run.baseline_number]
    return sorted(others, key=lambda number: (run.times[number], number))[:count]


def hold_final(
    run: TaskRun, evaluator: Evaluator, *, count: int, rebuild: Callable[[TaskRun, int], Artifact | Failed], rounds: int = ROUNDS
) -> Final | None:
    """Name the winner of a task.

    Args:
        run: The task; its baseline's artifact is there.
        evaluator: Measures.
        count: How many trials take part beside the baseline.
        rebuild: Builds a trial whose artifact is gone.
        rounds: Measured times of each.

    Returns:
        What came out; None if it could not be measured.
    """
    baseline = run.baseline_number if run.baseline_number is not None else BASELINE
    built: dict[int, Artifact] = {}
    for number in [baseline, *finalists(run, count)]:
        artifact = run.artifacts.get(number) or rebuild(run, number)
        if isinstance(artifact, Artifact):
            built[number] = artifact
    if baseline not in built:
        return None
    contestants = [baseline, *(number for number in built if number != baseline)]
    times = evaluator.compare(run.kernel, [built[number] for number in contestants], rounds=rounds)
    if isinstance(times, Failed) or not all(min(row, default=0.0) > 0.0 for row in times):
        return None
    by_number = dict(zip(contestants, times, strict=True))
    before = spread(by_number[baseline])
    if len(contestants) == 1:
        why = "no trial was right and could be measured"
        return Final(baseline, before.median, before.iqr, before.median, before.iqr, baseline, rounds, NOT_FASTER, why)
    best = min(contestants[1:], key=lambda number: (spread(by_number[number]).median, number))
    after = spread(by_number[best])
    verdict = compare(by_number[baseline], by_number[best])
    return Final(
        winner=best if verdict.faster else baseline,
        baseline_us=before.median,
        baseline_us_iqr=before.iqr,
        winner_us=after.median,
        winner_us_iqr=after.iqr,
        best=best,
        rounds=rounds,
        verdict=FASTER if verdict.faster else NOT_FASTER,
        why=verdict.text,
    )
