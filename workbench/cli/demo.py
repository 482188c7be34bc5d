"""``workbench demo``: the main job on a bundled model."""

from __future__ import annotations

import argparse
from typing import Any

from rich.text import Text

from workbench.api import open as open_session
from workbench.cli.output import note, show
from workbench.cli.profile import run_profile
from workbench.cli.profile_table import profile_table
from workbench.cli.sessions import note_session
from workbench.cli.task_table import selection_summary, task_table

_MODEL = "squeezenet"
_SHARE = 0.8


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("demo", parents=[shared], help="the main job on a bundled model")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    with open_session(_MODEL, target="auto", session=options.session) as session:
        note(f"Profiling the bundled model {_MODEL}.", quiet=options.quiet)
        profile = run_profile(session, quiet=options.quiet)
        selection = profile.select(share=_SHARE)
        show(
            [
                profile_table(profile.record),
                Text(f"\nHotspots: the tasks that cover {_SHARE:.0%} of the time\n"),
                task_table(profile.record, selection),
                selection_summary(profile.record, selection),
            ],
            values={"profile": profile.to_dict(), "selection": selection.to_dict()},
            json_to=options.json,
        )
        note_session(session.directory, quiet=options.quiet)
    return 0
