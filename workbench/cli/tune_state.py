"""Owns how a running search stands: rate, time left, silence, failed first batches; it reads no store and draws nothing."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from workbench.analysis.forecast import model_forecast_us
from workbench.cli.progress import other_work
from workbench.cli.tune_figures import first_line
from workbench.escaping import plain
from workbench.records.command import HELD_UP, Event
from workbench.records.profile import Profile
from workbench.records.trial import FAILURES, UNMEASURED, Trial
from workbench.records.tuning import ENDED, WAITING, TaskProgress, TuneRequest

_SILENCE_S = 30.0
_VERBS = {
    "load": "loading the program",
    "prepare": "preparing",
    "search": "generating and building candidates of",
    "measure": "measuring",
    "measure the best again": "measuring the best again of",
}


@dataclass(frozen=True)
class Snapshot:
    """A search at one moment.

    Attributes:
        tasks: How far each task is, in the order of the selection; in a dry run, its trials are the candidates of this search.
        limits: Trials that each task may have; None where nothing limits it alone.
        history_us: Best time after each trial of each task.
        trials: Trials of the session that a budget counts; in a dry run, those of this search.
        trials_limit: Trials that the session may have; None for no limit.
        rate: Trials a second over the whole rounds of this search, its pauses left out; None before the first one has ended.
        seconds: Time spent on this search, or on waiting for its turn.
        left_s: Time left by the budget; None if it says nothing, or nobody knows yet.
        is_estimating: True while the budget would say how much time is left, and too little is known of how long a trial takes.
        is_begun: False while the worker gets ready, or is at something else.
        waits_for: What it is at, if that is another front's work.
        doing: What the worker is doing.
        silent_s: Time since the last trial, if that is remarkably long.
        model_us: Time of the model in the profile.
        forecast_us: Its time with what was found so far.
        failed_batches: A sentence for each task whose first batch failed entirely.
    """

    tasks: tuple[TaskProgress, ...]
    limits: Mapping[str, int | None]
    history_us: Mapping[str, Sequence[float]]
    trials: int
    trials_limit: int | None
    rate: float | None
    seconds: float
    left_s: float | None
    is_estimating: bool
    is_begun: bool
    waits_for: str
    doing: str
    silent_s: float | None
    model_us: float | None
    forecast_us: float | None
    failed_batches: tuple[str, ...]


@dataclass
class _Seen:
    """What the trials of one task amount to: `tried` counts the candidates of this search, `batch` is its first one."""

    tried: int = 0
    history_us: list[float] = field(default_factory=list)
    batch: list[Trial] = field(default_factory=list)
    is_batch_told: bool = False


class SearchState:
    """Collects what comes in from a search.

    Args:
        request: What is searched.
        profile: The profile it is about.
        clock: Seconds; monotonic.
    """

    def __init__(self, request: TuneRequest, profile: Profile, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._request = request
        self._profile = profile
        self._clock = clock
        self._started = self._heard = clock()
        self._rounds: list[tuple[float, int]] = []
        self._round_begins = False
        self._seen: dict[str, _Seen] = {}
        self._counted = 0
        self._new = 0
        self._paused_at: float | None = None
        self._paused_s = 0.0
        self._doing = self._waits_for = ""
        self._is_known = self._is_prepared = False
        self._failed_batches: list[str] = []
        self._forecast_us: float | None = None
        self._tasks: tuple[TaskProgress, ...] = ()

    def begin(self, known: Iterable[Trial]) -> None:
        """Take note that the search has begun, and of the trials of those before it."""
        for trial in known:
            self._note(trial)
        self._end_wait()
        self._is_known = True

    def take(self, trials: Sequence[Trial], tasks: Iterable[TaskProgress]) -> None:
        """Take note of new trials and of how far the tasks are."""
        if trials:
            self._heard = self._clock()
        for trial in trials:
            self._new += 1
            seen = self._note(trial)
            seen.tried += trial.origin != "baseline"
            if trial.origin != "baseline" and len(seen.batch) < self._request.batch:
                seen.batch.append(trial)
        tasks = list(tasks)
        self._forecast_us = model_forecast_us(self._profile, tasks)
        if self._round_begins:
            self._round_begins = False
            self._rounds.append((self._active_s(), self._new))
        order = {item.task: place for place, item in enumerate(self._request.tasks)}
        found = sorted((task for task in tasks if task.task in order), key=lambda task: order[task.task])
        if not self._is_prepared:  # until then, states and times are those of an earlier search
            found = [replace(task, state=WAITING, stopped_because="") for task in found]
        if self._request.dry_run is not None:
            found = [replace(task, trials=self._tried(task)) for task in found]
        self._tasks = tuple(found)
        for task in self._tasks:
            self._tell_failed_batch(task)

    def on_event(self, event: Event) -> None:
        """Take note of what the worker is doing."""
        if event.kind == HELD_UP and event.data.get("behind"):
            self._waits_for = other_work(event)
        elif event.kind == HELD_UP:
            self._end_wait()
        if event.kind != "progress":
            return
        self._end_wait()
        phase, _, name = str(event.data.get("phase", "")).partition(": ")
        self._doing = plain(f"{_VERBS.get(phase, phase)} {name}".strip(), 120)
        self._is_prepared = self._is_prepared or phase == "prepare"
        self._round_begins = self._round_begins or phase == "search"
        if phase == "paused":
            self._paused_at = self._clock() if self._paused_at is None else self._paused_at
        elif self._paused_at is not None:
            self._paused_s += self._clock() - self._paused_at
            self._paused_at = None

    def _end_wait(self) -> None:
        """The time of another front's work is none of this search's."""
        if self._waits_for:
            self._started = self._heard = self._clock()
            self._waits_for = ""

    def snapshot(self) -> Snapshot:
        """How the search stands now."""
        now = self._clock()
        rate = self._rate()
        limits = {task.task: self._limit(task) for task in self._tasks}
        left, silent_s = self._trials_left(limits), now - self._heard
        return Snapshot(
            tasks=self._tasks,
            limits=limits,
            history_us={task: seen.history_us for task, seen in self._seen.items()},
            trials=self._counted if self._request.dry_run is None else self._new,
            trials_limit=self._trials_limit(),
            rate=rate,
            seconds=now - self._started,
            left_s=self._left_s(left, rate),
            is_estimating=left is not None and rate is None,
            is_begun=self._is_known,
            waits_for=self._waits_for,
            doing=self._doing,
            silent_s=silent_s if silent_s >= _SILENCE_S else None,
            model_us=self._profile.total_us,
            forecast_us=self._forecast_us,
            failed_batches=tuple(self._failed_batches),
        )

    def _rate(self) -> float | None:
        """Trials a second from the first round's begin to the last one's; the worker's start and the baselines before it are no measure."""
        (first_s, first), (last_s, last) = (self._rounds[0], self._rounds[-1]) if self._rounds else ((0.0, 0), (0.0, 0))
        return (last - first) / (last_s - first_s) if last > first and last_s > first_s else None

    def _note(self, trial: Trial) -> _Seen:
        self._counted += trial.status != UNMEASURED
        seen = self._seen.setdefault(trial.task, _Seen())
        if trial.time_us is not None:
            seen.history_us.append(min(trial.time_us, seen.history_us[-1] if seen.history_us else math.inf))
        return seen

    def _active_s(self) -> float:
        """Seconds since the start; pauses do not count."""
        return (self._clock() if self._paused_at is None else self._paused_at) - self._started - self._paused_s

    def _tried(self, task: TaskProgress) -> int:
        return self._seen[task.task].tried if task.task in self._seen else 0

    def _trials_limit(self) -> int | None:
        """Trials that the session may have; a dry run has no such limit."""
        return self._request.budget.trials if self._request.dry_run is None else None

    def _limit(self, task: TaskProgress) -> int | None:
        if self._request.dry_run is not None:
            return self._request.dry_run
        return task.budget_trials if task.budget_trials is not None else self._request.budget.per_task

    def _trials_left(self, limits: Mapping[str, int | None]) -> int | None:
        """Trials that the budgets still allow; None if they allow any number, or nothing is left but to measure the best again."""
        open_tasks = [task for task in self._tasks if task.state not in ENDED]
        if self._tasks and not open_tasks:
            return None
        trials_limit = self._trials_limit()
        left = [] if trials_limit is None else [trials_limit - self._counted]
        owed = [limit - task.trials for task in open_tasks if (limit := limits[task.task]) is not None]
        if len(owed) == len(open_tasks):
            left.append(sum(max(number, 0) for number in owed))
        return max(min(left), 0) if left else None

    def _left_s(self, trials_left: int | None, rate: float | None) -> float | None:
        """Time left: of the budget's seconds, or for the trials that are left at the present rate, whichever is less."""
        if self._tasks and all(task.state in ENDED for task in self._tasks):
            return None  # the best are being measured again
        seconds = self._request.budget.seconds
        left_s = [] if seconds is None else [max(seconds - self._active_s(), 0.0)]
        if rate and trials_left is not None:
            left_s.append(trials_left / rate)
        return min(left_s, default=None)

    def _tell_failed_batch(self, task: TaskProgress) -> None:
        """Note once that all candidates of a task's first batch failed, by class with the first text of each."""
        seen = self._seen.get(task.task)
        if seen is None or seen.is_batch_told or not seen.batch:
            return
        limit = self._limit(task)
        own = limit if self._request.dry_run is not None or limit is None else limit - 1  # the baseline is no candidate
        full = self._request.batch if own is None else max(min(self._request.batch, own), 1)
        if len(seen.batch) < full and task.state not in ENDED:
            return
        seen.is_batch_told = True
        counts = Counter(trial.status for trial in seen.batch)
        if any(status not in FAILURES for status in counts):
            return
        first = {trial.status: trial.error for trial in reversed(seen.batch)}
        classes = [(status if len(counts) == 1 else f"{number} {status}", first[status]) for status, number in counts.most_common()]
        words = "; ".join(f"{named}: {first_line(text)}" for named, text in classes)
        self._failed_batches.append(f"{plain(task.name)}: {len(seen.batch)} of {len(seen.batch)} failed: {words}")
