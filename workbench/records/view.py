"""The texts that show a kernel with a schedule: their names, what is known of each, and what a reader gets."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from workbench.records.decode import decode

COMPUTE_DAG = "compute_dag"
"""What the kernel computes, whatever the schedule."""

SCHEDULE = "schedule"
"""Python that makes the same schedule."""

DECISIONS = "decisions"
"""What the schedule decides, by block and loop."""

TIR_BEFORE = "tir_before"
"""The kernel in TVMScript before any schedule."""

TIR = "tir"
"""The scheduled kernel in TVMScript."""

LOWERED = "lowered"
"""TIR as it goes to code generation."""

SOURCE = "source"
"""LLVM IR, CUDA C, or what else the target's code generator makes."""

ASM = "asm"
"""Assembly of a CPU kernel."""

PTX = "ptx"
"""Assembly of NVIDIA's virtual machine."""

SASS = "sass"
"""Machine code of an NVIDIA GPU."""

RESOURCES = "resources"
"""What the kernel takes of the machine: registers, memory, vector units, and how far from the limit it is."""

EFFECTS = "effects"
"""Which decisions matter, over all trials of the task."""

VIEWS = (COMPUTE_DAG, SCHEDULE, DECISIONS, TIR_BEFORE, TIR, LOWERED, SOURCE, ASM, PTX, SASS, RESOURCES)
"""The views of one trial; an engine makes them."""

ALL_VIEWS = (*VIEWS, EFFECTS)
"""These, and the one that is about all trials of a task."""


@dataclass(frozen=True)
class ViewInfo:
    """One view as it can be offered to a reader.

    Attributes:
        view: Its name, one of `ALL_VIEWS`.
        title: Its name for people.
        language: What its text is written in: ``python``, ``cuda``, ``llvm``, ``asm``, ``ptx``, ``sass``, ``c``, or ``text``.
        description: What it shows, in one sentence.
        unavailable: Why it cannot be shown here; empty if it can.
        remedy: What would make it available; empty if nothing would, or nothing is needed.
    """

    view: str
    title: str
    language: str
    description: str
    unavailable: str = ""
    remedy: str = ""

    @property
    def available(self) -> bool:
        """True if it can be shown."""
        return not self.unavailable

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self)


@dataclass(frozen=True)
class Link:
    """Lines of a text that are about one loop or block; the same name in two views is the same thing.

    Attributes:
        name: ``block conv2d_nchw`` or ``loop ff_0``.
        first_line: First of the lines, counted from 1.
        last_line: Last of them.
    """

    name: str
    first_line: int
    last_line: int


@dataclass(frozen=True)
class ViewText:
    """One view of one trial.

    Attributes:
        view: Which.
        text: What it shows; empty if it cannot be shown.
        links: Lines that are about loops and blocks, as far as they can be followed by name.
        data: The same facts as JSON values where there are any: ``decisions`` and ``resources`` have them.
        unavailable: Why there is no text; empty if there is one.
        remedy: What would help.
    """

    view: str
    text: str = ""
    links: tuple[Link, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    unavailable: str = ""
    remedy: str = ""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {**asdict(self), "links": [asdict(link) for link in self.links], "data": dict(self.data)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ViewText:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


@dataclass(frozen=True)
class Inspection:
    """Views of one trial.

    Attributes:
        task: The task.
        kernel: Name of its kernel.
        trial: Number of the trial.
        label: Which trial that is, for people: ``trial 12, 123.4 us``, ``trial 0 (untuned), 456.7 us``.
        views: In the order in which they were asked for.
    """

    task: str
    kernel: str
    trial: int
    label: str
    views: tuple[ViewText, ...]

    def view(self, name: str) -> ViewText:
        """One of the views; raises KeyError if it was not asked for."""
        found = next((view for view in self.views if view.view == name), None)
        if found is None:
            raise KeyError(name)
        return found

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {**asdict(self), "views": [view.to_dict() for view in self.views]}
