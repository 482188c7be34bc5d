"""The profile as a table: the debug runtime's columns with links and search states, and boxes that tick what is to be tuned."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from threading import RLock
from typing import Any

import traitlets

from workbench.api.profile import SessionProfile
from workbench.errors import SelectionError
from workbench.escaping import plain
from workbench.notebook.part import Part, bundled
from workbench.notebook.table.snapshot import TaskState, snapshot, task_state
from workbench.records.match import RowMatch
from workbench.records.profile import Profile
from workbench.records.selection import Selection
from workbench.records.tuning import TaskProgress
from workbench.selection import select


class ProfileTable(Part):
    """A profile's rows, to sort, filter, search and tick.

    A task is what is tuned: ticking a row ticks all rows of its task, and rows that cannot be tuned stay unticked. ``observe`` the traits
    by name to follow the user; set them to lead the view.

    Args:
        profile: What to show: a session's profile, or the record of one.
        progress: How far the search of each task is.
        limit_percent: How close rows come to what the machine could do, in percent, by row number.
        matches: How surely rows of an imported session are tied to the program, by row number; a session's profile knows its own.

    Attributes:
        ticked: Numbers of the ticked rows, sorted; always all rows of each ticked task.
        focus: Number of the row that the user looks at; None for none.
        theme: ``auto``, ``light`` or ``dark``.
        height: Height of the table in pixels at most; fewer rows take less.
    """

    _esm = bundled("table.js")
    _css = bundled("table.css")

    ticked: Any = traitlets.List(traitlets.Int()).tag(sync=True)
    focus: Any = traitlets.Int(allow_none=True, default_value=None).tag(sync=True)
    height: Any = traitlets.Int(460, min=160).tag(sync=True)

    def __init__(
        self,
        profile: Profile | SessionProfile,
        progress: Iterable[TaskProgress] = (),
        *,
        limit_percent: Mapping[int, float] | None = None,
        matches: Mapping[int, RowMatch] | None = None,
        **traits: Any,
    ) -> None:
        self._lock = RLock()
        self._limit_percent = dict(limit_percent or {})
        self._matches = _matches(profile, matches)
        self._states: dict[str, TaskState] = {}
        self._take(_record(profile), progress)
        super().__init__(**traits)

    @property
    def profile(self) -> Profile:
        """What is shown."""
        return self._profile

    @property
    def selection(self) -> Selection | None:
        """The ticked tasks as a selection that can be searched and exported; None if nothing is ticked."""
        return select(self._profile, rows=self.ticked) if self.ticked else None

    def show_profile(
        self,
        profile: Profile | SessionProfile,
        progress: Iterable[TaskProgress] = (),
        *,
        limit_percent: Mapping[int, float] | None = None,
        matches: Mapping[int, RowMatch] | None = None,
    ) -> None:
        """Show another profile, e.g. after the model was profiled again; what is ticked stays ticked where the new one has it."""
        with self._lock:
            self._limit_percent = dict(limit_percent or {})
            self._matches = _matches(profile, matches)
            self._take(_record(profile), progress)
            self.ticked = self._whole_tasks(self.ticked)
            if self.focus is not None and self.focus not in self._numbers:
                self.focus = None
            self._post_snapshot()

    def update_progress(self, progress: Iterable[TaskProgress]) -> None:
        """Show how far the search of the given tasks is; the others stay as they are. Only what has changed is sent."""
        with self._lock:
            changed = []
            for item in progress:
                place = self._places.get(item.task)
                if place is None:
                    continue
                state = task_state(item, place)
                if state != self._states.get(item.task):
                    self._states[item.task] = state
                    changed.append(state)
            if changed:
                self.post("progress", states=changed)

    def tick_share(self, share: float) -> None:
        """Tick the fewest hottest tasks that cover a share of the time, 0 to 1; by FLOP where nothing was measured.

        Raises:
            SelectionError: The share is not above 0 and at most 1, or nothing can be tuned.
        """
        selection = select(self._profile, share=share)
        self.ticked = list(selection.rows)
        self.post("say", text=f"Ticked {_count(len(selection.tasks), 'task')} with {_count(len(selection.rows), 'row')}: {selection.rule}.")

    def receive(self, kind: str, content: Mapping[str, Any], buffers: Sequence[memoryview]) -> None:
        """Answer a view: ``ready`` with the whole table, ``tick_share`` by ticking."""
        del buffers
        if kind == "ready":
            with self._lock:
                self._post_snapshot()
        elif kind == "tick_share":
            share = content.get("share")
            if isinstance(share, bool) or not isinstance(share, int | float) or not math.isfinite(share):
                raise SelectionError(f"The share {plain(str(share))} is no number.", "Write 80 for 80 %.")
            self.tick_share(float(share))

    @traitlets.validate("ticked")
    def _check_ticked(self, proposal: Any) -> list[int]:
        return self._whole_tasks(proposal["value"])

    @traitlets.validate("focus")
    def _check_focus(self, proposal: Any) -> int | None:
        row = proposal["value"]
        return row if row in self._numbers else None

    def _take(self, profile: Profile, progress: Iterable[TaskProgress]) -> None:
        found = {item.task: item for item in progress}
        self._profile = profile
        self._numbers = {row.row for row in profile.rows}
        self._places = {task.task: place for place, task in enumerate(profile.tasks)}
        self._tunable_task_of = {row: task for task in profile.tasks if not task.untunable for row in task.rows}
        self._states = {task: task_state(found.get(task), place) for task, place in self._places.items()}

    def _whole_tasks(self, rows: Iterable[int]) -> list[int]:
        """All rows of the tunable tasks that the given rows belong to."""
        tasks = {task.task: task for row in rows if (task := self._tunable_task_of.get(row)) is not None}
        return sorted({row for task in tasks.values() for row in task.rows})

    def _post_snapshot(self) -> None:
        self.post("snapshot", **snapshot(self._profile, self._limit_percent, self._matches), states=list(self._states.values()))


def _record(profile: Profile | SessionProfile) -> Profile:
    return profile.record if isinstance(profile, SessionProfile) else profile


def _matches(profile: Profile | SessionProfile, given: Mapping[int, RowMatch] | None) -> Mapping[int, RowMatch]:
    if given is not None:
        return given
    return profile.matches if isinstance(profile, SessionProfile) else {}


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
