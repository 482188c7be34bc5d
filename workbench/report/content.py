"""What a report says, read from a session directory alone: no worker, no model file."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workbench.charts.columns import TrialColumns
from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.records.comparison import Comparison
from workbench.records.decode import DecodeError
from workbench.records.machine import Machine
from workbench.records.match import RowMatch
from workbench.records.old_search import OldSearch
from workbench.records.peaks import Peaks
from workbench.records.profile import Profile
from workbench.records.request import ProfileRequest
from workbench.records.selection import Selection
from workbench.records.trial import Trial
from workbench.records.tuning import TaskProgress, TuneRequest
from workbench.session import SessionDirectory, stored_comparison, stored_matches, stored_old_search, stored_peaks
from workbench.store import Store

_AT_ONCE = 20_000


@dataclass(frozen=True)
class WinnerText:
    """A winner's texts, or why there are none.

    Attributes:
        task: The task.
        texts: Text by the name of its view, e.g. ``schedule``.
        why_none: Why a text is missing; empty if none is.
    """

    task: str
    texts: Mapping[str, str]
    why_none: str = ""


@dataclass(frozen=True)
class ReportContent:
    """Everything that a report is made of.

    Attributes:
        profile: Rows and tasks.
        request: What was profiled.
        manifest: Versions, target, lowering, timings; as the store has it, so each part is to be checked where it is shown.
        machine: Where it was profiled; None if the session does not say.
        selection: What was ticked; None if nothing was.
        search: What the last search was asked for; None before the first.
        tasks: How far each task is.
        columns: All trials.
        winners: The trials that won, by task.
        comparison: What applying them gave; None before.
        texts: Texts of the winners.
        matches: How surely rows of an imported session are tied to the program, by row number; empty in any other.
        old_search: What is left of an old search of the whole model.
        made_at: When the report was made.
        version: Version of the workbench.
        why_no_comparison: Why one that is there is not shown; empty if there is none.
        peaks: What the device can do at most; None if that is not known.
    """

    profile: Profile
    request: ProfileRequest | None
    manifest: Mapping[str, Any]
    machine: Machine | None
    selection: Selection | None
    search: TuneRequest | None
    tasks: tuple[TaskProgress, ...]
    columns: TrialColumns
    winners: Mapping[str, Trial]
    comparison: Comparison | None
    texts: tuple[WinnerText, ...]
    matches: Mapping[int, RowMatch]
    old_search: OldSearch
    made_at: dt.datetime
    version: str
    why_no_comparison: str = ""
    peaks: Peaks | None = None


def read_content(directory: SessionDirectory, *, version: str, texts: Sequence[WinnerText] = ()) -> ReportContent:
    """The content of a session's report.

    Args:
        directory: The session.
        version: Version of the workbench.
        texts: Texts of the winners, which only a worker can make.

    Raises:
        SessionError: The session has no profile, or is damaged.
    """
    with directory.store() as store:
        profile = store.profile()
        if profile is None:
            raise SessionError(f"The session in {plain(str(directory.path), 120)} has no profile yet.", "Profile the model first.")
        manifest, tasks = store.manifest(), tuple(store.trials.progress())
        applied = stored_comparison(store)
        return ReportContent(
            profile=profile,
            request=store.request(),
            manifest=manifest,
            machine=_machine(manifest.get("machine")),
            selection=store.selection(),
            search=_search(manifest.get("search")),
            tasks=tasks,
            columns=read_columns(store),
            winners=_winners(store, tasks),
            comparison=applied.comparison,
            texts=tuple(texts),
            matches=stored_matches(store),
            old_search=stored_old_search(store),
            made_at=dt.datetime.now(dt.UTC),
            version=version,
            why_no_comparison=applied.why_none,
            peaks=stored_peaks(store),
        )


def read_columns(store: Store) -> TrialColumns:
    """All trials of a session as columns."""
    columns, cursor = TrialColumns(), 0
    while points := store.trials.points(cursor, limit=_AT_ONCE):
        columns.extend(points)
        cursor = points[-1].cursor
    return columns


def _winners(store: Store, tasks: Sequence[TaskProgress]) -> dict[str, Trial]:
    found = {task.task: store.trials.trial(task.task, task.final.winner) for task in tasks if task.final is not None and task.final.winner}
    return {task: trial for task, trial in found.items() if trial is not None}


def _machine(values: Any) -> Machine | None:
    try:
        return None if values is None else Machine.from_dict(values)
    except DecodeError:
        return None  # of another version of the workbench; the rest of the report says enough


def _search(values: Any) -> TuneRequest | None:
    try:
        return TuneRequest.from_dict(values["request"]) if isinstance(values, Mapping) and "request" in values else None
    except DecodeError:
        return None  # the same
