"""What every engine can do: the seam between the workbench and one generation of TVM."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Protocol

from workbench.engines.search_protocol import Evaluator, TaskSearch
from workbench.records.origin import Origin
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

    def warm(self) -> None:
        """Start what the next evaluator needs, without waiting for it."""
        ...

    def view(self, kernel: str, trace: str, view: str, *, expected: str = "") -> str:
        """What a recorded schedule makes of a kernel, as text.

        Args:
            kernel: Name of the kernel.
            trace: The schedule in TVM's own form; empty for the baseline.
            view: One of `workbench.records.view.VIEWS`; none of them needs the target's device.
            expected: Fingerprint of the scheduled module, as its trial has it; empty takes what comes out.

        Raises:
            InputError: The trace is damaged or another kernel's, or there is no such view.
        """
        ...

    def write_library(self, kernel: str, trace: str, path: Path, *, expected: str = "", trust: bool = False) -> None:
        """Compile a kernel with a recorded schedule into a library, where its function has the kernel's name; see `view`.

        A schedule that brings code of its own into the kernel needs trust.
        """
        ...

    def save(self, directory: Path) -> None:
        """Write the lowered model, so that `load` needs nothing else; the directory appears whole or not at all."""
        ...

    def load(self, directory: Path, target: TargetSpec, *, trust: bool = False) -> None:
        """Take up a lowered model that `save` wrote; one that would run code from outside of it needs trust."""
        ...
