"""Where an inspector gets its texts: the seam between the widget and whatever makes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from workbench.records.trial import Trial
from workbench.records.view import ViewInfo, ViewText
from workbench.records.view_diff import ViewDiff


class RerunResult(Protocol):
    """What measuring a recorded trial again gave; `to_dict` has the fields of a re-run's record, those that are not known left out."""

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        ...


class InspectorSource(Protocol):
    """Makes the views of a task's trials.

    The methods are coroutines, run on the event loop of a thread that all inspectors share and never on the kernel's main thread: what
    blocks belongs into ``asyncio.to_thread``. Several may run at once, and one whose answer nobody waits for any more is cancelled.
    Each raises a `WorkbenchError`, which the inspector shows where the text would stand. A view that cannot be had is no error: its
    `ViewInfo` or `ViewText` says why.
    """

    async def views(self, task: str) -> Sequence[ViewInfo]:
        """All views of a task on this machine, those included that cannot be shown, with the reason."""
        ...

    async def text(self, task: str, trial: int, view: str) -> ViewText:
        """One view of one trial; 0 is the untuned kernel."""
        ...

    async def diff(self, task: str, left: int, right: int, view: str) -> ViewDiff:
        """One view of two trials, and the decisions in which they differ."""
        ...

    async def trial(self, task: str, trial: int) -> Trial | None:
        """The record of one trial; None while it has none."""
        ...

    async def rerun(self, task: str, trial: int) -> RerunResult:
        """Lower and measure a trial again, and say how far it is from its record."""
        ...
