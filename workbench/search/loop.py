"""The search: gives trials to tasks until a budget, the user or the tasks themselves end it."""

from __future__ import annotations

import contextlib
import functools
import queue
import time
import traceback
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from typing import Any

from workbench.engines.search_protocol import Artifact, Candidate, Evaluator, Experience, Failed, Measured, TaskSearch
from workbench.errors import EnvironmentFault, Interrupted, SelectionError
from workbench.escaping import plain
from workbench.records.command import Command
from workbench.records.profile import Task
from workbench.records.selection import SelectedTask
from workbench.records.trial import BASELINE, DEVICE_LOST, OK, UNMEASURED, Trial
from workbench.records.tuning import DROPPED, FAILED, FINISHED, SEARCHING, STOPPED, WAITING, SearchBudget, TaskProgress, TuneRequest
from workbench.search.control import Control
from workbench.search.finals import finalists, hold_final
from workbench.search.gain import is_flat, most_promising
from workbench.search.producer import Built, Producer, Round, Start
from workbench.search.recorder import Recorder
from workbench.search.task_run import TaskRun
from workbench.tuning_database import TuningRecord

_POLL_S = 0.03
_MOST_LOST_IN_A_ROW = 5
_STOPPED_BY_USER = "stopped by the user"


class Search:
    """One run of the loop.

    Args:
        request: What is asked for.
        tasks: The profile's tasks by identifier.
        prepare: Makes the candidates of a task.
        evaluator: Builds and measures.
        recorder: Stores.
        known: Earlier trials of a task with their traces.
        transferred: Records of other searches that may help.
        control: What fronts ask for meanwhile.
        conditions: Digest of what makes times comparable.
        earlier_trials: Trials of the session before this search.
        on_progress: Told what is being done, for whom it may interest.
        clock: Seconds; monotonic.
    """

    def __init__(
        self,
        request: TuneRequest,
        *,
        tasks: dict[str, Task],
        prepare: Callable[[Task], TaskSearch],
        evaluator: Evaluator,
        recorder: Recorder,
        known: Callable[[str], list[Experience]],
        transferred: Sequence[TuningRecord],
        control: Control,
        conditions: str,
        earlier_trials: int,
        on_progress: Callable[[str, float], None],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._request = request
        self._budget = request.budget
        self._tasks = tasks
        self._producer = Producer(prepare, evaluator)
        self._evaluator = evaluator
        self._recorder = recorder
        self._known = known
        self._transferred = transferred
        self._control = control
        self._conditions = conditions
        self._trials = earlier_trials
        self._on_progress = on_progress
        self._clock = clock
        self._started = clock()
        self._paused = False
        self._stopping = ""
        self._lost_in_a_row = 0
        self._runs: dict[str, TaskRun] = {}

    def run(self) -> dict[str, Any]:
        """Search; returns ``trials``, ``seconds``, ``stopped_because`` and the progress of each task.

        Raises:
            Interrupted: The search was cancelled; all that was measured is stored.
            EnvironmentFault: The device is gone for good, or the session cannot be written.
        """
        try:
            for item in self._request.tasks:
                self._add(item)
            self._search()
            self._finish()
        except BaseException:
            with contextlib.suppress(EnvironmentFault):  # a session that cannot be written is what is being reported
                self._end_all(STOPPED, _STOPPED_BY_USER if self._control.cancelled else "the search failed")
            raise
        finally:
            self._evaluator.close()  # whatever is being built ends, and with it the producer's work
            self._producer.close()
        return {
            "trials": self._trials,
            "seconds": self._clock() - self._started,
            "stopped_because": self._stopping,
            "tasks": [run.progress.to_dict() for run in self._runs.values()],
        }

    # the loop

    def _search(self) -> None:
        """Give out rounds; where the device is not the processor that builds, one is built while the one before it is measured."""
        pending: list[Round] = []
        depth = 1 if self._evaluator.exclusive else 2
        while True:
            while len(pending) < depth and (run := self._next_run(busy=[round_.run for round_ in pending])) is not None:
                pending.append(self._start_round(run))
            if not pending:
                return
            self._measure_round(pending.pop(0))

    def _next_run(self, *, busy: Sequence[TaskRun]) -> TaskRun | None:
        """The task whose turn it is; None at the end, or if all that are open wait for their baseline."""
        self._obey()
        for run in self._runs.values():
            self._end_if_done(run)
        open_runs = [run for run in self._runs.values() if run.is_open]
        if not self._stopping and not open_runs:
            self._stopping = "all tasks have ended"
        if not self._stopping:
            self._stopping = self._used_up()
        if self._stopping:
            return None
        fresh = [run for run in open_runs if not run.is_begun]
        if fresh:
            return fresh[0]
        ready = [run for run in open_runs if run.has_reference and busy.count(run) < 2]
        return ready[most_promising([run.prospect() for run in ready])] if ready else None

    def _start_round(self, run: TaskRun) -> Round:
        if run.is_begun:
            self._on_progress(f"search: {run.kernel}", 0.0)
            return self._producer.go_on(run, self._round_size(run))
        self._on_progress(f"prepare: {run.kernel}", 0.0)
        run.is_begun = True
        known = self._known(run.task.task)
        run.restore(known, self._conditions)
        self._recorder.note(run)
        comparable = [item for item in known if item.trial.conditions == self._conditions and item.trial.status != UNMEASURED]
        return self._producer.begin(run, Start(comparable, self._transferred, has_baseline=run.progress.baseline_us is not None))

    def _measure_round(self, round_: Round) -> None:
        """Measure what the producer built: all of it afterwards where building would disturb, else each at once."""
        run = round_.run
        while self._evaluator.exclusive and not round_.work.done():
            self._wait(round_.work)
        started = self._clock()
        while (built := self._next_built(round_)) is not None:
            if self._has_to_halt() or not run.is_open:
                break
            self._measure(run, built)
        if self._control.cancelled:
            raise Interrupted("The search was stopped.", "What was measured is saved: go on with --resume.")
        if self._stopping and not round_.work.done():
            return
        self._settle(round_, seconds=self._clock() - started)

    def _settle(self, round_: Round, *, seconds: float) -> None:
        """Note what a round cost, and how it failed if it did."""
        run = round_.run
        try:
            while not round_.work.done():
                self._wait(round_.work)
            count = round_.work.result()
        except (EnvironmentFault, Interrupted):
            raise
        except Exception as error:  # noqa: BLE001 - whatever goes wrong with one task ends that task, not the search
            self._fail(run, error)
            return
        for artifact in round_.known_baseline:
            run.artifacts[run.baseline_number or BASELINE] = artifact
            self._evaluator.set_reference(run.kernel, artifact)
            run.has_reference = True
        progress = replace(run.progress, seconds=run.progress.seconds + round_.seconds + seconds)
        if run.search is not None:
            progress = replace(progress, space_size=run.search.space_size)
        run.progress = progress
        if count == 0 and run.is_open:
            self._end(run, FINISHED, "the whole search space was tried")
        self._recorder.note(run)

    def _next_built(self, round_: Round) -> Built | None:
        """The next candidate to measure; None after the last one."""
        while True:
            self._obey()
            try:
                return round_.built.get(timeout=_POLL_S)
            except queue.Empty:
                if self._has_to_halt():
                    return None

    def _wait(self, work: Future[int]) -> None:
        self._obey()
        with contextlib.suppress(TimeoutError):
            work.exception(timeout=_POLL_S)

    def _measure(self, run: TaskRun, built: Built) -> None:
        """Measure one candidate and store it."""
        candidate, artifact = built.candidate, built.outcome
        is_baseline = candidate.origin == "baseline"
        outcome: Measured | Failed | None = None
        if isinstance(artifact, Artifact):
            self._on_progress(f"measure: {run.kernel}", 0.0)
            if is_baseline:
                self._evaluator.set_reference(run.kernel, artifact)
            best_us = None if is_baseline else run.progress.best_us
            outcome = self._evaluator.measure(run.kernel, artifact, best_us=best_us, check=not is_baseline, timed=self._request.dry_run is None)
        trial = self._recorder.record(run, candidate, artifact, outcome)
        self._trials += trial.status != UNMEASURED
        run.tried += 1
        run.unlearned.append((candidate.fingerprint, trial.time_us))
        self._keep(run, trial, artifact)
        self._watch_device(trial)
        if is_baseline and trial.status in (OK, UNMEASURED):
            run.has_reference = True
        elif is_baseline:
            why = f"the untuned kernel has no time: {trial.status}: {plain(trial.error.strip(), 300)}"
            self._end(run, FAILED, why)

    def _keep(self, run: TaskRun, trial: Trial, built: Artifact | Failed) -> None:
        """Keep the library of the baseline and of the best trials only."""
        if not isinstance(built, Artifact):
            return
        run.artifacts[trial.number] = built
        wanted = {run.baseline_number, *finalists(run, self._request.finalists)}
        for number in [number for number in run.artifacts if number not in wanted]:
            run.artifacts.pop(number).path.unlink(missing_ok=True)

    def _watch_device(self, trial: Trial) -> None:
        self._lost_in_a_row = self._lost_in_a_row + 1 if trial.status == DEVICE_LOST else 0
        if self._lost_in_a_row >= _MOST_LOST_IN_A_ROW:
            raise EnvironmentFault(f"The device is lost: {plain(trial.error, 300)}.", "Look at the driver's log; go on later with --resume.")

    def _build_one(self, candidate: Candidate) -> Artifact | Failed:
        for _, outcome in self._evaluator.build([candidate], stop=self._is_cancelled):
            return outcome
        raise Interrupted("The search was stopped.")

    # ends

    def _round_size(self, run: TaskRun) -> int:
        """Candidates of the next round: no more than any budget allows."""
        limits = [self._request.batch]
        if self._request.dry_run is not None:
            limits.append(self._request.dry_run + 1 - run.tried)
        if self._budget.trials is not None:
            limits.append(self._budget.trials - self._trials)
        limits.extend(limit - run.progress.trials for limit in (self._budget.per_task, run.progress.budget_trials) if limit is not None)
        return max(min(limits), 1)

    def _end_if_done(self, run: TaskRun) -> None:
        """End a task whose own budget is used up, or that gets no better."""
        if not run.is_open or not run.has_reference:
            return
        progress, budget = run.progress, self._budget
        if self._request.dry_run is not None:
            if run.tried > self._request.dry_run:
                self._end(run, FINISHED, f"{self._request.dry_run} candidates were built and checked, none was measured")
            return
        limit = progress.budget_trials if progress.budget_trials is not None else budget.per_task
        if limit is not None and progress.trials >= limit:
            self._end(run, FINISHED, f"its budget of {limit} trials is used up")
        elif progress.budget_seconds is not None and progress.seconds >= progress.budget_seconds:
            self._end(run, FINISHED, f"its budget of {progress.budget_seconds:g} s is used up")
        elif budget.flat_after is not None and is_flat(run.history_us, after=budget.flat_after, gain=budget.flat_gain):
            self._end(run, FINISHED, f"no gain of {budget.flat_gain:.0%} in the last {budget.flat_after} trials")

    def _used_up(self) -> str:
        budget = self._budget
        if budget.trials is not None and self._trials >= budget.trials:
            return f"the budget of {budget.trials} trials is used up"
        if budget.seconds is not None and self._clock() - self._started >= budget.seconds:
            return f"the budget of {budget.seconds:g} s is used up"
        return ""

    def _end(self, run: TaskRun, state: str, why: str) -> None:
        run.progress = replace(run.progress, state=state, stopped_because=why)
        self._recorder.note(run)

    def _end_all(self, state: str, why: str) -> None:
        for run in self._runs.values():
            if run.is_open:
                self._end(run, state, why)

    def _fail(self, run: TaskRun, error: Exception) -> None:
        """End a task by an error of its own, with the full text."""
        text = "".join(traceback.format_exception(error))
        summary = f"{type(error).__name__}: {plain(str(error).strip(), 400)}"
        run.progress = replace(run.progress, first_errors={**run.progress.first_errors, "task": text[-20_000:]})
        self._end(run, FAILED, summary)

    def _finish(self) -> None:
        """Name winners, and say of each task how it ended."""
        why = self._stopping
        self._end_all(FINISHED if why != _STOPPED_BY_USER else STOPPED, why)
        for run in self._runs.values():
            if self._control.has_news() and self._control.cancelled:
                raise Interrupted("The search was stopped.")
            if run.search is None or run.progress.final is not None or not run.times or run.progress.state == DROPPED:
                continue
            self._on_progress(f"measure the best again: {run.kernel}", 0.0)
            final = hold_final(run, self._evaluator, count=self._request.finalists, rebuild=self._rebuild)
            run.progress = replace(run.progress, final=final)
            self._recorder.note(run)
        self._control.refuse_rest()

    def _rebuild(self, run: TaskRun, number: int) -> Artifact | Failed:
        """Build a trial of an earlier search again."""
        if run.search is None:
            raise RuntimeError("the task was never prepared")
        trace = next((known.trace for known in self._known(run.task.task) if known.trial.number == number), "")
        if not trace and number != (run.baseline_number or BASELINE):
            return Failed("rejected", "The trial has no trace.")
        return self._build_one(run.search.rebuild(trace))

    # commands

    def _has_to_halt(self) -> bool:
        """True if what is left of a round is not wanted any more."""
        return bool(self._stopping) or (self._budget.seconds is not None and self._clock() - self._started >= self._budget.seconds)

    def _is_cancelled(self) -> bool:
        return self._control.has_news() and self._control.cancelled

    def _obey(self) -> None:
        """Do what fronts asked for; while paused, wait for more."""
        while True:
            for command in self._control.commands():
                self._control.answer(command, functools.partial(self._do, command))
            if self._control.cancelled:
                raise Interrupted("The search was stopped.", "What was measured is saved: go on with --resume.")
            if not self._paused or self._stopping:
                return
            time.sleep(_POLL_S)

    def _do(self, command: Command, arguments: dict[str, Any]) -> dict[str, Any] | None:
        if command.kind == "pause":
            self._paused = True
        elif command.kind == "resume":
            self._paused = False
        elif command.kind == "stop":
            self._stopping = _STOPPED_BY_USER
        elif command.kind == "add":
            self._add(SelectedTask(str(arguments["task"]), "", arguments.get("trials"), arguments.get("seconds")))
        elif command.kind == "drop":
            self._end(self._named(arguments["task"]), DROPPED, "dropped by the user")
        elif arguments.get("task") is not None:
            run = self._named(arguments["task"])
            run.progress = replace(run.progress, budget_trials=arguments.get("trials"), budget_seconds=arguments.get("seconds"))
            if run.progress.state == FINISHED:
                run.progress = replace(run.progress, state=SEARCHING, stopped_because="")
            self._recorder.note(run)
        else:
            self._budget = replace(self._budget, **{name: arguments[name] for name in vars(SearchBudget()) if name in arguments})
        return None

    def _named(self, task: object) -> TaskRun:
        run = self._runs.get(str(task))
        if run is None:
            raise SelectionError(f"The search has no task {plain(str(task), 120)}.", "See: workbench tasks.")
        return run

    def _add(self, item: SelectedTask) -> None:
        """Take a task into the search, or back into it."""
        task = self._tasks.get(item.task)
        if task is None:
            raise SelectionError(f"There is no task {plain(item.task, 120)}.", "See: workbench tasks.")
        if task.untunable:
            raise SelectionError(f"Task {plain(item.task, 120)} cannot be tuned: {task.untunable}.", "Leave it out.")
        run = self._runs.get(item.task)
        if run is None:
            run = TaskRun(task, TaskProgress(task.task, task.name, task.weight, conditions=self._conditions))
            self._runs[item.task] = run
        state = SEARCHING if run.is_begun else WAITING
        run.progress = replace(run.progress, state=state, stopped_because="", budget_trials=item.trials, budget_seconds=item.seconds)
        self._recorder.note(run)
