"""The tasks of a search and what limits them: which one gets the next trials, how many, and when it ends. It starts and measures nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from workbench.errors import SelectionError
from workbench.escaping import plain
from workbench.records.profile import Task
from workbench.records.selection import SelectedTask
from workbench.records.tuning import DROPPED, FAILED, FINISHED, SEARCHING, STOPPED, WAITING, DryRun, TaskProgress, TuneRequest
from workbench.search.gain import is_flat, most_promising
from workbench.search.history import History
from workbench.search.producer import Round
from workbench.search.resuming import check_schedule, chosen_space
from workbench.search.task_run import TaskRun

STOPPED_BY_USER = "stopped by the user"

_LEAST_ROUND = 4
"""Fewer candidates are not worth the fitting of a cost model."""


class Agenda:
    """What is still to be done; commands change it, and the loop asks it what comes next.

    Args:
        request: What is asked for.
        tasks: The profile's tasks by identifier.
        history: What the session holds of searches.
        note: Stores how far a task is.
        clock: Seconds; monotonic.

    Attributes:
        runs: The tasks, by identifier.
        budget: Present limits.
        trials: Trials of the session so far.
        stopping: Why the search ends; empty while it goes on.
        paused: True while nothing may be measured.
    """

    def __init__(
        self,
        request: TuneRequest,
        *,
        tasks: dict[str, Task],
        history: History,
        note: Callable[[TaskProgress], None],
        clock: Callable[[], float],
    ) -> None:
        self.runs: dict[str, TaskRun] = {}
        self.budget = request.budget
        self.trials = self._trials_before = history.trials
        self.stopping = ""
        self._request = request
        self._tasks = tasks
        self._history = history
        self._note = note
        self._clock = clock
        self._started = clock()
        self._paused_at: float | None = None
        self._paused_s = 0.0

    @property
    def paused(self) -> bool:
        """True while nothing may be measured."""
        return self._paused_at is not None

    def now(self) -> float:
        """Seconds since the start; pauses do not count."""
        return (self._clock() if self._paused_at is None else self._paused_at) - self._started - self._paused_s

    # what comes next

    def next_run(self, pending: Sequence[Round]) -> TaskRun | None:
        """The task that the next round is for; None if no task can take one before what is pending is measured."""
        fresh = next((run for run in self.runs.values() if run.is_open and not run.is_begun), None)
        if fresh is not None:
            return fresh if self._room(pending) > 0 else None
        ready = [run for run in self.runs.values() if run.is_open and run.has_reference and self.round_size(run, pending) > 0]
        untried = [run for run in ready if self._is_untried(run, pending)]
        if untried and self._foreseen(pending) < (len(untried) + 1) * self._request.batch:
            ready = untried  # a round of another one would leave too little for their first candidates
        return ready[most_promising([run.prospect(_count(run, pending)) for run in ready])] if ready else None

    def round_size(self, run: TaskRun, pending: Sequence[Round]) -> int:
        """Candidates of the next round of a task: no more than any budget allows once all that is pending is measured."""
        own = _count(run, pending)
        if self._request.dry_run is not None:
            return min(self._request.batch, self._request.dry_run - run.tried - own)
        limit = self._limit(run)
        return min(self._fair_share(pending), self._room(pending), self._request.batch if limit is None else limit - run.progress.trials - own)

    def why_over(self) -> str:
        """Why the whole search ends; empty while it goes on."""
        budget = self.budget
        if self.stopping:
            return self.stopping
        if not any(run.is_open for run in self.runs.values()):
            return "all tasks have ended"
        if budget.trials is not None and self.trials >= budget.trials and self._request.dry_run is None:
            return f"the budget of {budget.trials} trials is used up"
        if budget.seconds is not None and self.now() >= budget.seconds:
            return f"the budget of {budget.seconds:g} s is used up"
        return ""

    def why_done(self, run: TaskRun) -> str:
        """Why a task gets no more trials: its own budget is used up, or it gets no better; empty while it may go on."""
        if not run.has_reference and (run.is_begun or run.progress.final is None):
            return ""  # its baseline comes first; of one that was finished before, not even that
        progress, budget = run.progress, self.budget
        if self._request.dry_run is not None:
            return _said_of_dry_run(progress.dry_run) if run.tried >= self._request.dry_run else ""
        limit = self._limit(run)
        if limit is not None and progress.trials >= limit:
            return f"its budget of {limit} trials is used up"
        if progress.budget_seconds is not None and progress.seconds >= progress.budget_seconds:
            return f"its budget of {progress.budget_seconds:g} s is used up"
        if budget.flat_after is not None and is_flat(run.history_us, after=budget.flat_after, gain=budget.flat_gain):
            return f"no gain of {budget.flat_gain:.0%} in the last {budget.flat_after} trials"
        return ""

    def end_those_done(self) -> None:
        """End the tasks that get no more trials."""
        for run in self.runs.values():
            if run.is_open and (why := self.why_done(run)):
                self.end(run, FINISHED, why)

    def is_over(self, run: TaskRun) -> bool:
        """True if nothing more of a task is to be measured now."""
        return not run.is_open or bool(self.why_over()) or bool(self.why_done(run))

    # what commands and the loop do to it

    def add(self, item: SelectedTask) -> None:
        """Take a task into the search, or back into it; one that comes back keeps the budgets of its own that `item` does not name.

        Raises:
            SelectionError: There is no such task, or it cannot be tuned.
            SessionError: It was searched with a schedule function that is not given again.
        """
        task = self._tasks.get(item.task)
        if task is None:
            raise SelectionError(f"There is no task {plain(item.task, 120)}.", "See: workbench tasks.")
        if task.untunable:
            raise SelectionError(f"Task {plain(item.task, 120)} cannot be tuned: {task.untunable}.", "Leave it out.")
        run = before = self.runs.get(item.task)
        if run is None or run.progress.state == FAILED:
            run = self.runs[item.task] = self._new_run(task)  # what failed is made anew
        trials, seconds = item.trials, item.seconds
        if before is not None:
            trials = before.progress.budget_trials if trials is None else trials
            seconds = before.progress.budget_seconds if seconds is None else seconds
        state = SEARCHING if run.is_begun else WAITING
        self._set(run, replace(run.progress, state=state, stopped_because="", budget_trials=trials, budget_seconds=seconds))

    def drop(self, task: str) -> None:
        """Search a task no more; raises SelectionError if it is none of the search."""
        self.end(self.named(task), DROPPED, "dropped by the user")

    def reopen(self, run: TaskRun, **limits: Any) -> None:
        """Let a task that had finished go on, since its limits have changed: those of the whole search, or `limits` of its own progress."""
        progress = replace(run.progress, **limits)
        if progress.state == FINISHED:
            progress = replace(progress, state=SEARCHING if run.is_begun else WAITING, stopped_because="")
        self._set(run, progress)

    def named(self, task: str) -> TaskRun:
        """A task of the search; raises SelectionError if there is none of that name."""
        run = self.runs.get(task)
        if run is None:
            raise SelectionError(f"The search has no task {plain(task, 120)}.", "See: workbench tasks.")
        return run

    def pause(self) -> None:
        """Measure nothing more; the time does not count."""
        if self._paused_at is None:
            self._paused_at = self._clock()

    def resume(self) -> None:
        """Go on after `pause`."""
        if self._paused_at is not None:
            self._paused_s += self._clock() - self._paused_at
            self._paused_at = None

    def end(self, run: TaskRun, state: str, why: str) -> None:
        """End a task."""
        self._set(run, replace(run.progress, state=state, stopped_because=why))

    def end_all(self, state: str, why: str) -> None:
        """End all tasks that have not ended."""
        for run in self.runs.values():
            if run.is_open:
                self.end(run, state, why)

    def end_search(self) -> None:
        """End all tasks because the search ends."""
        self.stopping = self.why_over() or "no task can go on"
        self.end_all(STOPPED if self.stopping == STOPPED_BY_USER else FINISHED, self.stopping)

    def note(self, run: TaskRun) -> None:
        """Store how far a task is, unless it was made anew meanwhile."""
        self._set(run, run.progress)

    def _set(self, run: TaskRun, progress: TaskProgress) -> None:
        """Store how far a task is, then reckon with it: what could not be stored is not so, for whoever writes later."""
        if self.runs.get(run.task.task) is run:
            self._note(progress)
        run.progress = progress

    def _new_run(self, task: Task) -> TaskRun:
        """A task that joins, as far as earlier searches came; of times under other conditions it is only noted that they are there."""
        request, history = self._request, self._history
        earlier = history.progress_of(task.task)
        check_schedule(request, earlier)
        progress = earlier or TaskProgress(task.task, task.name, task.weight, conditions=history.conditions)
        errors = {kind: text for kind, text in progress.first_errors.items() if kind in progress.errors}
        progress = replace(progress, name=task.name, weight=task.weight, first_errors=errors, dry_run=None if request.dry_run is None else DryRun())
        if request.dry_run is None:
            space = "" if request.schedule else chosen_space(request, earlier)
            progress = replace(progress, space=space, schedule=request.schedule)
        run = TaskRun(task, progress)
        if progress.conditions != history.conditions:
            run.restore(history.trials_of(task.task), history.conditions, history.differences)
        return run

    def _limit(self, run: TaskRun) -> int | None:
        """Most trials of a task."""
        return self.budget.per_task if run.progress.budget_trials is None else run.progress.budget_trials

    @staticmethod
    def _is_untried(run: TaskRun, pending: Sequence[Round]) -> bool:
        """True if no candidate of a task was tried, nor is going to be."""
        return run.is_open and not run.rivals and not any(round_.run is run and not round_.is_first for round_ in pending)

    def _fair_share(self, pending: Sequence[Round]) -> int:
        """Candidates of a round that leaves enough for the tasks of which no candidate was tried yet."""
        untried = sum(self._is_untried(run, pending) for run in self.runs.values())
        foreseen = self._foreseen(pending)
        if not untried or foreseen >= untried * self._request.batch:
            return self._request.batch
        return min(self._request.batch, max(_LEAST_ROUND, int(foreseen / untried)))

    def _foreseen(self, pending: Sequence[Round]) -> float:
        """Trials for which budgets have room, that of time at the pace of this search so far; infinity where nothing bounds them."""
        by_trials = math.inf if self.budget.trials is None else float(self._room(pending))
        measured, spent_s = self.trials - self._trials_before, self.now()
        if self.budget.seconds is None or not measured or spent_s <= 0.0:
            return by_trials
        under_way = sum(round_.count for round_ in pending)
        return min(by_trials, (self.budget.seconds - spent_s) * measured / spent_s - under_way)

    def _room(self, pending: Sequence[Round]) -> int:
        """Trials that the whole search may still begin."""
        if self.budget.trials is None or self._request.dry_run is not None:
            return self._request.batch
        return self.budget.trials - self.trials - sum(round_.count for round_ in pending)


def _count(run: TaskRun, pending: Sequence[Round]) -> int:
    """Candidates of a task that are under way."""
    return sum(round_.count for round_ in pending if round_.run is run)


def _said_of_dry_run(counts: DryRun | None) -> str:
    known = counts or DryRun()
    return f"{known.candidates} candidates: {known.built} built, {known.checked} checked, none measured"
