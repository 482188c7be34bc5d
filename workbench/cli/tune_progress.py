"""Shows a running search on standard error: a live table on a terminal, a line now and then elsewhere; it asks no store and no worker."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from types import TracebackType
from typing import Self

from rich.console import Group, RenderableType
from rich.live import Live

from workbench.cli import formats
from workbench.cli.grid import Column, Drawing, Grid, Line, Sentence
from workbench.cli.output import discard
from workbench.cli.tune_figures import gain
from workbench.cli.tune_state import SearchState, Snapshot
from workbench.cli.tune_words import PlainLines, short_errors, standing
from workbench.errors import Interrupted
from workbench.escaping import plain
from workbench.records.command import Event
from workbench.records.profile import Profile
from workbench.records.trial import Trial
from workbench.records.tuning import ENDED, SEARCHING, WAITING, TaskProgress, TuneRequest

_FEWEST_TASKS = 3
_FRAME_LINES = 7
_SPARK_WIDTH = 12
_SPARKS = "▁▂▃▄▅▆▇█"
_ASCII_SPARKS = "_.,-~=+#"
_LONGEST_LINE = 400
_COLUMNS = (
    Column("Task", priority=0, least=12),
    Column("Baseline(us)", priority=4, right=True),
    Column("Best(us)", priority=2, right=True),
    Column("Gain", priority=1, right=True, style="green"),
    Column("", priority=7, style="cyan"),
    Column("Trials", priority=3, right=True),
    Column("Errors", priority=6, least=10, style="red"),
    Column("State", priority=5),
)


class TuneProgress:
    """A context that shows how a search goes.

    Args:
        request: What is searched.
        profile: The profile it is about.
        quiet: True shows nothing.
    """

    def __init__(self, request: TuneRequest, profile: Profile, *, quiet: bool) -> None:
        self._state = SearchState(request, profile)
        self._quiet = quiet
        self._lines = PlainLines()
        console = formats.table_console(sys.stderr)
        live = console.is_terminal and not console.is_dumb_terminal and not quiet
        self._live = Live(console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False) if live else None

    def __enter__(self) -> Self:
        with self._quiet_if_nobody_reads():
            if self._live is not None:
                self._live.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        with self._quiet_if_nobody_reads():
            if self._live is not None:
                # The final table follows, also that of a search which was stopped; an error leaves what there is to see.
                self._live.transient = kind is None or issubclass(kind, KeyboardInterrupt | Interrupted)
                self._live.stop()

    def on_event(self, event: Event) -> None:
        """Take note of what the worker is doing."""
        self._state.on_event(event)

    def begin(self, known: Iterable[Trial]) -> None:
        """Take note that the search has begun, and of the trials of earlier ones."""
        self._state.begin(known)

    def wait(self) -> None:
        """Show what is waited for before the search begins: nothing of the session is this search's yet."""
        self._show()

    def update(self, trials: Sequence[Trial], tasks: Iterable[TaskProgress]) -> None:
        """Show how the search stands.

        Args:
            trials: Those that came since the last time.
            tasks: How far each task is.
        """
        self._state.take(trials, tasks)
        self._show()

    def _show(self) -> None:
        if self._quiet:
            return
        snapshot = self._state.snapshot()
        with self._quiet_if_nobody_reads():
            if self._live is not None:
                room = max(self._live.console.height - _FRAME_LINES - 2 * len(snapshot.failed_batches), _FEWEST_TASKS)
                self._live.update(live_table(snapshot, most_tasks=room), refresh=True)
                return
            for line in self._lines.of(snapshot):
                print(f"{snapshot.seconds:7.1f} s  {plain(line, _LONGEST_LINE)}", file=sys.stderr, flush=True)

    @contextlib.contextmanager
    def _quiet_if_nobody_reads(self) -> Iterator[None]:
        """Go on in silence when standard error is gone."""
        try:
            yield
        except OSError:
            self._quiet, self._live = True, None
            discard(sys.stderr)


def live_table(snapshot: Snapshot, *, most_tasks: int) -> RenderableType:
    """The tasks, those that are searched first if not all find room, then where the search stands."""
    by_interest = sorted(snapshot.tasks, key=lambda task: (task.state != SEARCHING, task.state != WAITING))
    shown = {task.task for task in by_interest[:most_tasks]}
    lines = tuple(_line(task, snapshot) for task in snapshot.tasks if task.task in shown)
    hidden = len(snapshot.tasks) - len(lines)
    sentences = [Sentence(f"{hidden:,} more tasks", style="dim")] if hidden else []
    sentences += [Sentence(words, style="yellow") for words in snapshot.failed_batches]
    sentences += [Sentence(words, style="bold" if place == 0 else "") for place, words in enumerate(standing(snapshot))]
    return Group(*([Grid(_COLUMNS, lines, remedy="")] if lines else []), *sentences)


def sparkline(values: Sequence[float], *, signs: str) -> str:
    """The course of some values in at most twelve signs, the last value the last sign."""
    if not values:
        return ""
    places = range(min(len(values), _SPARK_WIDTH))
    picked = [values[(len(values) - 1) * (place + 1) // len(places)] if len(values) > _SPARK_WIDTH else values[place] for place in places]
    largest = max(picked)
    return "".join(signs[min(int(value / largest * (len(signs) - 1) + 0.5), len(signs) - 1)] for value in picked) if largest > 0 else ""


def _line(task: TaskProgress, snapshot: Snapshot) -> Line:
    before_us, now_us = task.before_and_now_us
    limit, faster = snapshot.limits.get(task.task), gain(task)
    course = snapshot.history_us.get(task.task, ())
    return Line(
        cells=(
            task.name,
            formats.microseconds(before_us),
            formats.microseconds(now_us),
            "-" if faster is None else f"{faster:.2f}x",
            Drawing(sparkline(course, signs=_SPARKS), sparkline(course, signs=_ASCII_SPARKS)),
            f"{task.trials}/{limit}" if limit is not None else str(task.trials),
            short_errors(task.errors),
            task.state,
        ),
        style="dim" if task.state in ENDED else "",
    )
