"""``workbench select``: makes, shows, exports or imports the selection of a session."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path
from typing import Any

from workbench.cli.output import show, write_text
from workbench.cli.sessions import find_session, profile_of
from workbench.cli.task_table import selection_summary, task_table
from workbench.errors import InputError, SelectionError
from workbench.escaping import plain
from workbench.records.profile import Profile
from workbench.records.selection import Selection
from workbench.selection import MOST_BYTES, parse_rows, read_selection, select, write_selection

_EXPORT = "Give a file that `workbench select --export FILE` wrote."


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("select", parents=[shared], help="make, show, export or import the selection")
    parser.add_argument("--top", type=int, metavar="K", help="the K hottest tasks")
    parser.add_argument("--share", type=float, metavar="S", help="hottest tasks until they cover this share of time, e.g. 0.8")
    parser.add_argument("--rows", metavar="0,2,5-9", help="tasks of these rows")
    parser.add_argument("--tasks", nargs="+", metavar="TASK", help="task ids, unique beginnings of them, or kernel names; also separated by commas")
    parser.add_argument("--ops", nargs="+", metavar="OP", help="tasks with these operators, e.g. conv2d; also separated by commas")
    parser.add_argument("--export", metavar="FILE", help="write the selection to a file; - writes it to standard output")
    parser.add_argument("--import", metavar="FILE", dest="import_from", help="take the selection from a file; - reads standard input")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    directory = find_session(options.session, quiet=options.quiet)
    profile = profile_of(directory)
    chosen = _chosen(profile, options)
    with directory.store() as store:
        selection = chosen if chosen is not None else store.selection()
        if selection is None or not selection.tasks:
            raise SelectionError("Nothing is selected.", "Select with --top K, --share 0.8, --rows 0,2,5-9, --tasks or --ops.")
        if options.export is not None:
            write_text(write_selection(selection), options.export, option="--export")
        if chosen is not None:
            store.write_selection(chosen)
    tables = [] if options.export == "-" else [task_table(profile, selection), selection_summary(profile, selection)]
    show(tables, values=selection.to_dict(), json_to=options.json)
    return 0


def _chosen(profile: Profile, options: argparse.Namespace) -> Selection | None:
    """The selection that the options ask for; None if they ask for none."""
    rules = (options.top, options.share, options.rows, options.tasks, options.ops)
    made = any(rule is not None for rule in rules)
    if options.import_from is not None:
        if made:
            raise InputError("--import brings its own tasks.", "Give either --import or rules.")
        return read_selection(_read(options.import_from), profile)
    if not made:
        return None
    return select(
        profile,
        share=options.share,
        top=options.top,
        rows=None if options.rows is None else parse_rows(options.rows, len(profile.kernel_rows)),
        tasks=_names(options.tasks),
        ops=_names(options.ops),
    )


def _names(texts: list[str] | None) -> list[str] | None:
    return None if texts is None else [name for text in texts for name in re.split(r"[,\s]+", text) if name]


def _read(name: str) -> str:
    """The text of a selection's file; of standard input for ``-``."""
    shown = plain(name, 120)
    try:
        if name == "-":
            data = b"" if sys.stdin is None else sys.stdin.buffer.read(MOST_BYTES + 1)
        else:
            with Path(name).open("rb") as file:
                data = file.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise SelectionError(f"{shown} is too large for a selection.", _EXPORT)
        return data.decode("utf-8-sig")
    except OSError as error:
        raise SelectionError(f"{shown} cannot be read: {error.strerror}.", _EXPORT) from error
    except ValueError as error:
        raise SelectionError(f"{shown} is no UTF-8 text.", _EXPORT) from error
