"""A search without TVM: kernels whose schedules, times and faults are written down, and a log of who did what when."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workbench.engines import search_protocol
from workbench.engines.record_protocol import TrialRecords
from workbench.engines.relax.records import MetaScheduleRecords
from workbench.engines.search_protocol import Artifact, Candidate, Evaluator, Experience, Failed, Measured, TaskSearch, Translation
from workbench.legacy.auto_scheduler.workloads import LoggedWorkload
from workbench.records.command import Command
from workbench.records.conditions import Differences, unknown_differences
from workbench.records.profile import Task
from workbench.records.selection import SelectedTask
from workbench.records.trial import Check, MeasureOptions, Trial
from workbench.records.tuning import SearchBudget, TaskProgress, TuneRequest
from workbench.search import control as control_module
from workbench.search.attention import SideWork
from workbench.search.control import ADDRESSEE, Control
from workbench.search.history import History
from workbench.search.loop import Search
from workbench.search.recorder import Recorder
from workbench.session import SessionDirectory
from workbench.store import Store
from workbench.tuning_database import TuningRecord

HANG_S = 20.0
BASELINE_US = 100.0
TARGET: dict[str, Any] = {"kind": "llvm", "mcpu": "znver5", "num-cores": 2, "keys": ["cpu"], "tag": ""}


def open_records(folder: Path) -> MetaScheduleRecords:
    """The records of a search on the target."""
    return MetaScheduleRecords(folder, TARGET)


RIGHT = Check(max_abs=1e-6, max_rel=1e-6, mismatches=0, elements=64, abs_tolerance=1e-4, rel_tolerance=1e-4)
WRONG = Check(max_abs=2.0, max_rel=1.0, mismatches=3, elements=64, abs_tolerance=1e-4, rel_tolerance=1e-4)
BASELINE_SUFFIX = "untuned"

Outcome = float | tuple[float, ...] | Failed | Measured | Exception


class Hold:
    """A place where a thread stops until it is let go, so that a test can look around meanwhile."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._leave = threading.Event()

    def pass_through(self, stop: Callable[[], bool] = lambda: False) -> None:
        """Called by the thread that is held."""
        self.reached.set()
        while not self._leave.wait(0.005):
            if stop():
                return

    def let_go(self) -> None:
        self._leave.set()


def trace_of(number: int) -> str:
    """A trace that records can hold."""
    return json.dumps([[["SamplePerfectTile", ["l2"], [2, 64], ["v5", "v6"]]], [[0, [number, 4]]]])


def number_of(trace: str) -> int:
    return int(json.loads(trace)[1][0][1][0])


@dataclass
class Bench:
    """What the fakes share: outcomes by fingerprint (``<kernel>/<number>``, or ``<kernel>/untuned``), faults, holds and the log.

    Attributes:
        sizes: Schedules in the space of each kernel; 1000 where it is not said.
        times: What measuring gives: microseconds, several of them, a failure, or an error to raise; `BASELINE_US` less the number, if not said.
        builds: Failures of building.
        final_times: What the last measurement gives.
        note_of_search: What is to be known of each search.
        rejections: Decisions of a kernel that give no valid schedule, each time candidates are proposed.
        inherited: How many records of other searches a kernel can use; all, if not said.
        lost: Candidates of which building says nothing.
        spoilers: Those that spoil the last measurement.
        faults: Errors to raise in ``prepare``, ``propose``, ``learn``, ``restore``, ``rebuild`` or ``compare`` of a kernel.
        holds: Where threads stop: ``build <fingerprint>``, ``measure <fingerprint>``, ``propose <kernel>``,
            ``learn <kernel>``, ``compare <kernel>``.
        on_measure: Told of each fingerprint before it is measured, in the thread that measures.
        log: Who did what, in order.
    """

    sizes: dict[str, int] = field(default_factory=dict)
    times: dict[str, Outcome] = field(default_factory=dict)
    builds: dict[str, Failed] = field(default_factory=dict)
    final_times: dict[str, float] = field(default_factory=dict)
    note_of_search: str = ""
    rejections: dict[str, int] = field(default_factory=dict)
    inherited: dict[str, int] = field(default_factory=dict)
    lost: set[str] = field(default_factory=set)
    spoilers: set[str] = field(default_factory=set)
    faults: dict[tuple[str, str], BaseException] = field(default_factory=dict)
    holds: dict[str, Hold] = field(default_factory=dict)
    on_measure: Callable[[str], None] = lambda fingerprint: None
    log: list[str] = field(default_factory=list)

    def note(self, entry: str) -> None:
        self.log.append(entry)

    def said(self, verb: str) -> list[str]:
        """What was done with one verb, in order."""
        return [entry.partition(" ")[2] for entry in self.log if entry.startswith(f"{verb} ")]

    def raise_fault(self, place: str, kernel: str) -> None:
        fault = self.faults.get((place, kernel))
        if fault is not None:
            raise fault

    def hold(self, place: str) -> Hold:
        return self.holds.setdefault(place, Hold())

    def wait_at(self, place: str, stop: Callable[[], bool] = lambda: False) -> None:
        if place in self.holds:
            self.holds[place].pass_through(stop)


class FakeTaskSearch:
    """Proposes the schedules of a kernel by number, those beside the fastest one first."""

    def __init__(self, bench: Bench, kernel: str) -> None:
        bench.note(f"prepare {kernel}")
        bench.raise_fault("prepare", kernel)
        self._bench = bench
        self._kernel = kernel
        self._open = list(range(1, bench.sizes.get(kernel, 1000) + 1))
        self._fastest: tuple[float, int] | None = None
        self.note = bench.note_of_search
        self.space_size: int | None = len(self._open)
        self.rejected = 0
        graph = json.dumps({"root_index": 0, "nodes": [kernel]}).encode()
        self.workload = ("123", base64.b64encode(len(graph).to_bytes(8, "little") + graph).decode())
        self.arguments: list[object] = [["TENSOR", "float32", [16, 16]]]

    def baseline(self) -> Candidate:
        return Candidate("", f"{self._kernel}/{BASELINE_SUFFIX}", "baseline", b"")

    def propose(self, count: int) -> tuple[Candidate, ...]:
        self._bench.wait_at(f"propose {self._kernel}")
        self._bench.note(f"propose {self._kernel} {count}")
        self._bench.raise_fault("propose", self._kernel)
        self.rejected += self._bench.rejections.get(self._kernel, 0)
        near = self._fastest[1] if self._fastest else 0
        chosen = sorted(self._open, key=lambda number: (abs(number - near), number))[:count]
        self._open = [number for number in self._open if number not in chosen]
        return tuple(self._candidate(number) for number in chosen)

    def learn(self, outcomes: Sequence[search_protocol.Outcome]) -> None:
        self._bench.wait_at(f"learn {self._kernel}")
        self._bench.note(f"learn {self._kernel} {' '.join(outcome.fingerprint.rpartition('/')[2] for outcome in outcomes)}")
        self._bench.raise_fault("learn", self._kernel)
        for outcome in outcomes:
            number, time_us = outcome.fingerprint.rpartition("/")[2], outcome.time_us
            if time_us is not None and number.isdigit():
                self._fastest = min(self._fastest or (time_us, int(number)), (time_us, int(number)))

    def restore(self, known: Sequence[Experience]) -> None:
        self._bench.note(f"restore {self._kernel} {len(known)}")
        self._bench.raise_fault("restore", self._kernel)
        tried = {number_of(item.trace) for item in known if item.trace}
        self._open = [number for number in self._open if number not in tried]

    def transfer(self, records: Sequence[TuningRecord]) -> Sequence[TuningRecord]:
        self._bench.note(f"transfer {self._kernel} {len(records)}")
        return records[: self._bench.inherited.get(self._kernel, len(records))]

    def translate(self, workload: LoggedWorkload) -> Translation:
        """The kernel that a workload's key names has its records as its first schedules."""
        if self._kernel not in workload.key:
            return Translation(unlike="stage 0 is another one", fitting=len(self._kernel))
        claimed_us = {f"{self._kernel}/{number}": item.time_us for number, item in enumerate(workload.records, start=1)}
        return Translation(tried=len(claimed_us) + 1, claimed_us=claimed_us, untranslatable={"step 3 (StorageAlign): no": 1})

    def rebuild(self, trace: str) -> Candidate:
        self._bench.raise_fault("rebuild", self._kernel)
        return self._candidate(number_of(trace)) if trace else self.baseline()

    def _candidate(self, number: int) -> Candidate:
        return Candidate(trace_of(number), f"{self._kernel}/{number}", "search", b"", decisions=(f"tile {number} 4",))


class FakeEvaluator:
    """Builds libraries that hold nothing but a fingerprint, and measures what the bench says."""

    def __init__(self, bench: Bench, scratch: Path, *, exclusive: bool = True, unmeasurable: str = "") -> None:
        self._bench = bench
        self._scratch = scratch
        self._made = 0
        self._closed = threading.Event()
        self._references: dict[str, str] = {}
        self.exclusive = exclusive
        self.unmeasurable = unmeasurable
        scratch.mkdir(parents=True, exist_ok=True)

    def build(
        self, candidates: Sequence[Candidate], *, stop: Callable[[], bool], limit_s: float | None = None
    ) -> Iterator[tuple[int, Artifact | Failed]]:
        for place in [*range(1, len(candidates)), *range(min(len(candidates), 1))]:  # the first one last: the order is not that of the end
            fingerprint = candidates[place].fingerprint
            self._bench.wait_at(f"build {fingerprint}", lambda: stop() or self._closed.is_set())
            if stop() or self._closed.is_set():
                return
            if fingerprint in self._bench.lost:
                continue
            self._bench.note(f"build {fingerprint}")
            yield place, self._bench.builds.get(fingerprint) or self._artifact(fingerprint)

    def set_reference(self, kernel: str, artifact: Artifact) -> None:
        self._references[kernel] = artifact.path.read_text()

    def measure(self, kernel: str, artifact: Artifact, *, best_us: float | None, check: bool, timed: bool = True) -> Measured | Failed:
        fingerprint = artifact.path.read_text()
        assert self._references[kernel] == f"{kernel}/{BASELINE_SUFFIX}"
        assert check is not fingerprint.endswith(BASELINE_SUFFIX)
        self._bench.on_measure(fingerprint)
        self._bench.note(f"begin {fingerprint}")
        self._bench.wait_at(f"measure {fingerprint}", self._closed.is_set)
        self._bench.note(f"{'measure' if timed else 'check'} {fingerprint}")
        outcome = self._bench.times.get(fingerprint, self._usual(fingerprint))
        if isinstance(outcome, Exception):
            raise outcome
        if isinstance(outcome, Failed | Measured):
            return outcome
        times_us = outcome if isinstance(outcome, tuple) else (outcome,) * 3
        return Measured(times_us if timed else (), 10 if timed else 0, RIGHT if check else None, 0.25)

    def compare(self, kernel: str, artifacts: Sequence[Artifact], *, rounds: int) -> list[list[float]] | Failed:
        fingerprints = [artifact.path.read_text() for artifact in artifacts]
        self._bench.note(f"compare {' '.join(fingerprints)}")
        self._bench.wait_at(f"compare {kernel}", self._closed.is_set)
        self._bench.raise_fault("compare", kernel)
        if self._bench.spoilers.intersection(fingerprints):
            return Failed("run_error", "it crashed in the last measurement")
        return [[self._final(key) * (1.0 + 0.001 * (turn % 3)) for turn in range(rounds)] for key in fingerprints]

    def close(self) -> None:
        self._bench.note("close")
        self._closed.set()

    def _artifact(self, fingerprint: str) -> Artifact:
        path = self._scratch / f"{self._made}.so"
        self._made += 1
        path.write_text(fingerprint)
        return Artifact(path, 0.125)

    def _final(self, fingerprint: str) -> float:
        usual = self._bench.times.get(fingerprint, self._usual(fingerprint))
        return self._bench.final_times.get(fingerprint, usual if isinstance(usual, float) else 1.0)

    @staticmethod
    def _usual(fingerprint: str) -> float:
        number = fingerprint.rpartition("/")[2]
        return BASELINE_US if number == BASELINE_SUFFIX else BASELINE_US - int(number) / 16


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Rig:
    """A session with a real store, and searches in it.

    Attributes:
        directory: The session.
        bench: What the fakes do.
        scratch: Where libraries are built.
        exclusive: Whether kernels run on the processors that build.
        conditions: Digest of what makes times comparable.
        differences: Says in what others differ.
        clock: The time.
        front_gone: Set to end the search.
        progress: What was being done, as the search told.
        side_work: Makes what the search looks after besides, on its own store; None for nothing.
    """

    directory: SessionDirectory
    bench: Bench
    scratch: Path
    exclusive: bool = True
    conditions: str = "here"
    differences: Differences = unknown_differences
    clock: Clock = field(default_factory=Clock)
    front_gone: threading.Event = field(default_factory=threading.Event)
    progress: list[str] = field(default_factory=list)
    side_work: Callable[[Store], SideWork] | None = None
    command: int = 0

    def tasks(self) -> dict[str, Task]:
        """The profile's tasks by the names of their kernels."""
        with self.directory.store() as store:
            profile = store.profile()
        assert profile is not None
        return {task.name: task for task in profile.tasks}

    def request(self, *kernels: str, selected: dict[str, dict[str, Any]] | None = None, **changes: Any) -> TuneRequest:
        """A request for some kernels, or all; limits of the budget are given as they are."""
        tasks = self.tasks()
        limits = {name: changes.pop(name) for name in vars(SearchBudget()) if name in changes}
        chosen = tuple(SelectedTask(tasks[name].task, name, **(selected or {}).get(name, {})) for name in kernels or tasks)
        return TuneRequest(chosen, budget=SearchBudget(**limits), **changes)

    def search(self, *kernels: str, **changes: Any) -> dict[str, Any]:
        """Run a search to its end, however it ends; the progress comes by kernel."""
        request = self.request(*kernels, **changes)
        self.bench.log.clear()
        with self.directory.store() as store:
            self.command = store.add_command("tune", {})
            store.take_command(["tune"])
            evaluator = self._evaluator(request)
            records = self.directory.path / "records"
            recorder = Recorder(self.directory.store, records, self._open_records, conditions=self.conditions, options=MeasureOptions())
            try:
                result = Search(
                    request,
                    tasks={task.task: task for task in self.tasks().values()},
                    prepare=self._prepare,
                    evaluator=evaluator,
                    recorder=recorder,
                    history=History(
                        conditions=self.conditions,
                        trials=store.trials.count([task.task for task in self.tasks().values()]),
                        progress_of=store.trials.progress_of,
                        trials_of=lambda task: [Experience(trial, trace) for trial, trace in store.trials.with_traces(task)],
                        differences=self.differences,
                    ),
                    transferred=(),
                    control=Control(store, self.command, front_gone=self.front_gone.is_set),
                    on_progress=lambda phase, share: self.progress.append(phase),
                    side_work=None if self.side_work is None else self.side_work(store),
                    clock=self.clock,
                ).run()
            finally:
                recorder.close()
        return {**result, "tasks": {values["name"]: TaskProgress.from_dict(values) for values in result["tasks"]}}

    def _prepare(self, task: Task) -> TaskSearch:
        return FakeTaskSearch(self.bench, task.name)

    def _evaluator(self, request: TuneRequest) -> Evaluator:
        del request
        return FakeEvaluator(self.bench, self.scratch, exclusive=self.exclusive)

    def _open_records(self, folder: Path) -> TrialRecords:
        return open_records(folder)

    # what a front sees and does

    def trials(self, kernel: str) -> list[Trial]:
        with self.directory.store() as store:
            return store.trials.of_task(self.tasks()[kernel].task)

    def stored(self, kernel: str) -> TaskProgress:
        with self.directory.store() as store:
            progress = store.trials.progress_of(self.tasks()[kernel].task)
        assert progress is not None
        return progress

    def tell(self, kind: str, **arguments: Any) -> int:
        """Give a command for the running search as a front does."""
        with self.directory.store() as store:
            return store.add_command(kind, {ADDRESSEE: self.command, **arguments})

    def answer(self, command: int) -> Command:
        with self.directory.store() as store:
            return store.command(command)

    def cancel(self) -> None:
        with self.directory.store() as store:
            store.cancel_command(self.command)

    def libraries(self) -> list[str]:
        """Fingerprints of the libraries that are on the disk."""
        return sorted(path.read_text() for path in self.scratch.glob("*.so"))


class Running:
    """A search in a thread of its own, so that a test can watch and steer it."""

    def __init__(self, rig: Rig, *kernels: str, **changes: Any) -> None:
        self.result: dict[str, Any] = {}
        self.error: BaseException | None = None
        self._thread = threading.Thread(target=self._run, args=(rig, kernels, changes), daemon=True)
        self._thread.start()

    def _run(self, rig: Rig, kernels: tuple[str, ...], changes: dict[str, Any]) -> None:
        try:
            self.result = rig.search(*kernels, **changes)
        except BaseException as error:  # noqa: BLE001 - the test asks for it
            self.error = error

    @property
    def runs(self) -> bool:
        """False once it has ended."""
        return self._thread.is_alive()

    def wait(self, limit_s: float = HANG_S) -> dict[str, Any]:
        """The result; raises what the search raised, or if it hangs."""
        self._thread.join(limit_s)
        assert not self._thread.is_alive(), "the search hangs"
        if self.error is not None:
            raise self.error
        return self.result


def look_for_commands_always(patch: Callable[[object, str, object], None]) -> None:
    """Have searches look into the store each time, so that a test knows when a command is seen."""
    patch(control_module, "_POLL_S", 0.0)
