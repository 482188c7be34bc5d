"""``workbench export``: what a session holds, for other programs and other people."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.text import Text

from workbench.api.exporting import export_parts, selection_text, trials_text
from workbench.cli.output import show, write_text
from workbench.cli.sessions import find_session, profile_of
from workbench.errors import InputError
from workbench.escaping import plain

_STDOUT = "-"
_TEXTS = {"trials": trials_text, "selection": selection_text}


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("export", parents=[shared], help="trials, records, selection, or the whole session, for others")
    parser.add_argument("--trials", metavar="FILE", help="all trials as CSV, or as Parquet for FILE.parquet; - writes CSV to standard output")
    parser.add_argument("--records", metavar="DIR", help="the records as a MetaSchedule database that stock TVM loads")
    parser.add_argument("--selection", metavar="FILE", help="the selection, as `workbench select --export` writes it; - as above")
    parser.add_argument("--archive", metavar="FILE", help="the whole session in one file, for `workbench import`")
    parser.set_defaults(run=_run, destinations=("--trials", "--selection", "--archive"))


def _run(options: argparse.Namespace) -> int:
    wanted = {name: getattr(options, name) for name in ("trials", "records", "selection", "archive") if getattr(options, name) is not None}
    if not wanted:
        raise InputError("Nothing to export was named.", "Give --trials FILE, --records DIR, --selection FILE or --archive FILE.")
    if _STDOUT in (wanted.get("archive"), wanted.get("records")):
        raise InputError("Archives and records are no text for standard output.", "Give a place to them.")
    directory = find_session(options.session, quiet=options.quiet)
    profile_of(directory)
    printed = [name for name, place in wanted.items() if place == _STDOUT]
    for name in printed:
        write_text(_TEXTS[name](directory)[0], wanted.pop(name), option=f"--{name}")
    places = {name: Path(wanted[name]) if name in wanted else None for name in ("trials", "records", "selection", "archive")}
    done = export_parts(directory, **places)
    lines = (
        []
        if printed
        else [Text(plain(f"{name}: " + ", ".join(f"{key} {value}" for key, value in figures.items()), 200)) for name, figures in done.items()]
    )
    show(list(lines), values=done, json_to=options.json)
    return 0
