"""``workbench import``: a session that somebody has packed, into a directory of its own."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from workbench.cli.output import show
from workbench.cli.profile_table import profile_table
from workbench.cli.sessions import note_session, profile_of
from workbench.errors import InputError
from workbench.escaping import plain
from workbench.exchange import is_archive, unpack_session


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("import", parents=[shared], help="a session that `workbench export --archive` packed, into a new directory")
    parser.add_argument("file", metavar="FILE", help="the archive")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    path = Path(options.file)
    if not path.is_file():
        raise InputError(f"There is no file {plain(options.file, 120)}.", "Give an archive that `workbench export --archive FILE` wrote.")
    if not is_archive(path):
        raise InputError(f"{plain(options.file, 120)} is no archive of a session.", "Give one that `workbench export --archive FILE` wrote.")
    directory = unpack_session(path, None if options.session is None else Path(options.session))
    profile = profile_of(directory)
    note_session(directory, quiet=options.quiet)
    show([profile_table(profile)], values={"session": str(directory.path), **profile.header()}, json_to=options.json)
    return 0
