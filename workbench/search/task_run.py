"""One task within a search: its candidates, its trials, its state; it does not choose when it is its turn."""

from __future__ import annotations

import bisect
import math
import queue
import statistics
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from workbench.engines.search_protocol import Artifact, Candidate, Experience, Failed, Measured, Outcome, TaskSearch, Translation
from workbench.legacy.auto_scheduler.workloads import LoggedWorkload
from workbench.records.conditions import Differences, unknown_differences
from workbench.records.profile import Task
from workbench.records.trial import (
    BUILD_ERROR,
    BUILD_TIMEOUT,
    OK,
    REJECTED,
    RUN_ERROR,
    UNMEASURED,
    WRONG_RESULT,
    Check,
    MeasureOptions,
    Trial,
)
from workbench.records.tuning import ENDED, DryRun, TaskProgress
from workbench.search.error_text import shortened
from workbench.search.gain import Prospect
from workbench.tuning_database import TuningRecord

_ABSURD_US = 1e9  # longer than any timeout


@dataclass
class TaskRun:
    """The state of one task; the thread of the search changes it, except for `search` itself, which belongs to the producer.

    Attributes:
        task: The task.
        progress: How far it is, as the store has it.
        search: Its candidates; None until it is prepared.
        history_us: Best time after each trial of comparable conditions.
        artifacts: Built libraries of the baseline and of the best trials, by trial number.
        times: Median of each comparable trial that is ok, by number.
        ranking: The same as pairs of median and number, fastest first.
        baseline_number: Number of the trial that is the baseline under the present conditions.
        next_number: Number of the next trial.
        is_begun: True once its first round was asked for.
        has_reference: True once the outputs of its candidates can be compared.
        tried: Candidates of this search, the baseline not counted.
        rivals: Comparable trials that are no baseline, right or not.
        builds_s: Seconds that the last builds took; the producer alone touches it.
        unlearned: What became of candidates and the search was not told yet; the one thing that both threads touch.
        inherited: Records of other searches that gave schedules to be tried first; set by the producer, as `search` is.
        translations: What the task can take of each workload of auto_scheduler logs; set by the producer too.
        leftover: Candidates that were proposed and not measured, since their round was cut short; they come first in the next one.
    """

    task: Task
    progress: TaskProgress
    search: TaskSearch | None = None
    history_us: list[float] = field(default_factory=list)
    artifacts: dict[int, Artifact] = field(default_factory=dict)
    times: dict[int, float] = field(default_factory=dict)
    ranking: list[tuple[float, int]] = field(default_factory=list)
    baseline_number: int | None = None
    next_number: int = 0
    is_begun: bool = False
    has_reference: bool = False
    tried: int = 0
    rivals: int = 0
    builds_s: list[float] = field(default_factory=list)
    unlearned: queue.SimpleQueue[Outcome] = field(default_factory=queue.SimpleQueue)
    inherited: tuple[TuningRecord, ...] = ()
    translations: tuple[tuple[LoggedWorkload, Translation], ...] = ()
    leftover: list[Candidate] = field(default_factory=list)

    @property
    def kernel(self) -> str:
        """Name of the kernel that stands for the task."""
        return self.task.name

    @property
    def is_open(self) -> bool:
        """True while it may get trials."""
        return self.progress.state not in ENDED

    @property
    def present_us(self) -> float:
        """Time of one call as things stand: the best trial's, or the baseline's."""
        return min((time_us for time_us in (self.progress.baseline_us, self.progress.best_us) if time_us is not None), default=0.0)

    def prospect(self, pending: int) -> Prospect:
        """What is known of it when the next trials are given away, and `pending` candidates are under way."""
        return Prospect(self.task.weight, self.present_us, self.history_us, pending)

    def finalists(self, count: int) -> list[int]:
        """Numbers of the best trials apart from the baseline, best first."""
        return [number for _, number in self.ranking[: count + 1] if number != self.baseline_number][:count]

    def restore(self, known: Sequence[Experience], conditions: str, differences: Differences = unknown_differences) -> list[Experience]:
        """Take up earlier trials.

        Args:
            known: All of them.
            conditions: Digest of the present conditions.
            differences: Says in what others differ.

        Returns:
            Those of comparable conditions.
        """
        same = [item for item in known if item.trial.conditions == conditions and item.trial.status != UNMEASURED]
        self.history_us, self.times, self.ranking, self.baseline_number, self.rivals = [], {}, [], None, 0
        for item in same:
            self._note(item.trial)
        self.next_number = max((item.trial.number for item in known), default=-1) + 1
        failed = [item.trial for item in known if item.trial.status not in {OK, UNMEASURED}]
        elsewhere = [item.trial for item in known if item.trial.conditions != conditions and item.trial.time_us is not None]
        marks = dict.fromkeys((trial.conditions, trial.options) for trial in elsewhere)
        best_us, best = self.ranking[0] if self.ranking else (None, None)
        self.progress = replace(
            self.progress,
            trials=sum(item.trial.status != UNMEASURED for item in known),
            errors=dict(Counter(trial.status for trial in failed)),
            first_errors={trial.status: trial.error for trial in reversed(failed)},
            baseline_us=None if self.baseline_number is None else self.times.get(self.baseline_number),
            best=best,
            best_us=best_us,
            conditions=conditions,
            other_trials=len(elsewhere),
            other_conditions=tuple(dict.fromkeys(filter(None, (", ".join(differences(*mark)) for mark in marks)))),
            final=self.progress.final if self.progress.conditions == conditions else None,
        )
        return same

    def progress_with(self, trial: Trial) -> TaskProgress:
        """How far the task is once a new trial is stored; nothing is counted yet."""
        progress = replace(self.progress, trials=self.progress.trials + (trial.status != UNMEASURED))
        if progress.dry_run is not None and trial.origin != "baseline":
            progress = replace(progress, dry_run=_counted(progress.dry_run, trial))
        if trial.status not in {OK, UNMEASURED}:
            errors = {**progress.errors, trial.status: progress.errors.get(trial.status, 0) + 1}
            progress = replace(progress, errors=errors, first_errors={trial.status: trial.error, **progress.first_errors})
        if trial.time_us is not None:
            if trial.origin == "baseline":
                progress = replace(progress, baseline_us=trial.time_us)
            if progress.best_us is None or trial.time_us < progress.best_us:
                progress = replace(progress, best=trial.number, best_us=trial.time_us)
            progress = replace(progress, final=None)
        return progress

    def take_note(self, trial: Trial, progress: TaskProgress) -> None:
        """Count a trial that is stored, and the progress that was stored with it."""
        self._note(trial)
        self.next_number = trial.number + 1
        self.progress = progress

    def make_trial(
        self, candidate: Candidate, built: Artifact | Failed, outcome: Measured | Failed | None, *, conditions: str, options: MeasureOptions
    ) -> Trial:
        """The record of a candidate, the next one of its task."""
        status, error = _status(built, outcome)
        measured = outcome if isinstance(outcome, Measured) else None
        times_us = measured.times_us if measured is not None and status == OK else ()
        median = statistics.median(times_us) if times_us else None
        known = [time_us for time_us in (self.progress.best_us, median) if time_us is not None]
        return Trial(
            task=self.task.task,
            number=self.next_number,
            status=status,
            error=shortened(error),
            fingerprint=candidate.fingerprint,
            origin=candidate.origin,
            conditions=conditions,
            times_us=times_us,
            runs=measured.runs if measured else 0,
            search_s=candidate.search_s,
            build_s=built.build_s if isinstance(built, Artifact) else built.seconds,
            run_s=measured.run_s if measured else outcome.seconds if isinstance(outcome, Failed) else 0.0,
            check=measured.check if measured else None,
            best_us=min(known, default=None),
            measured_at=time.time(),
            decisions=candidate.decisions,
            options=options,
        )

    def _note(self, trial: Trial) -> None:
        if trial.origin == "baseline":
            self.baseline_number = trial.number
        else:
            self.rivals += trial.status != UNMEASURED
        if trial.time_us is not None:
            self.times[trial.number] = trial.time_us
            bisect.insort(self.ranking, (trial.time_us, trial.number))
        if self.times:
            best = min(trial.time_us if trial.time_us is not None else math.inf, self.history_us[-1] if self.history_us else math.inf)
            self.history_us.append(best)


def _counted(counts: DryRun, trial: Trial) -> DryRun:
    """The counts of a dry run with one candidate more."""
    failures = dict(counts.failures)
    if trial.status not in {OK, UNMEASURED}:
        failures[trial.status] = failures.get(trial.status, 0) + 1
    return replace(
        counts,
        candidates=counts.candidates + 1,
        built=counts.built + (trial.status not in {BUILD_ERROR, BUILD_TIMEOUT, REJECTED}),
        checked=counts.checked + (trial.check is not None and trial.check.passed),
        failures=failures,
    )


def make_sense(times_us: Sequence[float]) -> bool:
    """True if these can be measured times: some, all above zero, none longer than any timeout."""
    return bool(times_us) and all(0.0 < time_us < _ABSURD_US for time_us in times_us)


def difference(check: Check) -> str:
    """What a check that was not passed found, in a sentence."""
    largest = "not a number" if check.max_abs is None else f"{check.max_abs:.3g}"
    return (
        f"{check.mismatches:,} of {check.elements:,} elements differ from the untuned kernel's by more than the tolerance; "
        f"the largest difference is {largest}."
    )


def _status(built: Artifact | Failed, outcome: Measured | Failed | None) -> tuple[str, str]:
    """Status and full error text of a trial."""
    if isinstance(built, Failed):
        return built.status, built.error
    if isinstance(outcome, Failed):
        return outcome.status, outcome.error
    if outcome is None:
        return UNMEASURED, ""
    if outcome.check is not None and not outcome.check.passed:
        return WRONG_RESULT, difference(outcome.check)
    if not outcome.times_us:
        return UNMEASURED, f"Built, but its output was not checked: {built.unchecked}." if built.unchecked else ""
    if not make_sense(outcome.times_us):
        return RUN_ERROR, f"The measured times make no sense: {', '.join(f'{time_us:g} us' for time_us in outcome.times_us[:5])}."
    return OK, ""
