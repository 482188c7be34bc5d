"""``workbench demo``: the main job on a bundled model."""

from __future__ import annotations

import argparse
import functools
from typing import Any

from rich.text import Text

from workbench.api import open as open_session
from workbench.cli.apply import NOT_VERIFIED, run_apply
from workbench.cli.apply_table import apply_table
from workbench.cli.output import note, show
from workbench.cli.profile_table import profile_table
from workbench.cli.progress import ProgressLine
from workbench.cli.sessions import note_session
from workbench.cli.task_table import selection_summary, task_table
from workbench.cli.tune import run_search
from workbench.cli.tune_table import tune_table
from workbench.escaping import plain

_MODEL = "squeezenet"
_SHARE = 0.8
_TRIALS_PER_TASK = 24
_MOST_SECONDS = 75.0
_REPORT = "report.html"


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("demo", parents=[shared], help="the main job on a bundled model")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    with open_session(_MODEL, target="auto", session=options.session) as session:
        note(f"Profiling the bundled model {_MODEL}.", quiet=options.quiet)
        with ProgressLine(quiet=options.quiet) as line:
            profile = session.profile(on_event=line.on_event)  # a demo that was begun goes on
        selection = profile.select(share=_SHARE)
        note(f"Tuning the {len(selection.tasks)} tasks that cover {_SHARE:.0%} of the time.", quiet=options.quiet)
        begin = functools.partial(session.tune, selection, per_task=_TRIALS_PER_TASK, seconds=_MOST_SECONDS, resume=True)
        outcome = run_search(session, begin, profile.record, quiet=options.quiet, again="workbench demo")
        shown = [
            profile_table(profile.record),
            Text(f"\nHotspots: the tasks that cover {_SHARE:.0%} of the time\n"),
            task_table(profile.record, selection),
            selection_summary(profile.record, selection),
            Text("\nTuned\n"),
            tune_table(outcome.result, outcome.progress, profile.record),
        ]
        values = {"profile": profile.to_dict(), "selection": selection.to_dict(), "search": outcome.result}
        if outcome.interrupted is not None:
            show(shown, values=values, json_to=options.json)
            note_session(session.directory, quiet=options.quiet)
            raise outcome.interrupted
        note("Applying the winners: built, verified against the untuned model, and compared with it.", quiet=options.quiet)
        comparison = run_apply(session, quiet=options.quiet)
        note("Writing the report.", quiet=options.quiet)
        report = session.report(session.path / _REPORT)
        show(
            [
                *shown,
                Text("\nApplied\n"),
                apply_table(comparison.record, profile.record, session.peaks()),
                Text(f"\nReport: {plain(str(report), 200)}"),
            ],
            values={**values, "comparison": comparison.to_dict(), "report": str(report)},
            json_to=options.json,
        )
        note_session(session.directory, quiet=options.quiet)
    return 0 if comparison.applied else NOT_VERIFIED
