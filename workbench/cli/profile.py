"""``workbench profile``: imports, lowers, profiles, extracts and links a model, and prints the table."""

from __future__ import annotations

import argparse
from typing import Any

from workbench.api import Session, SessionProfile
from workbench.api import open as open_session
from workbench.cli.arguments import add_profile_options, json_arguments, shape_options
from workbench.cli.output import show, write_text
from workbench.cli.profile_table import profile_table
from workbench.cli.progress import ProgressLine
from workbench.cli.sessions import note_session
from workbench.cli.table_csv import profile_csv
from workbench.records.peaks import Peaks


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("profile", parents=[shared], help="import, lower, profile and link a model; prints the table")
    parser.add_argument("model", metavar="MODEL", help="a model file, a bundled name, or module:function of a TE workload")
    add_profile_options(parser)
    parser.add_argument("--csv", metavar="FILE", help="write the rows as CSV; - writes CSV to standard output instead of the table")
    parser.add_argument("--all", action="store_true", dest="all_rows", help="print every row, not only the hottest")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    with open_session(
        options.model,
        target=options.target,
        session=options.session,
        shapes=shape_options(options.shape),
        args=json_arguments(options.args),
        layout=options.layout,
        fusion=not options.no_fusion,
        threads=options.threads,
        repeat=options.repeat,
        seed=options.seed,
        trust=options.trust,
        engine=options.engine,
        python=options.python,
    ) as session:
        profile = run_profile(session, quiet=options.quiet)
        _print(profile, options, session.peaks())
        note_session(session.directory, quiet=options.quiet)
    return 0


def run_profile(session: Session, *, quiet: bool) -> SessionProfile:
    """Profile with progress on standard error."""
    with ProgressLine(quiet=quiet) as line:
        return session.profile(refresh=True, on_event=line.on_event)


def _print(profile: SessionProfile, options: argparse.Namespace, peaks: Peaks | None) -> None:
    if options.csv is not None:
        write_text(profile_csv(profile.record), options.csv, option="--csv")
    tables = [] if options.csv == "-" else [profile_table(profile.record, all_rows=options.all_rows, peaks=peaks)]
    show(tables, values=profile.to_dict(), json_to=options.json)
