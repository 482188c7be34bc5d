"""``workbench library``: winners of many sessions, found again by kernel and target."""

from __future__ import annotations

import argparse
import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.api.library import library_winners
from workbench.cli import formats
from workbench.cli.grid import Column, Grid, Line, Sentence
from workbench.cli.output import show
from workbench.cli.sessions import find_session, profile_of
from workbench.library import Library, Winner, collect
from workbench.report.figures_text import plural
from workbench.session import SessionDirectory

_COLUMNS = (
    Column("Kernel", priority=0, least=12),
    Column("Target", priority=2),
    Column("Untuned(us)", priority=3, right=True),
    Column("Winner(us)", priority=1, right=True),
    Column("Gain", priority=1, right=True, style="green"),
    Column("Model", priority=4, least=8),
    Column("TVM", priority=6),
    Column("Added", priority=7),
    Column("Shapes", priority=5, least=16),
)


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command with its three verbs to the parser."""
    parser = commands.add_parser("library", parents=[shared], help="winners of many sessions, found again by kernel and target")
    parser.add_argument("--library", metavar="DIR", dest="place", help="another library than that of this user")
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    add = verbs.add_parser("add", parents=[shared], help="take the winners of sessions into the library")
    add.add_argument("sessions", nargs="*", metavar="SESSION", help="session directories (default: the session worked on last)")
    verbs.add_parser("list", parents=[shared], help="everything that the library holds")
    verbs.add_parser("find", parents=[shared], help="what the library holds for the kernels of a session")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    library = Library(None if options.place is None else Path(options.place))
    return {"add": _add, "list": _list, "find": _find}[options.verb](options, library)


def _add(options: argparse.Namespace, library: Library) -> int:
    directories = [SessionDirectory.open(Path(path)) for path in options.sessions] or [find_session(options.session, quiet=options.quiet)]
    found = [collect(directory, library) for directory in directories]
    added = [winner for item in found for winner in item.added]
    left_out = [(name, why) for item in found for name, why in item.left_out.items()]
    sentences = [f"{len(added)} added to {library.place}", *(f"left out: {name}: {why}" for name, why in left_out)]
    values = {"added": _dicts(added), "left_out": [list(item) for item in left_out]}
    return _show(options, library, added, sentences, values)


def _list(options: argparse.Namespace, library: Library) -> int:
    winners = library.all()
    return _show(options, library, winners, [f"{plural(len(winners), 'winner')} in {library.place}"], {"winners": _dicts(winners)})


def _find(options: argparse.Namespace, library: Library) -> int:
    directory = find_session(options.session, quiet=options.quiet)
    profile = profile_of(directory)
    found = library_winners(directory, library)
    covered = sum(task.time_percent or 0.0 for task in profile.tasks if task.task in found)
    sentences = [f"{len(found)} of {len(profile.tasks)} tasks are in the library, with {covered:.0f} % of the time"]
    sentences += ["`workbench tune` tries these schedules first, and measures them as any other"] if found else []
    values = {"tasks": {task: _dicts(items) for task, items in found.items()}}
    return _show(options, library, [winner for items in found.values() for winner in items], sentences, values)


def _show(options: argparse.Namespace, library: Library, winners: Sequence[Winner], sentences: list[str], values: dict[str, Any]) -> int:
    grid = Grid(_COLUMNS, tuple(_line(winner) for winner in winners), remedy="widen the terminal, or use --json")
    show([grid, *(Sentence(text) for text in sentences)], values={"library": str(library.place), **values}, json_to=options.json)
    return 0


def _dicts(winners: Sequence[Winner]) -> list[dict[str, Any]]:
    return [winner.to_dict() for winner in winners]


def _line(winner: Winner) -> Line:
    added = dt.datetime.fromtimestamp(winner.added_at, dt.UTC).strftime("%Y-%m-%d") if 0 <= winner.added_at < 2**36 else ""
    times = (formats.microseconds(winner.baseline_us), formats.microseconds(winner.winner_us), f"{winner.gain:.2f}x")
    return Line(cells=(winner.kernel, winner.target, *times, winner.model, winner.tvm, added, ", ".join(winner.shapes)))
