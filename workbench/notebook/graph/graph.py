"""The graph of a model as a widget: its operators, or the kernel calls that they became, with times, tasks and states."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import traitlets

from workbench.api.profile import SessionProfile
from workbench.errors import InputError
from workbench.notebook.graph.snapshot import progress_list, snapshot
from workbench.notebook.part import Part, bundled
from workbench.records.graph import ModelGraph
from workbench.records.profile import Profile
from workbench.records.tuning import TaskProgress

COLOURS = ("time", "task", "state")
GRAPHS = ("operators", "kernels")


class GraphView(Part):
    """Both graphs of a model, one click apart.

    Attributes:
        shown: ``operators`` of the source model, where those that one kernel computes are one box, or ``kernels``: the rows of the profile.
        colors: What the colour of a box says: ``time``, ``task`` or ``state``.
        focus: Number of the row that is looked at; None for none.
        focus_node: Number of the source operator that is looked at (its place in `ModelGraph.source`); None for none.
        ticked: Numbers of the rows that are ticked elsewhere; shown as a ring.

    Args:
        graph: The graphs, as from `Session.graph`.
        profile: The profile that they belong to: a session's, or the record of one.
        progress: How far the search of each task is.

    Raises:
        InputError: The graph is not the profile's.
    """

    _esm = bundled("graph.js")
    _css = bundled("graph.css")

    shown: Any = traitlets.Enum(GRAPHS, default_value="operators").tag(sync=True)
    colors: Any = traitlets.Enum(COLOURS, default_value="time").tag(sync=True)
    focus: Any = traitlets.Int(None, allow_none=True).tag(sync=True)
    focus_node: Any = traitlets.Int(None, allow_none=True).tag(sync=True)
    ticked: Any = traitlets.List(traitlets.Int()).tag(sync=True)

    def __init__(self, graph: ModelGraph, profile: Profile | SessionProfile, progress: Iterable[TaskProgress] = (), **traits: Any) -> None:
        profile = profile.record if isinstance(profile, SessionProfile) else profile
        if not graph.belongs_to(profile):
            raise InputError("The graph is not that of the profile.", "Take both from one session: session.graph() and session.profile().")
        self._rows = len(profile.kernel_rows)
        self._nodes = len(graph.source)
        self._snapshot = snapshot(graph, profile)
        self._lock = threading.Lock()
        self._progress = {item["task"]: item for item in progress_list(progress)}
        super().__init__(**traits)

    def update_progress(self, progress: Iterable[TaskProgress]) -> None:
        """Show how far the search of the given tasks is; the others stay as they are. Only what has changed is sent. Any thread may call it."""
        with self._lock:
            changed = [item for item in progress_list(progress) if self._progress.get(item["task"]) != item]
            self._progress.update({item["task"]: item for item in changed})
            if changed:
                self.post("progress", progress=changed)

    def receive(self, kind: str, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """A view that opened gets all that there is."""
        del content, buffers
        if kind == "ready":
            with self._lock:
                self.post("snapshot", progress=list(self._progress.values()), buffers=[self._snapshot])

    @traitlets.validate("focus")
    def _row_that_is_there(self, proposal: Any) -> int | None:
        return _within(proposal["value"], self._rows)

    @traitlets.validate("focus_node")
    def _node_that_is_there(self, proposal: Any) -> int | None:
        return _within(proposal["value"], self._nodes)

    @traitlets.validate("ticked")
    def _rows_that_are_there(self, proposal: Any) -> list[int]:
        return [row for row in proposal["value"] if _within(row, self._rows) is not None]


def _within(number: int | None, count: int) -> int | None:
    """The number, or None if there are not so many; the page may say anything."""
    return number if number is not None and 0 <= number < count else None
