"""Makes rounds of built candidates in a thread of its own, so that one round can be built while another is measured."""

from __future__ import annotations

import contextlib
import queue
import statistics
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field, replace

from workbench.engines.search_protocol import Artifact, Candidate, Evaluator, Experience, Failed, Outcome, TaskSearch
from workbench.legacy.auto_scheduler.workloads import LoggedWorkload
from workbench.records.profile import Task
from workbench.records.trial import BUILD_TIMEOUT
from workbench.search.task_run import TaskRun
from workbench.tuning_database import TuningRecord

_HALT_S = 0.5

_LEAST_BUILD_LIMIT_S = 1.0
_UNUSUAL = 20.0
"""A build that takes so many times the median of its task is given up: huge unrolled bodies never win, and hold up the whole round."""

_BUILDS_REMEMBERED = 64


@dataclass(frozen=True)
class Start:
    """What a task begins with.

    Attributes:
        known: Its own earlier trials under the same conditions.
        transferred: Records of other searches that may help.
        has_baseline: True if the baseline is among the known trials: it is built again, but not measured.
        logged: Workloads of auto_scheduler logs, of which one may be the task's.
    """

    known: Sequence[Experience]
    transferred: Sequence[TuningRecord]
    has_baseline: bool
    logged: Sequence[LoggedWorkload] = ()


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
        count: How many candidates are asked for.
        is_first: True if it is the baseline's.
        known: All earlier trials of the task, in its first round.
        halt: Set when no more of it is wanted.
        candidates: What was proposed; complete when `work` has ended.
        taken: How many of them were taken out of `built`.
        built: Candidates in the order in which they were proposed, then None.
        work: Ends when the producer has done its part, or raises what went wrong.
        known_baseline: The baseline's library, if it was built for its outputs only.
        seconds: Time that producing took.
    """

    run: TaskRun
    count: int
    is_first: bool = False
    known: Sequence[Experience] = ()
    halt: threading.Event = field(default_factory=threading.Event)
    candidates: list[Candidate] = field(default_factory=list)
    taken: int = 0
    built: queue.SimpleQueue[Built | None] = field(default_factory=queue.SimpleQueue)
    known_baseline: Artifact | None = None
    seconds: float = 0.0
    work: Future[None] = field(default_factory=Future)

    def discard(self) -> list[Candidate]:
        """Delete what was built and not taken, once `work` has ended; returns the candidates that were not taken."""
        with contextlib.suppress(queue.Empty):
            while True:
                built = self.built.get_nowait()
                if built is not None:
                    discard(built.outcome)
        return self.candidates[self.taken :]


@dataclass(frozen=True)
class BuildLimit:
    """The longest time for a build that was learned from those before it.

    Attributes:
        seconds: The limit.
        median_s: What the task's builds took.
        most_s: What the user allows at most.
    """

    seconds: float
    median_s: float
    most_s: float

    def __str__(self) -> str:
        return (
            f"That is a learned limit: {_UNUSUAL:g} times the median of the task's builds ({self.median_s:.2g} s), "
            f"at least {_LEAST_BUILD_LIMIT_S:g} s; --build-timeout is {self.most_s:g} s."
        )


def _explained(outcome: Artifact | Failed, limit: BuildLimit | None) -> Artifact | Failed:
    """The outcome of a build; of one that ran into a learned limit with what set that."""
    if limit is None or isinstance(outcome, Artifact) or outcome.status != BUILD_TIMEOUT:
        return outcome
    return replace(outcome, error=f"{outcome.error} {limit}")


def discard(outcome: Artifact | Failed) -> None:
    """Delete what building a candidate gave."""
    if isinstance(outcome, Artifact):
        outcome.path.unlink(missing_ok=True)


class Producer:
    """Proposes and builds, one round after another.

    Args:
        prepare: Makes the candidates of a task.
        evaluator: Builds.
        build_timeout_s: Longest time that a build may take, whatever was learned.
    """

    def __init__(self, prepare: Callable[[Task], TaskSearch], evaluator: Evaluator, *, build_timeout_s: float) -> None:
        self._prepare = prepare
        self._evaluator = evaluator
        self._build_timeout_s = build_timeout_s
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="producer")
        self._halt = threading.Event()
        self._last: Future[None] | None = None

    def begin(self, run: TaskRun, start: Start, known: Sequence[Experience]) -> Round:
        """The first round of a task: its baseline."""
        return self._submit(Round(run, 1, is_first=True, known=known), lambda round_: self._begin(round_, start))

    def go_on(self, run: TaskRun, count: int) -> Round:
        """A round of at most `count` candidates: those left over from a round that was cut short, then new ones."""
        first, run.leftover = run.leftover[:count], run.leftover[count:]
        return self._submit(Round(run, count, candidates=first), self._propose)

    def halt(self) -> None:
        """Ask for the end of all rounds, and wait a little for it: builders end in order if they can."""
        self._halt.set()
        if self._last is not None:
            wait([self._last], _HALT_S)

    def close(self) -> None:
        """Stop producing; what was built is lost."""
        self._halt.set()
        self._thread.shutdown(wait=True, cancel_futures=True)

    def _submit(self, round_: Round, make: Callable[[Round], None]) -> Round:
        def work() -> None:
            started = time.perf_counter()
            try:
                if not self._halts(round_):
                    make(round_)
            finally:
                round_.seconds = time.perf_counter() - started
                round_.built.put(None)

        round_.work = self._last = self._thread.submit(work)
        return round_

    def _halts(self, round_: Round) -> bool:
        return self._halt.is_set() or round_.halt.is_set()

    def _begin(self, round_: Round, start: Start) -> None:
        run = round_.run
        search = self._prepare(run.task)
        if start.known:
            search.restore(start.known)
        baseline = search.baseline()
        if start.transferred:  # what is known already is not taken again
            run.inherited = tuple(search.transfer(start.transferred))
        run.translations = tuple((workload, search.translate(workload)) for workload in start.logged)
        run.search = search
        for built in self._build(round_, [baseline]):
            if start.has_baseline and isinstance(built.outcome, Artifact):
                round_.known_baseline = built.outcome
            else:
                round_.built.put(built)

    def _propose(self, round_: Round) -> None:
        search = round_.run.search
        if search is None:
            raise RuntimeError("the task was never begun")
        if measured := _taken(round_.run.unlearned):
            search.learn(measured)
        wanted = round_.count - len(round_.candidates)
        if wanted > 0 and not self._halts(round_):
            round_.candidates.extend(search.propose(wanted))
        for built in self._build(round_, round_.candidates):
            round_.built.put(built)

    def _limit(self, builds_s: Sequence[float]) -> BuildLimit | None:
        """What the builds of a task so far say of the next ones; None where they say nothing that is shorter than the user's own limit."""
        if not builds_s:
            return None
        median_s = statistics.median(builds_s)
        limit = BuildLimit(max(_LEAST_BUILD_LIMIT_S, _UNUSUAL * median_s), median_s, self._build_timeout_s)
        return limit if limit.seconds < limit.most_s else None

    def _build(self, round_: Round, candidates: Sequence[Candidate]) -> Iterator[Built]:
        """Candidates as they are built, in their own order: the most promising first, the same each time."""
        waiting: dict[int, Built] = {}
        following = 0
        try:
            builds_s = round_.run.builds_s
            limit = self._limit(builds_s)
            limit_s = None if limit is None else limit.seconds
            for place, outcome in self._evaluator.build(candidates, stop=lambda: self._halts(round_), limit_s=limit_s):
                if isinstance(outcome, Artifact):
                    builds_s.append(outcome.build_s)
                    del builds_s[:-_BUILDS_REMEMBERED]
                waiting[place] = Built(candidates[place], _explained(outcome, limit))
                while following in waiting:
                    yield waiting.pop(following)
                    following += 1
        finally:
            for built in waiting.values():
                discard(built.outcome)
        lost = len(candidates) - following - len(waiting)
        if lost and not self._halts(round_):
            raise RuntimeError(f"{lost} of {len(candidates)} candidates were not built, and nothing says why")


def _taken(entries: queue.SimpleQueue[Outcome]) -> list[Outcome]:
    """All that is in a queue now."""
    taken = []
    with contextlib.suppress(queue.Empty):
        while True:
            taken.append(entries.get_nowait())
    return taken
