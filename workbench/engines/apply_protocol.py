"""What an engine gives to those who apply winners: the model with recorded schedules, built, run and timed beside the untuned one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from workbench.engines.search_protocol import Failed
from workbench.records.comparison import Difference
from workbench.records.trial import Check


@dataclass(frozen=True)
class RecordedSchedule:
    """The schedule of a trial.

    Attributes:
        trace: In TVM's own form (JSON text).
        fingerprint: Structural hash of the scheduled kernel, as the trial has it.
        time_us: Time of one call in its last measurement, for records; 0 if it is not known.
    """

    trace: str
    fingerprint: str
    time_us: float = 0.0


@dataclass(frozen=True)
class AppliedSchedule:
    """A kernel that really has its schedule in the module that was built.

    Attributes:
        fingerprint: Structural hash of the kernel as it stands in the module.
        workload: The untuned kernel in TVM's form for databases: structural hash and module; empty where the engine keeps its records in a form of
            its own, which it has written itself.
        arguments: The kernel's arguments for databases, JSON-ready.
    """

    fingerprint: str
    workload: tuple[str, str]
    arguments: tuple[object, ...]


@dataclass(frozen=True)
class OutputsCompared:
    """The tuned model beside the untuned one on one set of inputs.

    Attributes:
        outputs: One for each output of the model.
        wrong: One for each output of a kernel with a schedule that is wrong on the untuned model's own tensors.
        kernels_checked: How many kernel calls were compared.
        says_nothing: Why agreement would prove little, e.g. since no output is finite; empty otherwise.
    """

    outputs: tuple[Difference, ...]
    wrong: tuple[Difference, ...] = ()
    kernels_checked: int = 0
    says_nothing: str = ""


@dataclass(frozen=True)
class Round:
    """One round of both models, in microseconds; the first of each pair is the untuned one's.

    Attributes:
        calls_us: Time of each kernel call in execution order.
        total_us: Time of a whole run without instrumentation.
    """

    calls_us: tuple[tuple[float, ...], tuple[float, ...]]
    total_us: tuple[float, float]


class Application(Protocol):
    """The lowered model with recorded schedules, beside the untuned one; used by one thread.

    Schedules are replayed, and models built and run, in processes that may crash or hang: that is a `Failed`, which names what was done. What the
    progress raises ends the work. `close` ends all processes.

    Attributes:
        unrunnable: Why nothing can be run here; empty if it can.
    """

    unrunnable: str

    @property
    def pid(self) -> int | None:
        """Number of the process of both models; None while there is none."""
        ...

    def check(self, kernel: str, schedule: RecordedSchedule) -> Check | Failed:
        """Replay a schedule on a kernel, build it, and compare its output with the untuned kernel's on random inputs.

        A trace that is damaged, is another kernel's, or gives another kernel than the fingerprint says is `rejected`, and so is one that brings
        code of its own without trust.
        """
        ...

    def time_alone(self, kernel: str, schedule: RecordedSchedule | None, *, rounds: int) -> tuple[tuple[float, ...], ...] | Failed:
        """Times of a kernel alone in microseconds, by turns: the untuned one's, then those with a schedule, if one is given."""
        ...

    def build(self, schedules: Mapping[str, RecordedSchedule], directory: Path) -> dict[str, AppliedSchedule] | Failed:
        """Build the model with these schedules by kernel, all other kernels as in the untuned one, and load it again.

        Args:
            schedules: By name of the kernel.
            directory: Empty; gets ``model.so``, its parameters, and ``load.py``, which runs both with TVM alone.

        Returns:
            Each kernel whose schedule really is in the module.
        """
        ...

    def compare_outputs(self, seed: int, *, each_kernel: bool, random_weights: bool) -> OutputsCompared | Failed:
        """Run both models on random inputs, the one with schedules from its file.

        Args:
            seed: Of the inputs.
            each_kernel: Also run each kernel with a schedule on the untuned model's tensors, call by call.
            random_weights: Run both with random weights in place of the model's own, for models whose own make outputs that prove little. Where
                values overflow with them, nothing is compared, and `OutputsCompared.says_nothing` says so.
        """
        ...

    def compare_with_onnxruntime(self, model: Path, seed: int) -> OutputsCompared | Failed | str:
        """Compare the model with schedules with what onnxruntime makes of the source model; why not, where it is not installed."""
        ...

    def time_round(self, *, runs: int, tuned_first: bool) -> Round | Failed:
        """Time both models by turns.

        Args:
            runs: Runs of each behind each time, which is their median.
            tuned_first: Which of the two comes first.
        """
        ...

    def close(self) -> None:
        """End all processes."""
        ...
