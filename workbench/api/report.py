"""Writes the report of a session, with the texts of its winners where a worker can make them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

from workbench.errors import EnvironmentFault, InputError, WorkbenchError
from workbench.escaping import plain
from workbench.records.profile import Profile
from workbench.records.tuning import FASTER, TaskProgress
from workbench.records.view import SCHEDULE, SOURCE
from workbench.report import WinnerText, page, read_content
from workbench.session import SessionDirectory
from workbench.whole_files import write_whole

MOST_WINNERS = 8
"""Winners whose texts a report holds; the others are there with their decisions."""

_VIEWS = (SCHEDULE, SOURCE)
_MOST_TEXT = 200_000

Inspect = Callable[[str, str, int], str]


def winner_texts(directory: SessionDirectory, inspect: Inspect) -> list[WinnerText]:
    """Texts of the winners that save most.

    Args:
        directory: The session.
        inspect: Gives the text of a view of a trial: ``(task, view, trial)``.
    """
    with directory.store() as store:
        profile, tasks = store.profile(), store.trials.progress()
    return [_texts(task, inspect) for task in _saving_most(profile, tasks)]


def write_report(directory: SessionDirectory, path: Path, *, version: str, texts: Iterable[WinnerText]) -> Path:
    """Write the page, whole or not at all; returns its absolute path.

    Raises:
        SessionError: The session has no profile, or is damaged.
        EnvironmentFault: The file cannot be written.
    """
    html = page(read_content(directory, version=version, texts=tuple(texts)))
    path = path.absolute()
    if path.is_dir():
        raise InputError(f"{plain(str(path), 120)} is a directory.", "Give a file for the report.")
    try:
        write_whole(path, html)
    except OSError as error:
        raise EnvironmentFault(f"{plain(str(path), 120)} cannot be written: {error.strerror or error}.", "Give another file.") from error
    return path


def _saving_most(profile: Profile | None, tasks: Iterable[TaskProgress]) -> list[TaskProgress]:
    times_us = {} if profile is None else {task.task: task.time_us or 0.0 for task in profile.tasks}

    def saved_us(task: TaskProgress) -> float:
        before, now = task.before_and_now_us
        return times_us.get(task.task, 0.0) * (1.0 - (now or 0.0) / before) if before else 0.0

    won = [task for task in tasks if task.final is not None and task.final.verdict == FASTER]
    return sorted(won, key=lambda task: -saved_us(task))[:MOST_WINNERS]


def _texts(task: TaskProgress, inspect: Inspect) -> WinnerText:
    number = 0 if task.final is None else task.final.winner
    texts: dict[str, str] = {}
    reasons = []
    for view in _VIEWS:
        try:
            text = inspect(task.task, view, number)
        except WorkbenchError as error:
            reasons.append(f"No {view}: {error}")
            continue
        texts[view] = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}\n... {len(text) - _MOST_TEXT:,} more characters"
    return WinnerText(task.task, texts, " ".join(reasons))
