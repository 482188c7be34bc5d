"""A session that somebody has packed, into a directory of its own: the part of ``workbench import`` that is not about old artifacts."""

from __future__ import annotations

import argparse
from pathlib import Path

from workbench.cli.output import show
from workbench.cli.profile_table import profile_table
from workbench.cli.sessions import note_session, profile_of
from workbench.exchange import unpack_session


def import_archive(path: Path, options: argparse.Namespace) -> int:
    """Unpack an archive that ``workbench export --archive`` wrote, and print its profile."""
    directory = unpack_session(path, None if options.session is None else Path(options.session))
    profile = profile_of(directory)
    note_session(directory, quiet=options.quiet)
    show([profile_table(profile)], values={"session": str(directory.path), **profile.header()}, json_to=options.json)
    return 0
