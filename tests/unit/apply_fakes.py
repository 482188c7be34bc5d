"""Applying without TVM: kernels whose faults, outputs and times are written down, and sessions whose tasks have winners."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tests.unit.search_fakes import RIGHT, trace_of
from workbench.engines.apply_protocol import AppliedSchedule, OutputsCompared, RecordedSchedule, Round
from workbench.engines.search_protocol import Failed
from workbench.records.comparison import Difference
from workbench.records.conditions import Conditions, KnownConditions
from workbench.records.profile import Profile, Task
from workbench.records.trial import Check, MeasureOptions, Trial
from workbench.records.tuning import FASTER, FINISHED, Final, TaskProgress
from workbench.session import SessionDirectory

PRESENT = Conditions("fake", {"tvm": "0.0"}, "{}", "llvm", 2, ("a processor",), 0, cold=False)
CONDITIONS = PRESENT.digest
BASELINE_US = 100.0
WINNER = 3


def here(options: MeasureOptions) -> KnownConditions:
    """The conditions of these tests."""
    del options
    return KnownConditions(PRESENT, {})


def winning_trial(task: Task, **changes: Any) -> Trial:
    """Trial 3 of a task, twice as fast as the baseline."""
    values: dict[str, Any] = {
        "task": task.task,
        "number": WINNER,
        "status": "ok",
        "error": "",
        "fingerprint": fingerprint_of(task.name),
        "origin": "search",
        "conditions": CONDITIONS,
        "times_us": (50.0, 50.5, 49.5),
        "runs": 10,
        "search_s": 0.1,
        "build_s": 0.1,
        "run_s": 0.1,
        "check": RIGHT,
        "best_us": 50.0,
        "measured_at": 1.0e9,
    }
    return Trial(**{**values, **changes})


def winning_progress(task: Task, **changes: Any) -> TaskProgress:
    """A finished search whose last measurement named trial 3 the winner."""
    final = Final(WINNER, BASELINE_US, 1.0, 50.0, 1.0, WINNER, 11, FASTER, "2.00x +- 0.02 as fast: 100.0 to 50.0 us")
    known = TaskProgress(task.task, task.name, task.weight, state=FINISHED, trials=4, conditions=CONDITIONS, final=final)
    return replace(known, **changes)


def fingerprint_of(kernel: str) -> str:
    return f"f{kernel}"


def give_winner(
    directory: SessionDirectory, kernel: str, *, trace: str | None = None, progress: Mapping[str, Any] | None = None, **trial: Any
) -> None:
    """Store a winner for a kernel's task."""
    with directory.store() as store:
        profile = store.profile()
        assert profile is not None
        task = next(task for task in profile.tasks if task.name == kernel)
        known = winning_trial(task, **trial)
        text = trace_of(WINNER) if trace is None else trace
        store.trials.add(known, text, winning_progress(task, **(progress or {})))


def agreement(what: str = "output 0", seed: int = 0, **changes: Any) -> Difference:
    return replace(Difference(what, "untuned", seed, "", None, 1e-6, 1e-6, 0, 10, 1e-4, 1e-4, (3,), "1.0", "1.0"), **changes)


@dataclass
class FakeApplication:
    """Stands for both models.

    Attributes:
        profile: The rows that it times.
        unrunnable: As in the protocol.
        alone: What checking a kernel alone gives, where it is not right.
        absent: Kernels whose schedule is not in the module that is built.
        failed_build: What building gives.
        outputs: What running both gives, by seed.
        with_random_weights: What running both with random weights gives.
        ratios: How many times as fast each kernel is with its schedule; 2 where it is not said. A list is taken one entry a batch of rounds.
        overhead_us: What the whole takes beside its kernels, with and without schedules.
        onnxruntime: What the comparison with it gives.
        log: What was asked, in order.
    """

    profile: Profile
    unrunnable: str = ""
    alone: dict[str, Failed] = field(default_factory=dict)
    absent: set[str] = field(default_factory=set)
    failed_build: Failed | None = None
    outputs: dict[int, OutputsCompared | Failed] = field(default_factory=dict)
    with_random_weights: OutputsCompared | Failed | None = None
    ratios: dict[str, float | list[float]] = field(default_factory=dict)
    overhead_us: tuple[float, float] = (10.0, 10.0)
    onnxruntime: OutputsCompared | Failed | str = "onnxruntime is not installed here"
    log: list[str] = field(default_factory=list)
    _built: dict[str, RecordedSchedule] = field(default_factory=dict)
    _batches: int = -1
    _closed: bool = False

    def check(self, kernel: str, schedule: RecordedSchedule) -> Check | Failed:
        self.log.append(f"check {kernel}")
        return self.alone.get(kernel, RIGHT)

    def time_alone(self, kernel: str, schedule: RecordedSchedule | None, *, rounds: int) -> tuple[tuple[float, ...], ...] | Failed:
        self.log.append(f"time {kernel} {rounds}")
        if kernel in self.alone:
            return self.alone[kernel]
        before = tuple(BASELINE_US + 0.1 * turn for turn in range(rounds))
        return (before,) if schedule is None else (before, tuple(55.0 + 0.1 * turn for turn in range(rounds)))

    def build(self, schedules: Mapping[str, RecordedSchedule], directory: Path) -> dict[str, AppliedSchedule] | Failed:
        assert not list(directory.iterdir())
        self.log.append(f"build {' '.join(sorted(schedules))}".strip())
        if self.failed_build is not None:
            return self.failed_build
        self._built = dict(schedules)
        (directory / "model.so").write_text(f"library {self.log.count(self.log[-1])}")
        (directory / "params.bin").write_text("parameters")
        (directory / "load.py").write_text("loader")
        present = {name: item for name, item in schedules.items() if name not in self.absent}
        return {name: AppliedSchedule(item.fingerprint, ("123", _workload(name)), (["TENSOR", "float32", [4]],)) for name, item in present.items()}

    def compare_outputs(self, seed: int, *, each_kernel: bool, random_weights: bool) -> OutputsCompared | Failed:
        self.log.append(f"outputs {seed}{' each' if each_kernel else ''}{' random weights' if random_weights else ''}")
        if random_weights:
            assert self.with_random_weights is not None
            return self.with_random_weights
        found = self.outputs.get(seed, OutputsCompared((agreement(seed=seed),), kernels_checked=len(self._built)))
        return found if isinstance(found, Failed) or each_kernel else replace(found, wrong=(), kernels_checked=0)

    def compare_with_onnxruntime(self, model: Path, seed: int) -> OutputsCompared | Failed | str:
        self.log.append(f"onnxruntime {seed}")
        return self.onnxruntime

    def time_round(self, *, runs: int, tuned_first: bool) -> Round | Failed:
        if self.log[-1] not in ("round", "round tuned first") or runs == 1:
            self._batches += 1
        self.log.append("round tuned first" if tuned_first else "round")
        noise = 0.1 * (len(self.log) % 3)
        before = [BASELINE_US + noise for _ in self.profile.kernel_rows]
        after = [BASELINE_US / self._ratio(str(row.kernel)) + noise for row in self.profile.kernel_rows]
        return Round((tuple(before), tuple(after)), (sum(before) + self.overhead_us[0], sum(after) + self.overhead_us[1]))

    def close(self) -> None:
        self._closed = True

    def _ratio(self, kernel: str) -> float:
        if kernel not in self._built:
            return 1.0
        ratio = self.ratios.get(kernel, 2.0)
        return ratio[min(max(self._batches, 0), len(ratio) - 1)] if isinstance(ratio, list) else ratio


def _workload(kernel: str) -> str:
    """A module as records can hold it: eight bytes of length, then JSON."""
    graph = json.dumps({"root_index": 0, "nodes": [kernel]}).encode()
    return base64.b64encode(len(graph).to_bytes(8, "little") + graph).decode()
