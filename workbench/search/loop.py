"""The search: gives trials to tasks until a budget, the user or the tasks themselves end it."""

from __future__ import annotations

import contextlib
import queue
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from workbench.engines.search_protocol import Artifact, Evaluator, Failed, Measured, Outcome, TaskSearch, Translation
from workbench.errors import EnvironmentFault, InputError, Interrupted
from workbench.escaping import plain
from workbench.legacy.auto_scheduler.workloads import LoggedWorkload
from workbench.records.profile import Task
from workbench.records.trial import DEVICE_LOST, OK, UNMEASURED, Trial
from workbench.records.tuning import DROPPED, FAILED, FINISHED, NOTE, SEARCHING, STOPPED, TuneRequest
from workbench.search.agenda import STOPPED_BY_USER, Agenda
from workbench.search.attention import POLL_S, Attention, SideWork
from workbench.search.control import Control
from workbench.search.error_text import full_text, last_line
from workbench.search.finals import Finals
from workbench.search.history import History
from workbench.search.producer import Built, Producer, Round, Start
from workbench.search.recorder import Recorder
from workbench.search.task_run import TaskRun
from workbench.tuning_database import TuningRecord

_MOST_LOST_IN_A_ROW = 5
_RECOVERY_S = 1.0
"""Pause after a trial that found no device, doubled each time: a driver that starts anew takes some seconds."""


class Search:
    """One run of the loop. It has three threads: this one decides and stores, one proposes and builds, one measures.

    Args:
        request: What is asked for.
        tasks: The profile's tasks by identifier.
        prepare: Makes the candidates of a task.
        evaluator: Builds and measures.
        recorder: Stores.
        history: What the session holds of searches.
        transferred: Records of other searches that may help.
        logged: Workloads of auto_scheduler logs that may help.
        control: What fronts ask for meanwhile.
        on_progress: Told what is being done, for whom it may interest.
        side_work: What else is looked after meanwhile; None for nothing.
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
        history: History,
        transferred: Sequence[TuningRecord],
        logged: Sequence[LoggedWorkload] = (),
        control: Control,
        on_progress: Callable[[str, float], None],
        side_work: SideWork | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._request = request
        self._producer = Producer(prepare, evaluator, build_timeout_s=request.measure.build_timeout_s)
        self._evaluator = evaluator
        self._recorder = recorder
        self._history = history
        self._transferred = transferred
        self._logged = logged
        self._on_progress = on_progress
        self._clock = clock
        self._started = clock()
        self._lost_in_a_row = 0
        self._refusals: list[InputError] = []
        self._agenda = Agenda(request, tasks=tasks, history=history, note=recorder.note, clock=clock)
        self._attention = Attention(control, self._agenda, exclusive=evaluator.exclusive, on_progress=on_progress, side_work=side_work)

    def run(self) -> dict[str, Any]:
        """Search; returns ``trials``, ``seconds``, ``stopped_because`` and the progress of each task.

        Raises:
            InputError: A task that is asked for does not exist or cannot be tuned, or what is asked for suits none of them.
            Interrupted: The search was cancelled; all that was measured is stored.
            EnvironmentFault: The device is gone for good, or the session cannot be written.
        """
        agenda = self._agenda
        try:
            for item in self._request.tasks:
                agenda.add(item)
            self._search()
            self._check_sense()
            self._name_winners()
        except BaseException as error:
            with contextlib.suppress(EnvironmentFault):  # a session that cannot be written is what is being reported
                agenda.end_all(STOPPED, STOPPED_BY_USER if isinstance(error, Interrupted) else "the search failed")
            raise
        finally:
            self._close()
        return {
            "trials": agenda.trials,
            "seconds": self._clock() - self._started,
            "stopped_because": agenda.stopping,
            "tasks": [run.progress.to_dict() for run in agenda.runs.values()],
        }

    def inherited(self) -> list[TuningRecord]:
        """The records of other searches that gave schedules to this one, once for each schedule."""
        return [record for run in self._agenda.runs.values() for record in run.inherited]

    def translations(self) -> list[tuple[Task, LoggedWorkload, Translation]]:
        """What each task that was begun could take of each workload of auto_scheduler logs."""
        return [(run.task, *translation) for run in self._agenda.runs.values() for translation in run.translations]

    def _check_sense(self) -> None:
        """Raise what all tasks refused alike, for instance a search space that there is not."""
        runs = self._agenda.runs.values()
        if len(self._refusals) >= len(runs) and not any(run.has_reference for run in runs):
            raise self._refusals[0]

    def _close(self) -> None:
        """End all that is still being built or measured, and answer who waits."""
        with contextlib.ExitStack() as stack:  # what one of them raises does not keep the others from their end
            for end in (self._attention.close, self._producer.close, self._evaluator.close, self._attention.refuse_rest, self._producer.halt):
                stack.callback(end)  # the last one is called first

    # the loop

    def _search(self) -> None:
        """Give out rounds; where the device is not the processor that builds, one is built while the one before it is measured."""
        pending: list[Round] = []
        depth = 1 if self._evaluator.exclusive else 2
        while True:
            self._attention.wait_for_leave()
            self._agenda.end_those_done()
            while not self._agenda.why_over() and len(pending) < depth and (run := self._agenda.next_run(pending)) is not None:
                pending.append(self._start_round(run, pending))
            if self._agenda.why_over() or not pending:
                break
            self._measure_round(pending.pop(0))
        self._agenda.end_search()
        for round_ in pending:
            self._settle(round_)

    def _start_round(self, run: TaskRun, pending: Sequence[Round]) -> Round:
        if run.is_begun:
            self._on_progress(f"search: {run.kernel}", 0.0)
            return self._producer.go_on(run, self._agenda.round_size(run, pending))
        return self._begin(run)

    def _begin(self, run: TaskRun) -> Round:
        """Have a task prepared; its earlier trials count."""
        self._on_progress(f"prepare: {run.kernel}", 0.0)
        run.is_begun = True
        known = self._history.trials_of(run.task.task)
        comparable = run.restore(known, self._history.conditions, self._history.differences)
        if run.is_open:
            run.progress = replace(run.progress, state=SEARCHING)
        self._agenda.note(run)
        start = Start(comparable, self._transferred, has_baseline=run.progress.baseline_us is not None, logged=self._logged)
        return self._producer.begin(run, start, known)

    def _measure_round(self, round_: Round) -> None:
        """Measure what the producer built: all of it afterwards where building would disturb, else each at once."""
        run = round_.run
        while self._evaluator.exclusive and not round_.work.done():
            self._wait_for(round_)
        while not self._agenda.is_over(run) and (built := self._next_built(round_)) is not None:
            round_.taken += 1
            self._measure(run, built)
        self._settle(round_)

    def _next_built(self, round_: Round) -> Built | None:
        """The next candidate to measure; None after the last one, or if no more is wanted."""
        while True:
            self._attention.wait_for_leave()
            if self._agenda.is_over(round_.run):
                return None
            try:
                return round_.built.get(timeout=POLL_S)
            except queue.Empty:
                continue

    def _wait_for(self, round_: Round) -> None:
        """Wait a little for the producer, which is told when no more of a round is wanted."""
        if self._agenda.is_over(round_.run):
            round_.halt.set()
        self._attention.wait_for(round_.work)

    def _settle(self, round_: Round) -> None:
        """Let go of a round: note what it cost, what of it was not measured, and how it failed if it did."""
        run = round_.run
        while not round_.work.done():
            self._wait_for(round_)
        run.leftover.extend(round_.discard())
        run.progress = replace(run.progress, seconds=run.progress.seconds + round_.seconds)
        if error := round_.work.exception():
            self._fail(run, error)
        elif round_.known_baseline is not None:
            self._set_reference(run, round_.known_baseline)
        self._recorder.catch_up(run, round_.known)
        if run.search is not None:
            run.progress = replace(run.progress, space_size=run.search.space_size)
            if run.search.note:
                run.progress = replace(run.progress, first_errors={NOTE: run.search.note, **run.progress.first_errors})
            if run.progress.dry_run is not None:
                run.progress = replace(run.progress, dry_run=replace(run.progress.dry_run, rejected=run.search.rejected))
        if not run.has_reference:
            run.is_begun = False  # whoever takes the task up again begins anew
        elif run.is_open and not (round_.is_first or round_.candidates or round_.halt.is_set()):
            self._agenda.end(run, FINISHED, "the whole search space was tried")
        self._agenda.note(run)

    def _set_reference(self, run: TaskRun, artifact: Artifact) -> None:
        """Compare outputs of the task's candidates with those of a baseline that has a time already."""
        if run.baseline_number is not None:
            run.artifacts[run.baseline_number] = artifact
        self._evaluator.set_reference(run.kernel, artifact)
        run.has_reference = True

    # one candidate

    def _measure(self, run: TaskRun, built: Built) -> None:
        """Measure one candidate and store it."""
        candidate, artifact = built.candidate, built.outcome
        is_baseline = candidate.origin == "baseline"
        outcome: Measured | Failed | None = None
        if isinstance(artifact, Artifact):
            self._on_progress(f"measure: {run.kernel}", 0.0)
            started = self._clock()
            try:
                outcome = self._run_on_device(run, artifact, is_baseline=is_baseline)
            except (EnvironmentFault, Interrupted):
                raise
            except Exception as error:  # noqa: BLE001 - whatever goes wrong with one task ends that task, not the search
                artifact.path.unlink(missing_ok=True)
                self._fail(run, error)
                return
            run.progress = replace(run.progress, seconds=run.progress.seconds + self._clock() - started)
        trial = self._recorder.record(run, candidate, artifact, outcome)
        self._agenda.trials += trial.status != UNMEASURED
        run.tried += not is_baseline
        if trial.status not in {DEVICE_LOST, UNMEASURED}:  # neither says anything of the schedule
            run.unlearned.put(Outcome(candidate.fingerprint, trial.time_us, trial.build_s))
        self._keep(run, trial, artifact)
        if is_baseline and trial.status in {OK, UNMEASURED}:
            run.has_reference = True
        elif is_baseline:
            self._agenda.end(run, FAILED, f"the untuned kernel has no time: {trial.status}: {plain(trial.error.strip(), 300)}")
        if outcome is not None:
            self._watch_device(trial)

    def _run_on_device(self, run: TaskRun, artifact: Artifact, *, is_baseline: bool) -> Measured | Failed:
        best_us = None if is_baseline else run.progress.best_us
        timed = self._request.dry_run is None
        if is_baseline:
            self._evaluator.set_reference(run.kernel, artifact)
        return self._attention.on_device(lambda: self._evaluator.measure(run.kernel, artifact, best_us=best_us, check=not is_baseline, timed=timed))

    def _keep(self, run: TaskRun, trial: Trial, built: Artifact | Failed) -> None:
        """Keep the library of the baseline and of the best trials only."""
        if not isinstance(built, Artifact):
            return
        run.artifacts[trial.number] = built
        wanted = {run.baseline_number, *run.finalists(self._request.finalists)}
        for number in [number for number in run.artifacts if number not in wanted]:
            run.artifacts.pop(number).path.unlink(missing_ok=True)

    def _watch_device(self, trial: Trial) -> None:
        self._lost_in_a_row = self._lost_in_a_row + 1 if trial.status == DEVICE_LOST else 0
        if not self._lost_in_a_row:
            return
        if self._lost_in_a_row >= _MOST_LOST_IN_A_ROW:
            raise EnvironmentFault(f"The device is lost: {plain(trial.error, 300)}.", "Look at the driver's log; go on later with --resume.")
        self._on_progress("wait for the device", 0.0)
        self._attention.wait_s(_RECOVERY_S * 2 ** (self._lost_in_a_row - 1))

    def _fail(self, run: TaskRun, error: BaseException) -> None:
        """End a task by an error of its own, with the full text; raise what is no error of its own."""
        if isinstance(error, EnvironmentFault | Interrupted) or not isinstance(error, Exception | SystemExit):
            raise error
        if not run.is_open:
            return
        if isinstance(error, InputError):
            self._refusals.append(error)
        run.progress = replace(run.progress, first_errors={**run.progress.first_errors, "task": full_text(error)})
        self._agenda.end(run, FAILED, f"{type(error).__name__}: {plain(last_line(str(error)), 400)}")

    # the end

    def _name_winners(self) -> None:
        """Measure the best trials of each task again, and say which one is to be used."""
        self._attention.begin_end()
        if self._request.dry_run is not None:
            return
        finals = Finals(self._evaluator, self._attention.on_device, self._history.trials_of, count=self._request.finalists)
        for run in self._agenda.runs.values():
            self._attention.take_commands()
            progress = run.progress
            if progress.final is not None or progress.best is None or progress.state == DROPPED:
                continue
            if not run.is_begun and progress.state == FINISHED:  # an earlier search was cut short before it named a winner
                round_ = self._begin(run)
                while not round_.work.done():
                    self._attention.wait_for(round_.work)
                self._settle(round_)
            if run.has_reference:
                self._on_progress(f"measure the best again: {run.kernel}", 0.0)
                finals.hold(run)
                self._agenda.note(run)
