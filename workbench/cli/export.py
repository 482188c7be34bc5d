"""``workbench export``: what a session holds, for other programs and other people."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.text import Text

import workbench
from workbench.cli.output import note, show, write_text
from workbench.cli.sessions import find_session, profile_of
from workbench.errors import InputError, SelectionError
from workbench.escaping import plain
from workbench.exchange import export_records, pack_session, trials_csv, trials_parquet
from workbench.selection import write_selection
from workbench.session import SessionDirectory

_PARQUET = ".parquet"


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("export", parents=[shared], help="trials, records, selection, or the whole session, for others")
    parser.add_argument("--trials", metavar="FILE", help="all trials as CSV, or as Parquet for FILE.parquet; - writes CSV to standard output")
    parser.add_argument("--records", metavar="DIR", help="the records as a MetaSchedule database that stock TVM loads")
    parser.add_argument("--selection", metavar="FILE", help="the selection, as `workbench select --export` writes it")
    parser.add_argument("--archive", metavar="FILE", help="the whole session in one file, for `workbench import`")
    parser.set_defaults(run=_run, destinations=("--trials", "--selection", "--archive"))


def _run(options: argparse.Namespace) -> int:
    wanted = {name: getattr(options, name) for name in _EXPORTERS if getattr(options, name) is not None}
    if not wanted:
        raise InputError("Nothing to export was named.", "Give --trials FILE, --records DIR, --selection FILE or --archive FILE.")
    directory = find_session(options.session, quiet=options.quiet)
    profile_of(directory)
    done = {name: _EXPORTERS[name](directory, place) for name, place in wanted.items()}
    for name, (_, words) in done.items():
        note(f"{name}: {words}", quiet=options.quiet)
    values = {name: figures for name, (figures, _) in done.items()}
    lines = [Text(plain(place, 200)) for place in wanted.values() if place != "-"]
    show(list(lines), values=values, json_to=options.json)
    return 0


def _trials(directory: SessionDirectory, place: str) -> tuple[dict[str, Any], str]:
    with directory.store() as store:
        trials = [stored.trial for stored in store.trials.all()]
        names = {task.task: task.name for task in store.trials.progress()}
    if place.endswith(_PARQUET):
        trials_parquet(trials, names, Path(place))
    else:
        write_text(trials_csv(trials, names), place, option="--trials")
    return {"file": place, "trials": len(trials)}, f"{len(trials):,} trials"


def _records(directory: SessionDirectory, place: str) -> tuple[dict[str, Any], str]:
    count = export_records(directory, Path(place))
    return {"folder": place, "records": count}, f"{count:,} records; load with JSONDatabase(work_dir=...)"


def _selection(directory: SessionDirectory, place: str) -> tuple[dict[str, Any], str]:
    with directory.store() as store:
        selection = store.selection()
    if selection is None or not selection.tasks:
        raise SelectionError("Nothing is selected.", "Select something first: workbench select --share 0.8.")
    write_text(write_selection(selection), place, option="--selection")
    return {"file": place, "tasks": len(selection.tasks)}, f"{len(selection.tasks)} tasks"


def _archive(directory: SessionDirectory, place: str) -> tuple[dict[str, Any], str]:
    contents = pack_session(directory, Path(place), version=workbench.__version__)
    size = Path(place).stat().st_size
    return {"file": place, "files": len(contents.files), "bytes": size}, f"{len(contents.files)} files, {size / 1e6:,.1f} MB"


_EXPORTERS = {"trials": _trials, "records": _records, "selection": _selection, "archive": _archive}
