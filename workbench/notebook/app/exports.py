"""What a user takes along from the app, as files."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import dataclass

from workbench.api import Session
from workbench.errors import InputError, SelectionError, SessionError
from workbench.escaping import file_stem, plain
from workbench.selection import write_selection
from workbench.session import COMPARISON, stored_comparison

SELECTION, PROFILE, TRIALS = "selection", "profile", "trials"
_JSON, _CSV = "application/json", "text/csv"
_TRIAL_COLUMNS = (
    *("task", "name", "number", "status", "time_us", "best_us", "runs"),
    *("search_s", "build_s", "run_s", "measured_at", "decisions", "error"),
)
_ERROR_LIMIT = 400
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


@dataclass(frozen=True)
class ExportedFile:
    """A file that a page saves.

    Attributes:
        name: What to call it.
        text: Its content.
        media_type: What it is.
    """

    name: str
    text: str
    media_type: str


def export(session: Session, what: object) -> ExportedFile:
    """Make a file of what the session holds.

    Args:
        session: The session.
        what: ``selection``, ``profile``, ``trials`` or ``comparison``.

    Raises:
        InputError: There is no such file, or nothing to put into it.
    """
    stem = file_stem(session.request.source.name)
    with session.directory.store() as store:
        if what == SELECTION:
            selection = store.selection()
            if selection is None or not selection.tasks:
                raise SelectionError("Nothing is ticked.", "Tick some kernels first.")
            return ExportedFile(f"{stem}-selection.json", write_selection(selection), _JSON)
        if what == PROFILE:
            profile = store.profile()
            if profile is None:
                raise SessionError("The session has no profile yet.", "Profile the model first.")
            return ExportedFile(f"{stem}-profile.json", _json(profile.to_dict()), _JSON)
        if what == COMPARISON:
            applied = stored_comparison(store)
            if applied.comparison is None:
                raise SessionError(applied.why_none or "Nothing was applied yet.", "Press Apply after a search.")
            return ExportedFile(f"{stem}-comparison.json", _json(applied.comparison.to_dict()), _JSON)
    if what == TRIALS:
        return ExportedFile(f"{stem}-trials.csv", _trials(session), _CSV)
    raise InputError(f"There is nothing called {plain(str(what), 60)} to export.", "Reload the page.")


def _json(values: object) -> str:
    return json.dumps(values, indent=1, allow_nan=False) + "\n"


def _trials(session: Session) -> str:
    """All trials of the session, one a line."""
    with session.directory.store() as store:
        profile = store.profile()
        names = {task.task: task.name for task in profile.tasks} if profile is not None else {}
        trials = [stored.trial for stored in store.trials.all()]
    if not trials:
        raise SessionError("There are no trials yet.", "Tick some kernels and press Tune.")
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(_TRIAL_COLUMNS)
    for trial in trials:
        values = {**vars(trial), "name": names.get(trial.task, ""), "time_us": trial.time_us}
        values["decisions"], values["error"] = "; ".join(trial.decisions), plain(trial.error, _ERROR_LIMIT)
        writer.writerow([_cell(values[column]) for column in _TRIAL_COLUMNS])
    return text.getvalue()


def _cell(value: object) -> object:
    """A value that no spreadsheet takes for a formula."""
    return f"'{value}" if isinstance(value, str) and value.startswith(_FORMULA) else value
