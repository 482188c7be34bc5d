"""Makes rounds of built candidates in a thread of its own, so that one round can be built while another is measured."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from workbench.engines.search_protocol import Artifact, Candidate, Evaluator, Experience, Failed, TaskSearch
from workbench.records.profile import Task
from workbench.search.task_run import TaskRun
from workbench.tuning_database import TuningRecord


@dataclass(frozen=True)
class Start:
    """What a task begins with.

    Attributes:
        known: Its own earlier trials under the same conditions.
        transferred: Records of other searches that may help.
        has_baseline: True if the baseline is among the known trials: it is built again, but not measured.
    """

    known: Sequence[Experience]
    transferred: Sequence[TuningRecord]
    has_baseline: bool


@dataclass(frozen=True)
class Built:
    """A candidate and what building it gave."""

    candidate: Candidate
    outcome: Artifact | Failed


@dataclass
class Round:
    """Candidates of one task on their way; `built` fills while the producer works.

    Attributes:
        run: The task.
        built: Candidates in the order in which they can be measured, then None.
        work: Ends with the number of candidates, or raises what went wrong.
        known_baseline: Set if the baseline was built for its outputs only.
        seconds: Time that producing took.
    """

    run: TaskRun
    built: queue.SimpleQueue[Built | None] = field(default_factory=queue.SimpleQueue)
    known_baseline: list[Artifact] = field(default_factory=list)
    seconds: float = 0.0
    work: Future[int] = field(default_factory=Future)


class Producer:
    """Proposes and builds, one round after another.

    Args:
        prepare: Makes the candidates of a task.
        evaluator: Builds.
    """

    def __init__(self, prepare: Callable[[Task], TaskSearch], evaluator: Evaluator) -> None:
        self._prepare = prepare
        self._evaluator = evaluator
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="producer")
        self._halt = threading.Event()

    def begin(self, run: TaskRun, start: Start) -> Round:
        """The first round of a task: its baseline."""
        return self._submit(Round(run), lambda round_: self._begin(round_, start))

    def go_on(self, run: TaskRun, count: int) -> Round:
        """A round of at most `count` new candidates."""
        return self._submit(Round(run), lambda round_: self._propose(round_, count))

    def close(self) -> None:
        """Stop producing; what was built is lost."""
        self._halt.set()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _submit(self, round_: Round, make: Callable[[Round], int]) -> Round:
        def work() -> int:
            started = time.perf_counter()
            try:
                return make(round_)
            finally:
                round_.seconds = time.perf_counter() - started
                round_.built.put(None)

        round_.work = self._thread.submit(work)
        return round_

    def _begin(self, round_: Round, start: Start) -> int:
        run = round_.run
        search = self._prepare(run.task)
        if start.transferred:
            search.transfer(start.transferred)
        if start.known:
            search.restore(start.known)
        baseline = search.baseline()
        run.search = search
        for _, outcome in self._evaluator.build([baseline], stop=self._halt.is_set):
            if start.has_baseline and isinstance(outcome, Artifact):
                round_.known_baseline.append(outcome)
            else:
                round_.built.put(Built(baseline, outcome))
        return 1

    def _propose(self, round_: Round, count: int) -> int:
        search = round_.run.search
        if search is None:
            raise RuntimeError("the task was never begun")
        measured, round_.run.unlearned = round_.run.unlearned, []
        if measured:
            search.learn(measured)
        candidates = list(search.propose(count))
        waiting: dict[int, Built] = {}
        following = 0
        for place, outcome in self._evaluator.build(candidates, stop=self._halt.is_set):
            waiting[place] = Built(candidates[place], outcome)
            while following in waiting:  # the most promising first, the same each time
                round_.built.put(waiting.pop(following))
                following += 1
        return len(candidates)
