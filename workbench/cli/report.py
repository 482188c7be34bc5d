"""``workbench report``: one self-contained page about a session."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.text import Text

from workbench.api import open as open_session
from workbench.cli.arguments import add_python_option
from workbench.cli.output import note, show
from workbench.cli.sessions import find_session, profile_of
from workbench.errors import InputError
from workbench.escaping import plain


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("report", parents=[shared], help="one self-contained page: before and after, curves, verdicts, sources, environment")
    parser.add_argument("-o", "--output", default="report.html", metavar="FILE", help="the page (default: report.html)")
    parser.add_argument("--no-sources", action="store_true", help="leave out the winners' sources, which a worker has to make")
    add_python_option(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.output == "-":
        raise InputError("A report is a page, and nothing for standard output.", "Give a file: -o report.html.")
    directory = find_session(options.session, quiet=options.quiet)
    profile_of(directory)
    with open_session(directory.path.absolute(), python=options.python) as session:
        if not options.no_sources:
            note("Collecting the sources of the winners.", quiet=options.quiet)
        path = session.report(Path(options.output), sources=not options.no_sources)
    size = path.stat().st_size
    show([Text(f"{plain(str(path), 200)} ({size / 1e3:,.0f} kB)")], values={"report": str(path), "bytes": size}, json_to=options.json)
    return 0
