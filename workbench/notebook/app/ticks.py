"""What ticking and budgets make of a selection, and what it promises: pure functions over a profile."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from workbench.errors import InputError, SelectionError
from workbench.escaping import plain
from workbench.records.number import real, whole
from workbench.records.profile import Profile
from workbench.records.selection import SelectedTask, Selection
from workbench.records.tuning import DEFAULT_TRIALS_PER_TASK, TaskProgress
from workbench.selection import covered_share, forecast_speedup, select
from workbench.selection.file import MOST_SECONDS, MOST_TRIALS

BY_HAND = "ticked by hand"
FACTORS = (1.25, 1.5, 2.0, 3.0, 5.0, 10.0)


def ticked_rows(selection: Selection | None) -> tuple[int, ...]:
    """The rows of a selection."""
    return () if selection is None else selection.rows


def tick_rows(profile: Profile, selection: Selection | None, rows: Collection[int]) -> Selection:
    """The selection after the user changed which rows are ticked: a row stands for its task, and a task that stays keeps its budgets."""
    before = set(ticked_rows(selection))
    known = {row.row: row.task for row in profile.rows if row.task is not None and not row.untunable}
    tasks = {item.task for item in selection.tasks} if selection is not None else set()
    tasks |= {known[row] for row in rows if row not in before and row in known}
    tasks -= {known[row] for row in before if row not in rows and row in known}
    return with_tasks(profile, selection, tasks)


def with_tasks(profile: Profile, selection: Selection | None, tasks: Collection[str], *, rule: str = BY_HAND) -> Selection:
    """The selection of some tasks, each with the budgets that it had."""
    tunable = [task.task for task in profile.tasks if task.task in tasks and not task.untunable]
    if not tunable:
        return Selection(profile.model, profile.target, (), (), "nothing ticked", profile.notes)
    had = {} if selection is None else {item.task: item for item in selection.tasks}
    made = select(profile, tasks=tunable)
    return replace(made, rule=rule, tasks=tuple(had.get(item.task, item) for item in made.tasks))


def with_budget(selection: Selection | None, task: str, *, trials: object, seconds: object) -> Selection:
    """The selection with other budgets for one task; None leaves a budget to the search.

    Raises:
        SelectionError: The task is not ticked.
        InputError: A budget is no positive number.
    """
    if selection is None or all(item.task != task for item in selection.tasks):
        raise SelectionError(f"{plain(task)} is not ticked.", "Tick it first.")
    return replace(
        selection,
        tasks=tuple(
            SelectedTask(item.task, item.name, trials_budget(trials), seconds_budget(seconds)) if item.task == task else item
            for item in selection.tasks
        ),
    )


def with_trials(selection: Selection | None, task: str, trials: object) -> Selection:
    """The selection with another number of trials for one task, whose time stays what it was; raises as `with_budget`."""
    ticked = () if selection is None else selection.tasks
    seconds = next((item.seconds for item in ticked if item.task == task), None)
    return with_budget(selection, task, trials=trials, seconds=seconds)


def trials_budget(value: object) -> int | None:
    """A number of trials; None for none.

    Raises:
        InputError: It is none.
    """
    if value is None:
        return None
    number = whole(value)
    if number is None or not 1 <= number <= MOST_TRIALS:
        raise InputError(f"{plain(str(value), 40)} is no number of trials.", "Give a whole number of at least 1, or nothing for no limit.")
    return number


def seconds_budget(value: object) -> float | None:
    """A time in seconds; None for none.

    Raises:
        InputError: It is none.
    """
    if value is None:
        return None
    number = real(value)
    if number is None or not 0 < number <= MOST_SECONDS:
        raise InputError(f"{plain(str(value), 40)} is no time in seconds.", "Give a number above 0, or nothing for no limit.")
    return float(number)


def share_of(profile: Profile, selection: Selection | None) -> float | None:
    """Share of the time that the ticked tasks take, or of the FLOP where nothing was measured; None if that is unknown."""
    if selection is None or not selection.tasks:
        return 0.0
    try:
        return covered_share(profile, selection)
    except SelectionError:
        return None  # of another profile: the store will tell the one that fits


def forecasts(profile: Profile, selection: Selection | None) -> tuple[tuple[float, float], ...]:
    """How much faster the model gets if each ticked kernel gets so many times faster, for some factors; empty if nothing was measured."""
    if selection is None or not selection.tasks:
        return ()
    try:
        return tuple((factor, forecast_speedup(profile, selection, factor)) for factor in FACTORS)
    except SelectionError:
        return ()


def suggested_trials(progress: Iterable[TaskProgress], selection: Selection | None) -> int:
    """Trials of each task that a search should go on to: as many more as a first one has."""
    ticked = set() if selection is None else {item.task for item in selection.tasks}
    most = max((task.trials for task in progress if task.task in ticked), default=0)
    return (most // DEFAULT_TRIALS_PER_TASK + 1) * DEFAULT_TRIALS_PER_TASK
