"""A search: what the user asks for, how far each task is, and what came out of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from workbench.records.decode import decode
from workbench.records.selection import SelectedTask
from workbench.records.trial import MeasureOptions

WAITING = "waiting"
SEARCHING = "searching"
FINISHED = "finished"
STOPPED = "stopped"
DROPPED = "dropped"
FAILED = "failed"
ENDED = (FINISHED, STOPPED, DROPPED, FAILED)

NOTE = "note"
"""Name in ``first_errors`` of what to know of a task's search, which is no error."""

FASTER = "faster"
NOT_FASTER = "not faster"

DEFAULT_TRIALS_PER_TASK = 64

DEFAULT_SPACE = "default"
SKETCHES = "auto-scheduler"
"""The space whose size is a number of sketches: how many schedules they stand for, auto_scheduler does not tell."""

SPACES_OF: Mapping[str, Mapping[str, str]] = MappingProxyType(
    {
        "relax": MappingProxyType(
            {
                DEFAULT_SPACE: "MetaSchedule's rules for the target; with --engine relay, auto-scheduler",
                "plain": "the same without dot products, on a CPU with AVX-512 VNNI",
                "tensorcore": "tensor cores wherever a kernel can use them, on a GPU from sm_70 on",
            }
        ),
        "relay": MappingProxyType(
            {
                SKETCHES: "with --engine relay, auto_scheduler's sketches",
                "autotvm-xgb": "with --engine relay, AutoTVM's templates, chosen by its tuner with a cost model",
                "autotvm-ga": "the same, by its genetic tuner",
                "autotvm-random": "the same, at random",
                "autotvm-gridsearch": "the same, one after the other",
            }
        ),
    }
)
"""Search spaces by engine and name, in words; which of them a target offers, the engine says."""

SPACES: Mapping[str, str] = MappingProxyType({name: words for spaces in SPACES_OF.values() for name, words in spaces.items()})
"""All search spaces by name, in words."""


@dataclass(frozen=True)
class SearchBudget:
    """When a search ends; None sets no limit.

    Attributes:
        trials: All trials of the session together, those of earlier searches included.
        seconds: Time from the start of this search.
        per_task: Trials of each task, those of earlier searches included.
        flat_after: A task ends when its best got no better by `flat_gain` for so many trials.
        flat_gain: Share by which the best has to get better.
    """

    trials: int | None = None
    seconds: float | None = None
    per_task: int | None = None
    flat_after: int | None = 192
    flat_gain: float = 0.01


@dataclass(frozen=True)
class TuneRequest:
    """Everything that decides what a search does.

    Attributes:
        tasks: What to search, with budgets of their own.
        budget: When to end.
        seed: Seed of candidates and of random inputs.
        resume: True goes on where earlier searches of these tasks ended.
        dry_run: Generate, build and check so many candidates of each task without measuring; None measures.
        space: Search space: one of `SPACES` that the target offers; empty for that of the earlier search that is resumed, or else ``default``.
        schedule: A user's own schedule function as ``module:function``; empty for none.
        measure: How to measure.
        builders: Processes that build; None takes one for each physical core.
        batch: Candidates of one round of a task.
        finalists: Best trials of a task that are measured again beside the baseline before a winner is named.
        transfer: Session directories, databases, and logs of auto_scheduler and AutoTVM for the same target, whose schedules are tried first; empty
            for none.
    """

    tasks: tuple[SelectedTask, ...]
    budget: SearchBudget = field(default_factory=SearchBudget)
    seed: int = 0
    resume: bool = False
    dry_run: int | None = None
    space: str = ""
    schedule: str = ""
    measure: MeasureOptions = field(default_factory=MeasureOptions)
    builders: int | None = None
    batch: int = 16
    finalists: int = 4
    transfer: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {
            "tasks": [{"task": item.task, "name": item.name, "trials": item.trials, "seconds": item.seconds} for item in self.tasks],
            "budget": vars(self.budget).copy(),
            "seed": self.seed,
            "resume": self.resume,
            "dry_run": self.dry_run,
            "space": self.space,
            "schedule": self.schedule,
            "measure": self.measure.to_dict(),
            "builders": self.builders,
            "batch": self.batch,
            "finalists": self.finalists,
            "transfer": list(self.transfer),
        }

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TuneRequest:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


@dataclass(frozen=True)
class Final:
    """The best trials of a task and its baseline, measured again by turns, and who won.

    Attributes:
        winner: Number of the trial to use; 0 keeps the baseline.
        baseline_us: Median of the baseline.
        baseline_us_iqr: Its spread.
        winner_us: Median of the best trial, even if it did not win.
        winner_us_iqr: Its spread.
        best: Number of the best trial.
        rounds: Most measured times of each; slow ones have fewer.
        verdict: ``faster``, or ``not faster`` than the baseline by more than the noise.
        why: The verdict in a sentence with its figures.
    """

    winner: int
    baseline_us: float
    baseline_us_iqr: float
    winner_us: float
    winner_us_iqr: float
    best: int
    rounds: int
    verdict: str
    why: str

    @property
    def used_us(self) -> float:
        """Time of what is used: the winner, or the baseline."""
        return self.winner_us if self.verdict == FASTER else self.baseline_us


@dataclass(frozen=True)
class DryRun:
    """What became of the candidates of a task's dry run; the baseline is none of them.

    Attributes:
        candidates: Schedules that were to be built.
        built: Those that gave a library.
        checked: Those whose output agrees with the untuned kernel's.
        rejected: Decisions that gave no valid schedule, for instance more threads than a GPU can launch, and so no candidate.
        failures: Candidates that failed, by status.
    """

    candidates: int = 0
    built: int = 0
    checked: int = 0
    rejected: int = 0
    failures: Mapping[str, int] = field(default_factory=dict)

    @property
    def unchecked(self) -> int:
        """Candidates that were built, and whose output could not be compared."""
        return self.candidates - self.checked - sum(self.failures.values())

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {**vars(self), "failures": dict(self.failures)}


@dataclass(frozen=True)
class TaskProgress:
    """How far the search of one task is.

    Attributes:
        task: The task.
        name: Name of its kernel.
        weight: Rows that call it.
        state: ``waiting``, ``searching``, or how it ended: ``finished``, ``stopped``, ``dropped``, ``failed``.
        stopped_because: Why it ended, in words; empty while it has not.
        space_size: Number of distinct schedules of the space that is searched.
        trials: Number of its trials, the baseline included; those that were only built and checked do not count.
        errors: Number of failed trials by status.
        first_errors: Text of the first failure of each status. What else went wrong has a name of its own: ``task`` ended the task, ``final`` kept a
            winner from being named, ``record`` kept a trial from the records; `NOTE` is no error.
        baseline_us: Median of trial 0.
        best: Number of the trial with the lowest median.
        best_us: That median.
        seconds: Time spent on it, in all searches.
        budget_trials: Budget of its own; None for none.
        budget_seconds: Budget of its own; None for none.
        conditions: Digest of what makes its times comparable (`workbench.records.trial.Trial.conditions`).
        other_trials: Number of its trials that have times under other conditions; they count for budgets, and are compared with nothing.
        other_conditions: In what those conditions differ from `conditions`, in words; empty if that is not known.
        final: What the last measurement said; None before it.
        space: Search space of the last search that measured; empty before it.
        schedule: The user's own schedule function that it searched instead, as ``module:function``; empty for none.
        dry_run: What became of the candidates, if the last search was a dry run.
    """

    task: str
    name: str
    weight: int
    state: str = WAITING
    stopped_because: str = ""
    space_size: int | None = None
    trials: int = 0
    errors: Mapping[str, int] = field(default_factory=dict)
    first_errors: Mapping[str, str] = field(default_factory=dict)
    baseline_us: float | None = None
    best: int | None = None
    best_us: float | None = None
    seconds: float = 0.0
    budget_trials: int | None = None
    budget_seconds: float | None = None
    conditions: str = ""
    other_trials: int = 0
    other_conditions: tuple[str, ...] = ()
    final: Final | None = None
    space: str = ""
    schedule: str = ""
    dry_run: DryRun | None = None

    @property
    def before_and_now_us(self) -> tuple[float | None, float | None]:
        """Times of one call before and now: those of the last measurement, or else of the search."""
        return (self.baseline_us, self.best_us) if self.final is None else (self.final.baseline_us, self.final.used_us)

    @property
    def verified(self) -> bool | None:
        """True if the output of what is to be used was compared with the untuned kernel's and agrees; None if nothing is to be used yet."""
        return None if self.final is None else True

    @property
    def elsewhere(self) -> str:
        """That it has times which do not count, in words, as what follows "was"; empty if it has none."""
        if not self.other_trials:
            return ""
        return "measured under other conditions" + (f" ({'; '.join(self.other_conditions)})" if self.other_conditions else "")

    def other_times(self) -> dict[str, Any] | None:
        """The same for JSON: how many trials, and in what their conditions differ; None if it has none."""
        return {"trials": self.other_trials, "differences": list(self.other_conditions)} if self.other_trials else None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        values = {**vars(self), "errors": dict(self.errors), "first_errors": dict(self.first_errors)}
        values["other_conditions"] = list(self.other_conditions)
        values["final"] = None if self.final is None else vars(self.final).copy()
        values["dry_run"] = None if self.dry_run is None else self.dry_run.to_dict()
        return values

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> TaskProgress:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)
