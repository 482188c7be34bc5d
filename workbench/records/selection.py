"""The ticked tasks and rows, with budgets: an exportable file."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.records.decode import decode

SELECTION_FORMAT = "workbench-selection"
SELECTION_VERSION = 1


@dataclass(frozen=True)
class SelectedTask:
    """One ticked task.

    Attributes:
        task: Task identifier.
        name: Its kernel's name when it was ticked, for readers and for a friendlier error when it is gone.
        trials: Budget of measured candidates; None leaves it to the search.
        seconds: Budget of time; None leaves it to the search.
    """

    task: str
    name: str
    trials: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class Selection:
    """Which tasks to search, and the rule that chose them.

    Attributes:
        model: Model the selection was made for.
        target: Target it was made for.
        tasks: Ticked tasks; `workbench.selection.select` puts the hottest first.
        rows: All rows those tasks stand for.
        rule: The rule in words, e.g. ``share 0.8``.
        notes: What a reader must know of the profile they were ticked in, e.g. "random weights".
    """

    model: str
    target: str
    tasks: tuple[SelectedTask, ...]
    rows: tuple[int, ...]
    rule: str
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The selection as its file holds it."""
        return {
            "format": SELECTION_FORMAT,
            "version": SELECTION_VERSION,
            "model": self.model,
            "target": self.target,
            "rule": self.rule,
            "notes": list(self.notes),
            "rows": list(self.rows),
            "tasks": [{"task": item.task, "name": item.name, "trials": item.trials, "seconds": item.seconds} for item in self.tasks],
        }

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Selection:
        """The inverse of `to_dict`; raises DecodeError (a file of the user's is read by `workbench.selection.read_selection`)."""
        return decode(cls, values)
