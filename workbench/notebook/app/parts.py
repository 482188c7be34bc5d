"""The parts of the app below its head: made when a profile comes, told what changes, and tied to one selection."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any

import ipywidgets

from workbench.analysis.roofline import row_limits
from workbench.errors import WorkbenchError
from workbench.notebook.app.model import AppModel
from workbench.notebook.app.session_source import SessionSource
from workbench.notebook.app.state import SEARCHING, AppState
from workbench.notebook.app.ticks import ticked_rows
from workbench.notebook.comparison.comparison import ComparisonView
from workbench.notebook.graph.graph import GraphView
from workbench.notebook.inspector.inspector import Inspector
from workbench.notebook.monitor.feed import StoreFeed
from workbench.notebook.monitor.monitor import TuningMonitor
from workbench.notebook.monitor.steering import ADD, BUDGET, DROP, PAUSE, RESUME, STOP, Request
from workbench.notebook.part import Part
from workbench.notebook.table.table import ProfileTable
from workbench.records.graph import GRAPH_DOCUMENT, ModelGraph
from workbench.records.match import RowMatch
from workbench.records.peaks import Peaks
from workbench.records.profile import Profile
from workbench.session import stored_comparison, stored_matches

_BESIDE = {"flex": "1 1 520px", "min_width": "0", "width": "auto", "margin": "0"}


class Parts:
    """Table and graph side by side, the search, the inspector, the comparison: each appears when there is something to show.

    Ticks and the focused row are one for all parts. What a part's user does goes to the model or to the other parts; what the model knows goes
    to all parts. Drawn by one thread, clicked in another: a lock keeps the two apart.

    Args:
        model: What the app does.
        theme: Of all parts.

    Attributes:
        box: What goes onto the page.
        table, graph, monitor, inspector, comparison: The parts; None while there is nothing to show.
    """

    def __init__(self, model: AppModel, *, theme: str) -> None:
        self._model = model
        self._theme = theme
        self._lock = threading.RLock()
        self._rows: tuple[int, ...] = ()
        self._is_focusing = False
        self._profile_id = ""
        self._comparison_id = ""
        self._profile: Profile | None = None
        self._peaks: Peaks | None = None
        self.table: ProfileTable | None = None
        self.graph: GraphView | None = None
        self.monitor: TuningMonitor | None = None
        self.inspector: Inspector | None = None
        self.comparison: ComparisonView | None = None
        self._middle, self._live, self._texts, self._result = _Place(wraps=True), _Place(), _Place(), _Place()
        places = [self._middle.box, self._live.box, self._texts.box, self._result.box]
        self.box = ipywidgets.VBox(places, layout=ipywidgets.Layout(width="100%", overflow="visible", margin="0"))

    def show(self, state: AppState) -> None:
        """Show a state."""
        with self._lock:
            if state.profile is None:
                self._clear()
                return
            if state.profile_id != self._profile_id or self._profile is not state.profile:
                self._make(state, state.profile)
            elif state.peaks != self._peaks and self.table is not None:
                self._peaks = state.peaks
                self.table.show_profile(state.profile, state.progress, limit_percent=row_limits(state.profile, state.peaks), matches=self._matches())
            for part in (self.table, self.graph, self.inspector):
                if part is not None:
                    part.update_progress(state.progress)
            self._show_ticks()
            if self.monitor is None and (state.phase in SEARCHING or any(task.trials for task in state.progress)):
                self._make_monitor()
            if state.comparison_id != self._comparison_id:
                self._show_comparison(state.comparison_id)

    def set_theme(self, theme: str) -> None:
        """Give all parts another theme."""
        with self._lock:
            self._theme = theme
            for part in self._all():
                part.theme = theme

    def focus(self, row: int | None) -> None:
        """Look at a row, everywhere; a part that does not have it shows none."""
        with self._lock:
            if self._is_focusing:
                return
            self._is_focusing = True
            try:
                self._focus(row)
            finally:
                self._is_focusing = False

    def _focus(self, row: int | None) -> None:
        for part in (self.table, self.graph, self.comparison):
            if part is not None and part.focus != row:
                part.focus = row
        task = self._task_of(row)
        if task is None:
            return
        if self.inspector is None:
            self._make_inspector()
        if self.inspector is not None and self.inspector.task != task:
            self.inspector.show(task)
        if self.monitor is not None and self.monitor.task:
            self.monitor.task = task

    def close(self) -> None:
        """Remove all parts from the page."""
        with self._lock:
            self._clear()
            self.box.close()

    # making and removing parts

    def _make(self, state: AppState, profile: Profile) -> None:
        """Make the parts of another profile; what was shown of the one before is removed."""
        self._clear()
        self._profile_id, self._profile, self._peaks = state.profile_id, profile, state.peaks
        limits, matches = row_limits(profile, state.peaks), self._matches()
        layout = ipywidgets.Layout(**_BESIDE)
        self.table = ProfileTable(profile, state.progress, limit_percent=limits, matches=matches, theme=self._theme, layout=layout)
        self.table.observe(self._on_ticked, names="ticked")
        self.table.observe(self._on_focus, names="focus")
        self.graph = self._make_graph(state, profile)
        self._middle.show(self.table, self.graph)

    def _matches(self) -> Mapping[int, RowMatch]:
        """How surely the rows of an imported session are tied to the program."""
        session = self._model.session
        if session is None:
            return {}
        try:
            with session.directory.store() as store:
                return stored_matches(store)
        except WorkbenchError as error:
            self._model.report(error)
            return {}

    def _make_monitor(self) -> None:
        session = self._model.session
        if session is None:
            return
        self.monitor = TuningMonitor(StoreFeed(session.directory), self._steer, theme=self._theme)
        self.monitor.observe(self._on_trial, names="focus_trial")
        self.monitor.observe(self._on_task, names="task")
        self.monitor.start()
        self._live.show(self.monitor)
        if self.inspector is None:
            self._make_inspector()

    def _make_inspector(self) -> None:
        session, profile = self._model.session, self._profile
        if session is None or profile is None:
            return
        self.inspector = Inspector(SessionSource(session), profile, self._model.state.progress, theme=self._theme)
        self.inspector.observe(self._on_task, names="task")
        self._texts.show(self.inspector)

    def _show_comparison(self, identifier: str) -> None:
        session = self._model.session
        if session is None or not identifier:
            self._comparison_id = identifier
            self._result.show()
            self._end("comparison")
            return
        try:
            with session.directory.store() as store:
                record = stored_comparison(store).comparison
        except WorkbenchError as error:
            self._model.report(error)
            return
        if record is None:
            return
        self._comparison_id = identifier  # what could not be read is read again
        if self.comparison is None:
            self.comparison = ComparisonView(record, focus=None if self.table is None else self.table.focus, theme=self._theme)
            self.comparison.observe(self._on_focus, names="focus")
            self._result.show(self.comparison)
        else:
            self.comparison.show(record)

    def _clear(self) -> None:
        for place in (self._middle, self._live, self._texts, self._result):
            place.show()
        for name in ("table", "graph", "monitor", "inspector", "comparison"):
            self._end(name)
        self._profile_id, self._profile, self._comparison_id, self._rows = "", None, "", ()

    def _end(self, name: str) -> None:
        """A live widget that nobody shows would be sent again with every page."""
        part = getattr(self, name)
        setattr(self, name, None)
        if part is not None:
            part.close()

    def _make_graph(self, state: AppState, profile: Profile) -> GraphView | None:
        """The graph of the model; None in a session of an older workbench, or one whose graph is damaged."""
        session = self._model.session
        if session is None:
            return None
        try:
            with session.directory.store() as store:
                document = store.document(GRAPH_DOCUMENT)
            if document is None:
                return None
            graph = GraphView(ModelGraph.from_dict(document), profile, state.progress, theme=self._theme, layout=ipywidgets.Layout(**_BESIDE))
        except (WorkbenchError, ValueError) as error:
            self._model.report(error)
            return None
        graph.observe(self._on_focus, names="focus")
        return graph

    def _all(self) -> list[Part]:
        found = (self.table, self.graph, self.monitor, self.inspector, self.comparison)
        return [part for part in found if part is not None]

    # one selection

    def _show_ticks(self) -> None:
        """Give the parts the ticks as they are now: the state that is being drawn may be older than a click."""
        self._rows = ticked_rows(self._model.state.selection)
        for part in (self.table, self.graph):
            if part is not None and tuple(part.ticked) != self._rows:
                part.ticked = list(self._rows)

    def _steer(self, request: Request) -> None:
        """What the monitor's user asks for goes the way of all other clicks."""
        model = self._model
        if request.kind == ADD:
            model.tick_task(request.task, trials=request.trials)
        elif request.kind == DROP:
            model.untick(request.task)
        elif request.kind == BUDGET:
            model.set_task_trials(request.task, request.trials)
        else:
            {PAUSE: model.pause, RESUME: model.resume, STOP: model.stop}[request.kind]()

    def _on_ticked(self, change: Any) -> None:
        with self._lock:
            rows = tuple(change["new"])
            if rows != self._rows:
                self._rows = rows
                self._model.tick(rows)

    def _on_focus(self, change: Any) -> None:
        self.focus(change["new"])

    def _on_trial(self, change: Any) -> None:
        """A trial was clicked in the chart: its texts are shown, and the row of its task is looked at."""
        if len(change["new"]) != 2:
            return
        task, number = change["new"]
        with self._lock:
            if self.inspector is None:
                self._make_inspector()
            if self.inspector is not None:
                self.inspector.show(str(task), int(number))
            self._focus_task(str(task))

    def _on_task(self, change: Any) -> None:
        """A kernel was chosen in the monitor or in the inspector; none is the monitor's word for all."""
        with self._lock:
            self._focus_task(change["new"] or "")

    def _focus_task(self, task: str) -> None:
        """Look at a row of a task, unless one of them is looked at already."""
        rows = self._rows_of(task)
        focused = None if self.table is None else self.table.focus
        if rows and focused not in rows:
            self.focus(rows[0])

    def _task_of(self, row: int | None) -> str | None:
        rows = () if self._profile is None else self._profile.rows
        return next((item.task for item in rows if item.row == row), None)

    def _rows_of(self, task: str) -> tuple[int, ...]:
        tasks = () if self._profile is None else self._profile.tasks
        return next((item.rows for item in tasks if item.task == task), ())


class _Place:
    """A place on the page that shows some parts, or nothing."""

    def __init__(self, *, wraps: bool = False) -> None:
        layout = {"width": "100%", "overflow": "visible", "margin": "8px 0 0", "display": "none"}
        flow = {"flex_flow": "row wrap", "grid_gap": "8px", "align_items": "stretch"} if wraps else {"flex_flow": "column"}
        self.box = ipywidgets.Box([], layout=ipywidgets.Layout(**layout, **flow))

    def show(self, *parts: Part | None) -> None:
        """Show some parts, and nothing else."""
        shown = [part for part in parts if part is not None]
        self.box.children = shown
        self.box.layout.display = "flex" if shown else "none"
