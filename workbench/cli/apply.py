"""``workbench apply``: the model with the winners of its searches, verified against the untuned one and compared with it."""

from __future__ import annotations

import argparse
from typing import Any

from workbench.api import Comparison, Session
from workbench.api import open as open_session
from workbench.cli.apply_table import apply_table
from workbench.cli.arguments import add_python_option, positive
from workbench.cli.output import note, show
from workbench.cli.progress import ProgressLine
from workbench.cli.sessions import find_session, profile_of

NOT_VERIFIED = 1
"""Exit code if the verification failed, so that nothing was applied."""

_INPUTS = 3


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("apply", parents=[shared], help="build the model with the winners, verify it, compare it, and write it to tuned/")
    parser.add_argument("--inputs", type=positive, default=_INPUTS, metavar="N", help=f"random inputs to compare outputs on (default: {_INPUTS})")
    parser.add_argument("--rounds", type=positive, metavar="N", help="measured rounds of each model (default: for about 6 seconds)")
    parser.add_argument("--anew", action="store_true", help="decide again which records are too slow in the model (else as the last time)")
    parser.add_argument("--trust", action="store_true", help="allow recorded schedules and the model to run code of their own")
    add_python_option(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    directory = find_session(options.session, quiet=options.quiet)
    profile = profile_of(directory)
    with open_session(directory.path.absolute(), trust=options.trust, python=options.python) as session:
        comparison = run_apply(session, inputs=options.inputs, rounds=options.rounds, anew=options.anew, quiet=options.quiet)
        show([apply_table(comparison.record, profile, session.peaks())], values=comparison.to_dict(), json_to=options.json)
    return 0 if comparison.applied else NOT_VERIFIED


def run_apply(session: Session, *, inputs: int = _INPUTS, rounds: int | None = None, anew: bool = False, quiet: bool) -> Comparison:
    """Apply with progress on standard error.

    Raises:
        WorkbenchError: It cannot be done; the applied model is what it was.
    """
    with ProgressLine(quiet=quiet) as line:
        comparison = session.apply(inputs=inputs, rounds=rounds, anew=anew, on_event=line.on_event)
    if comparison.applied:
        note(f"applied: {comparison.path}", quiet=quiet)
    return comparison
