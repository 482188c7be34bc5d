"""Takes out of a session what a user names: trials, records, selection, or all of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench import __version__
from workbench.errors import EnvironmentFault, SelectionError
from workbench.escaping import plain
from workbench.exchange import export_records, pack_session, trials_csv, trials_parquet
from workbench.selection import write_selection
from workbench.session import SessionDirectory
from workbench.whole_files import write_whole

PARQUET = ".parquet"


def trials_text(directory: SessionDirectory) -> tuple[str, int]:
    """All trials as CSV, and how many there are."""
    trials, names = _trials(directory)
    return trials_csv(trials, names), len(trials)


def selection_text(directory: SessionDirectory) -> tuple[str, int]:
    """The selection as its file holds it, and how many tasks it has.

    Raises:
        SelectionError: Nothing is selected.
    """
    with directory.store() as store:
        selection = store.selection()
    if selection is None or not selection.tasks:
        raise SelectionError("Nothing is selected.", "Select something first: workbench select --share 0.8.")
    return write_selection(selection), len(selection.tasks)


def export_trials(directory: SessionDirectory, path: Path) -> int:
    """Write all trials, as Parquet where the file's name says so, else as CSV; returns how many there are.

    Raises:
        EnvironmentFault: The file cannot be written, or pyarrow is not installed.
    """
    if path.suffix == PARQUET:
        trials, names = _trials(directory)
        trials_parquet(trials, names, path)
        return len(trials)
    text, count = trials_text(directory)
    _write(path, text)
    return count


def export_parts(
    directory: SessionDirectory, *, trials: Path | None, records: Path | None, selection: Path | None, archive: Path | None
) -> dict[str, dict[str, Any]]:
    """Write what a path is given for; returns what each holds, as in ``export --json``."""
    done: dict[str, dict[str, Any]] = {}
    if trials is not None:
        done["trials"] = {"file": str(trials), "trials": export_trials(directory, trials)}
    if records is not None:
        done["records"] = {"folder": str(records), "records": export_records(directory, records)}
    if selection is not None:
        text, count = selection_text(directory)
        _write(selection, text)
        done["selection"] = {"file": str(selection), "tasks": count}
    if archive is not None:
        contents = pack_session(directory, archive, version=__version__)
        done["archive"] = {"file": str(archive), "files": len(contents.files), "bytes": archive.stat().st_size}
    return done


def _trials(directory: SessionDirectory) -> tuple[list[Any], dict[str, str]]:
    with directory.store() as store:
        return [stored.trial for stored in store.trials.all()], {task.task: task.name for task in store.trials.progress()}


def _write(path: Path, text: str) -> None:
    try:
        write_whole(path, text)
    except OSError as error:
        raise EnvironmentFault(f"{plain(str(path), 120)} cannot be written: {error.strerror or error}.", "Give another file.") from error
