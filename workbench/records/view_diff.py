"""Two texts side by side, and the decisions in which their schedules differ."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

SAME = "same"
CHANGED = "changed"
REMOVED = "removed"
ADDED = "added"


@dataclass(frozen=True)
class DiffLine:
    """One line of two texts side by side.

    Attributes:
        kind: ``same``, ``changed``, ``removed`` (on the left alone) or ``added`` (on the right alone).
        left_line: Number of the left line, from 1; None if there is none.
        left: The left line; empty if there is none.
        right_line: Number of the right line, from 1; None if there is none.
        right: The right line; empty if there is none.
    """

    kind: str
    left_line: int | None
    left: str
    right_line: int | None
    right: str


@dataclass(frozen=True)
class Hunk:
    """Lines that differ, with some equal ones around them.

    Attributes:
        left_first: Number of the first left line, from 1.
        left_count: Number of left lines.
        right_first: Number of the first right line, from 1.
        right_count: Number of right lines.
        lines: All of them.
    """

    left_first: int
    left_count: int
    right_first: int
    right_count: int
    lines: tuple[DiffLine, ...]


@dataclass(frozen=True)
class KnobDifference:
    """A decision in which two schedules differ; None where a schedule does not have it."""

    knob: str
    left: str | None
    right: str | None


@dataclass(frozen=True)
class ViewDiff:
    """One view of two trials of a task.

    Attributes:
        view: Which view.
        left: Which trial stands left, for people: ``trial 0 (untuned), 456.7 us``.
        right: Which stands right.
        left_text: The whole left text.
        right_text: The whole right text.
        hunks: Where they differ; empty if they are equal.
        decisions: In which decisions the schedules differ.
    """

    view: str
    left: str
    right: str
    left_text: str
    right_text: str
    hunks: tuple[Hunk, ...]
    decisions: tuple[KnobDifference, ...]

    @property
    def identical(self) -> bool:
        """True if the texts are equal."""
        return not self.hunks

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return asdict(self)
