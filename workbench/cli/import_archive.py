"""``workbench import`` of an archive: a session that somebody has packed, into a directory of its own."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.output import show
from workbench.cli.profile_table import profile_table
from workbench.cli.sessions import note_session, profile_of
from workbench.errors import InputError
from workbench.escaping import plain
from workbench.exchange import is_archive, unpack_session


def holds_archive(options: argparse.Namespace) -> bool:
    """True if the files that were named are an archive of a session.

    Raises:
        InputError: An archive is among other files, or gets a name.
    """
    archives = [file for file in options.files if is_archive(Path(file))]
    if archives and (len(options.files) > 1 or options.name is not None):
        raise InputError(f"{plain(archives[0], 120)} is a whole session.", "Import it alone and without --name.")
    return bool(archives)


def import_archive(options: argparse.Namespace) -> int:
    """Unpack it and show its profile."""
    directory = unpack_session(Path(options.files[0]), None if options.session is None else Path(options.session))
    profile = profile_of(directory)
    note_session(directory, quiet=options.quiet)
    show([profile_table(profile, all_rows=options.all_rows)], values={"session": str(directory.path), **profile.header()}, json_to=options.json)
    return 0
