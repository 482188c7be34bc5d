"""Owns the table of tasks and the summary of a selection; it neither ranks nor chooses tasks."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import Group, RenderableType

from workbench.analysis.roofline import limit_percent
from workbench.cli import formats
from workbench.cli.grid import Column, Drawing, Grid, Line, Sentence
from workbench.cli.profile_table import remark_sentences, row_bar
from workbench.records.peaks import Peaks
from workbench.records.profile import Profile, Task
from workbench.records.selection import Selection
from workbench.records.tuning import TaskProgress
from workbench.report.figures_text import plural
from workbench.selection import covered_share, forecast_speedup, hottest

FORECAST_FACTOR = 2.0

_TICK = Drawing("✔", "x")
_COLUMNS = (
    Column("", priority=0, style="green"),
    Column("Task", priority=0, least=24),
    Column("Name", priority=10, least=16),
    Column("Weight", priority=2, right=True),
    Column("Time(us)", priority=1, right=True),
    Column("Time(%)", priority=3, right=True),
    Column("Limit(%)", priority=6, right=True),
    Column("", priority=4, style="cyan"),
    Column("FLOP", priority=6, right=True),
    Column("Space", priority=7, right=True),
    Column("State", priority=5),
    Column("Best(us)", priority=5, right=True),
    Column("Best limit(%)", priority=6, right=True),
    Column("Shapes", priority=9, least=16),
    Column("Cannot be tuned", priority=8, least=16),
    Column("Listed as", priority=11, least=24),
)


def task_table(
    profile: Profile, selection: Selection | None = None, searched: Iterable[TaskProgress] = (), *, peaks: Peaks | None = None
) -> RenderableType:
    """All tasks, hottest first, those of the selection marked and those searched with their best, then what a reader must know.

    Args:
        profile: Whose tasks.
        selection: The ticked ones.
        searched: How far their searches are.
        peaks: The limits of the device, which times are compared with.
    """
    ticked = {item.task for item in selection.tasks} if selection else set()
    progress = {item.task: item for item in searched}
    tasks = hottest(profile)
    largest_us = max((task.time_us or 0.0 for task in tasks), default=0.0)
    lines = [
        Line(
            cells=(
                _TICK if task.task in ticked else "",
                *_cells(task, largest_us, progress.get(task.task), task_limits(profile, task, progress.get(task.task), peaks)),
            ),
            style="dim" if task.untunable else "",
        )
        for task in tasks
    ]
    elsewhere = [item for task in tasks if (item := progress.get(task.task)) and item.before_and_now_us[1] is None and item.elsewhere]
    sentences = [Sentence(f"{item.name} has no best: it was {item.elsewhere}") for item in elsewhere]
    return Group(Grid(columns=_COLUMNS, lines=tuple(lines)), *sentences, *remark_sentences(profile))


def selection_summary(profile: Profile, selection: Selection) -> RenderableType:
    """How many tasks are ticked, by which rule, what share they cover, and what making them faster brings.

    Raises:
        SelectionError: The selection names a task that the profile does not have.
    """
    share = covered_share(profile, selection)
    number = f"{len(selection.tasks)} of {len(profile.tasks)} tasks ticked ({len(selection.rows)} rows)"
    measured = profile.rows_us is not None and not profile.unmeasured
    yardstick = "the rows' time" if measured else "the FLOP (not measured)"
    covering = f", covering {100 * share:.3g} % of {yardstick}" if share is not None else ""
    sentences = [f"{number}{covering}", f"rule: {selection.rule}"]
    if measured and share is not None:
        speedup = forecast_speedup(profile, selection, FORECAST_FACTOR)
        sentences.append(f"if {FORECAST_FACTOR:g}x faster: model {speedup:.2f}x")
    return Group(*(Sentence(words) for words in sentences))


def _cells(task: Task, largest_us: float, progress: TaskProgress | None, limits: tuple[float | None, float | None]) -> tuple[str | Drawing, ...]:
    now, best = limits
    return (
        task.task,
        _name(task),
        str(task.weight),
        formats.microseconds(task.time_us),
        formats.percent(task.time_percent),
        "" if now is None else formats.gflops(now),
        row_bar(task.time_us, largest_us),
        formats.operations(task.flop),
        _spaces(task),
        progress.state if progress else "",
        formats.microseconds(progress.before_and_now_us[1]) if progress else "",
        "" if best is None else formats.gflops(best),
        ", ".join(task.shapes),
        task.untunable,
        "; ".join(map(str, task.listed)),
    )


def _spaces(task: Task) -> str:
    """Size of the search space; each with its name where there are several."""
    named = [f"{name} {formats.space(size, name)}" for name, size in task.spaces.items()]
    return ", ".join(named) or formats.count(task.space_size)


def task_limits(profile: Profile, task: Task, progress: TaskProgress | None, peaks: Peaks | None) -> tuple[float | None, float | None]:
    """The least time that the device could take for one call, in percent of the time in the profile, and of the best one; None if unknown."""
    call_us = profile.resolved_us(task.time_us / task.weight) if task.time_us is not None and task.weight else None
    times_us = (call_us, progress.before_and_now_us[1] if progress else None)
    now, best = (limit_percent(peaks, flop=task.flop, moved_bytes=task.tensor_bytes, time_us=time_us) for time_us in times_us)
    return now, best


def _name(task: Task) -> str:
    """The first kernel's name, and the number of others that have the same structure."""
    others = len(task.kernels) - 1
    return f"{task.name} +{plural(others, 'kernel')}" if others > 0 else task.name
