"""What an engine gives to a search: candidates of one task, and what builds and measures them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from workbench.legacy.auto_scheduler.workloads import LoggedWorkload
from workbench.records.trial import Check, Trial
from workbench.tuning_database import TuningRecord


@dataclass(frozen=True)
class Candidate:
    """A schedule that can be built.

    Attributes:
        trace: The schedule in TVM's own form (JSON text); empty for a baseline without one.
        fingerprint: Structural hash of the scheduled module; equal ones are one candidate.
        origin: Where it is from (`workbench.records.trial.Trial.origin`).
        program: What a building process compiles.
        decisions: Sampling decisions in words.
        search_s: Seconds that finding it took.
        cpu_program: What a processor runs in its place where the device is not here: for a baseline the kernel without any schedule, for a schedule
            on tensor cores the same without their intrinsics; empty where the program itself has a form for processors.
    """

    trace: str
    fingerprint: str
    origin: str
    program: bytes = field(repr=False)
    decisions: tuple[str, ...] = ()
    search_s: float = 0.0
    cpu_program: bytes = field(default=b"", repr=False)


@dataclass(frozen=True)
class Failed:
    """Why a candidate was not built or measured: a status of `workbench.records.trial.FAILURES` and the full text."""

    status: str
    error: str
    seconds: float = 0.0


@dataclass(frozen=True)
class Artifact:
    """A built candidate: a library on disk.

    Attributes:
        path: The library.
        build_s: Seconds that building took.
        unchecked: Why its output cannot be checked where the device is not here; then there is no library.
    """

    path: Path
    build_s: float
    unchecked: str = ""


@dataclass(frozen=True)
class Measured:
    """What measuring a candidate gave.

    Attributes:
        times_us: Every measured time, each the mean of `runs` runs; empty if it was only checked.
        runs: Runs behind each.
        check: Its output beside the reference; None if it is the reference itself.
        run_s: Seconds in the measuring process.
    """

    times_us: tuple[float, ...]
    runs: int
    check: Check | None
    run_s: float


@dataclass(frozen=True)
class Outcome:
    """What became of a candidate.

    Attributes:
        fingerprint: The candidate's.
        time_us: Median of its measured times; None if it failed.
        build_s: Seconds that building took; 0 if that is not known.
    """

    fingerprint: str
    time_us: float | None
    build_s: float = 0.0


@dataclass(frozen=True)
class Experience:
    """A trial that was measured before, and its trace."""

    trial: Trial
    trace: str


@dataclass(frozen=True)
class Translation:
    """What a kernel can take of one workload of an auto_scheduler log.

    Attributes:
        unlike: Why the workload is another one than the kernel; empty if it is the kernel's.
        fitting: How many steps fit before that showed; the more, the more alike they are.
        tried: How many records were tried, the fastest first.
        claimed_us: The time that the log claims for each translated schedule, by the schedule's fingerprint.
        untranslatable: How many records have no schedule here, by the step and the reason.
    """

    unlike: str = ""
    fitting: int = 0
    tried: int = 0
    claimed_us: Mapping[str, float] = field(default_factory=dict)
    untranslatable: Mapping[str, int] = field(default_factory=dict)


class TaskSearch(Protocol):
    """The search space of one task and what is known of it. Any method may raise any error: it ends this task only.

    Attributes:
        space_size: Number of distinct schedules; None if it is not known.
        note: What to know of the search, such as that no cost model guides it; empty for nothing.
        workload: The task's TVM form for databases: structural hash and module.
        arguments: The kernel's arguments for databases, JSON-ready.
    """

    space_size: int | None
    note: str
    workload: tuple[str, str]
    arguments: list[object]

    @property
    def rejected(self) -> int:
        """How often decisions gave no valid schedule so far, and so no candidate; may be asked while another thread has candidates proposed."""
        ...

    def baseline(self) -> Candidate:
        """The untuned kernel."""
        ...

    def propose(self, count: int) -> tuple[Candidate, ...]:
        """At most `count` candidates that were never proposed nor restored; none if the space holds no more."""
        ...

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Take note of what became of candidates."""
        ...

    def restore(self, known: Sequence[Experience]) -> None:
        """Take up trials of an earlier search of this task: they are learned from, and not proposed again."""
        ...

    def transfer(self, records: Sequence[TuningRecord]) -> Sequence[TuningRecord]:
        """Have schedules of other searches on the same target tried first: of the same kernel as they are, of a like one fitted to this one.

        Called after `restore` and `baseline`.

        Returns:
            The records that gave a schedule which is new; each gave one.
        """
        ...

    def translate(self, workload: LoggedWorkload) -> Translation:
        """Have schedules of an auto_scheduler log tried first, if they are of this kernel. Called after `restore` and `baseline`."""
        ...

    def rebuild(self, trace: str) -> Candidate:
        """The candidate of a recorded trace; one that brings code of its own into the kernel needs trust."""
        ...


class Evaluator(Protocol):
    """Builds and measures; owns processes, which `close` ends. A crash, hang or lost device costs one candidate.

    Building may go on in one thread while another one measures; otherwise it is not safe for use from several threads.

    Attributes:
        exclusive: True if kernels run on the processors that build: then nothing else may run while something is measured.
        unmeasurable: Why nothing can be measured here; empty if it can.
    """

    exclusive: bool
    unmeasurable: str

    def build(
        self, candidates: Sequence[Candidate], *, stop: Callable[[], bool], limit_s: float | None = None
    ) -> Iterator[tuple[int, Artifact | Failed]]:
        """Build candidates, several at once; yields place and outcome in order of completion.

        Args:
            candidates: What to build.
            stop: Ends it early when it says so.
            limit_s: Longest time for one of them, if that is less than the options allow.
        """
        ...

    def set_reference(self, kernel: str, artifact: Artifact) -> None:
        """Say what the outputs of a kernel's candidates are compared with: those of its untuned form."""
        ...

    def measure(self, kernel: str, artifact: Artifact, *, best_us: float | None, check: bool, timed: bool = True) -> Measured | Failed:
        """Run one candidate: check its output first, then time it, with the fewer runs the more hopeless it is beside `best_us`."""
        ...

    def compare(self, kernel: str, artifacts: Sequence[Artifact], *, rounds: int) -> list[list[float]] | Failed:
        """Time several artifacts by turns; returns microseconds by artifact and round, of slow ones in the first rounds only."""
        ...

    def close(self) -> None:
        """End all processes; may be called from another thread to end what runs."""
        ...
