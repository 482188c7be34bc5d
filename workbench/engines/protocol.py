"""What every engine can do: the seam between the workbench and one generation of TVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from workbench.engines.apply_protocol import Application
from workbench.engines.record_protocol import TrialRecords
from workbench.engines.search_protocol import Evaluator, TaskSearch
from workbench.engines.view_protocol import Viewer
from workbench.records.graph import ModelGraph
from workbench.records.origin import Origin
from workbench.records.peaks import Peaks
from workbench.records.profile import Kernel, KernelCall, Measurement
from workbench.records.request import ModelSource
from workbench.records.target import TargetSpec
from workbench.records.trial import MeasureOptions

Progress = Callable[[str, float], None]


class Engine(Protocol):
    """Owns one model at a time: imported, lowered, profiled, in this order, or loaded from a session directory.

    Not safe for use from several threads. No object of TVM crosses the seam: arguments and results are records, text, bytes or NumPy
    arrays. Each method may be told `on_progress`, which gets a phase and its share done (0 to 1) and may raise to end the work.

    Raises (all methods):
        InputError: The user's model, target or choice cannot be used.
        EnvironmentFault: This machine lacks what the call needs.
    """

    name: str

    def versions(self) -> dict[str, str]:
        """Versions of TVM and of what it depends on."""
        ...

    def resolve_target(self, text: str, *, threads: int) -> TargetSpec:
        """What the user's target means on this machine."""
        ...

    def import_model(self, source: ModelSource, *, seed: int, function: Callable[..., Any] | None) -> tuple[str, ...]:
        """Read a model; returns notes for its readers, e.g. "random weights"."""
        ...

    def lower(self, target: TargetSpec, *, layout: str, fusion: bool, on_progress: Progress) -> tuple[str, ...]:
        """Lower the imported model; returns the names of the steps that ran."""
        ...

    def extract_tasks(self, *, on_progress: Progress) -> tuple[Kernel, ...]:
        """All kernels of the lowered model."""
        ...

    def calls(self) -> tuple[KernelCall, ...]:
        """Calls of kernels in execution order."""
        ...

    def builtin_origins(self) -> tuple[Origin, ...]:
        """Source operators that run as VM builtins."""
        ...

    def eliminated_origins(self) -> tuple[Origin, ...]:
        """Source operators of which nothing is left to run: computed before, idle at inference, or read by nobody."""
        ...

    def graph(self) -> ModelGraph:
        """The source model and its kernel calls as graphs, with the identities of `calls`; only of a model that this engine has lowered itself."""
        ...

    def profile(self, *, repeat: int | None, seed: int, on_progress: Progress) -> Measurement:
        """Time every call; a target that this machine lacks gives a measurement that says why there are no times."""
        ...

    def outputs(self, rows: Sequence[int], *, seed: int, on_progress: Progress) -> dict[int, list[Any]]:
        """Output arrays of the given rows, on the inputs of the profile."""
        ...

    def search_task(
        self, kernel: str, *, space: str, seed: int, schedule: Callable[..., Any] | None = None, device: int = 0, trust: bool = False
    ) -> TaskSearch:
        """The search of one kernel of the lowered model.

        Args:
            kernel: Name of the kernel.
            space: Name of the search space.
            seed: Equal seeds and equal results give equal candidates.
            schedule: The user's own schedule function, which then is the space.
            device: Index of the device that candidates are measured on.
            trust: True allows recorded schedules that bring code of their own into the kernel.
        """
        ...

    def evaluator(self, options: MeasureOptions, *, scratch: Path, builders: int | None, seed: int) -> Evaluator:
        """What builds and measures candidates for the model's target.

        Args:
            options: How to measure.
            scratch: An empty directory of its own.
            builders: Processes that build; None takes one for each physical core.
            seed: Seed of the random inputs.
        """
        ...

    def records(self, folder: Path) -> TrialRecords:
        """The records of trials for the model's target in a folder, which is made if it is missing.

        Raises:
            InputError: The files there cannot be used.
        """
        ...

    def warm(self) -> None:
        """Start what the next evaluator needs, without waiting for it."""
        ...

    def viewer(self) -> Viewer:
        """What makes views of recorded schedules of the lowered model, as `workbench.records.view.VIEWS`; none needs the target's device."""
        ...

    def peaks(self, *, on_progress: Progress) -> Peaks:
        """Measure what the target's device can do at most; one that is not here gives limits that say so."""
        ...

    def peaks_key(self) -> str:
        """Digest of what the limits of the target's device depend on, such as the device and the number of threads."""
        ...

    def write_library(self, kernel: str, trace: str, path: Path, *, expected: str = "", trust: bool = False) -> None:
        """Compile a kernel with a recorded schedule into a library, where its function has the kernel's name.

        A schedule that brings code of its own into the kernel needs trust.

        Args:
            kernel: Name of the kernel.
            trace: The schedule in TVM's own form; empty for the baseline.
            path: The library to write.
            expected: Fingerprint of the scheduled module, as its trial has it; empty takes what comes out.
            trust: True allows code that the schedule brings.

        Raises:
            InputError: The trace is damaged or another kernel's, or needs trust.
        """
        ...

    def apply(
        self, options: MeasureOptions, *, program: Path, scratch: Path, seed: int, trust: bool, expected_s: float, on_progress: Progress
    ) -> Application:
        """What builds the model with recorded schedules, and runs it beside the untuned one.

        Args:
            options: How single kernels are checked, and the device.
            program: Where `save` wrote the lowered model that this engine holds.
            scratch: An empty directory of its own.
            seed: Seed of the inputs that the models are timed on.
            trust: True allows recorded schedules that bring code of their own into a kernel.
            expected_s: Time that a run of the untuned model takes; what takes many times as long is ended.
            on_progress: As for all methods, for the calls of what is returned.
        """
        ...

    def run(self, inputs: Sequence[Any], *, on_progress: Progress) -> list[Any]:
        """Output arrays of the lowered model for input arrays, one for each input of the model."""
        ...

    def save(self, directory: Path) -> None:
        """Write the lowered model, so that `load` needs nothing else; the directory appears whole or not at all."""
        ...

    def load(self, directory: Path, target: TargetSpec, *, trust: bool = False) -> None:
        """Take up a lowered model that `save` wrote; one that would run code from outside of it needs trust."""
        ...
