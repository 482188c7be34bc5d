"""``workbench import``: makes a read-only session of what older TVM left behind, and says how surely each row is matched; or unpacks a session."""

from __future__ import annotations

import argparse
from collections import Counter
from typing import Any

from rich.console import RenderableType

from workbench.api.import_artifacts import import_artifacts
from workbench.cli import formats
from workbench.cli.grid import Column, Grid, Line, Sentence
from workbench.cli.import_archive import holds_archive, import_archive
from workbench.cli.output import note, show
from workbench.cli.profile_table import profile_table
from workbench.cli.sessions import note_session
from workbench.escaping import plain
from workbench.importing.build import Imported
from workbench.records.match import SURE

_BAD_SHOWN = 5
_COLUMNS = (
    Column("Log", priority=0, least=24),
    Column("Task", priority=3, least=20),
    Column("Trials", priority=1, right=True),
    Column("Failed", priority=2),
    Column("Best(us)", priority=0, right=True),
)


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("import", parents=[shared], help="make a session of an archive, or a read-only one of old TVM's artifacts")
    parser.add_argument(
        "files",
        nargs="+",
        metavar="FILE",
        help="files and folders of one model: Relay text, debug tables and dumps, graph JSON, profiler reports, task lists, "
        "auto_scheduler and AutoTVM logs, MetaSchedule databases; or an archive of `workbench export`",
    )
    parser.add_argument("--name", metavar="NAME", help="what to call the model (default: the name of the first file)")
    parser.add_argument("--all", action="store_true", dest="all_rows", help="print every row, not only the hottest")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if holds_archive(options):
        return import_archive(options)
    session, imported = import_artifacts(options.files, session=options.session, name=options.name)
    with session:
        show([*_tables(imported, all_rows=options.all_rows)], values=_values(imported), json_to=options.json)
        for file, bad in imported.bad[:_BAD_SHOWN]:
            note(f"{plain(file)}, line {bad.line} was set aside: {plain(bad.reason, 200)}", quiet=options.quiet)
        if len(imported.bad) > _BAD_SHOWN:
            note(f"{len(imported.bad) - _BAD_SHOWN:,} more lines were set aside; --json lists all", quiet=options.quiet)
        note_session(session.directory, quiet=options.quiet)
    return 0


def _tables(imported: Imported, *, all_rows: bool) -> list[RenderableType]:
    parts: list[RenderableType] = []
    if imported.profile.rows:
        parts.append(profile_table(imported.profile, all_rows=all_rows, matches=imported.matches))
        parts.append(Sentence(_matched(imported), style="bold"))
    if imported.progress:
        parts.append(Grid(columns=_COLUMNS, lines=tuple(_log_line(item) for item in imported.progress)))
    return parts or [Sentence("nothing to show: no rows and no trials", style="")]


def _matched(imported: Imported) -> str:
    """How many rows are tied to operators, and how surely."""
    tied = [match for row, match in imported.matches.items() if imported.profile.rows[row].origins]
    sure = sum(match.confidence >= SURE for match in tied)
    if not tied and (named := [match for match in imported.matches.values() if match.confidence]):
        return f"{len(named)} of {len(imported.matches)} rows are matched to functions of the graph; a Relay program would give their operators"
    words = f"{len(tied)} of {len(imported.matches)} rows are matched to operators of the program, {sure} of them surely"
    unsure = [imported.profile.rows[row].row for row, match in imported.matches.items() if match.confidence < SURE]
    return f"{words}; look at rows {', '.join(map(str, unsure[:10]))}{' ...' if len(unsure) > 10 else ''}" if unsure else words


def _log_line(item: Any) -> Line:
    failed = ", ".join(f"{number} {name}" for name, number in Counter(dict(item.errors)).most_common())
    return Line(
        cells=(plain(item.name, 60), item.task if item.weight else "", str(item.trials), failed, formats.microseconds(item.best_us)), style=""
    )


def _values(imported: Imported) -> dict[str, Any]:
    """The result as JSON: a profile whose rows have their matches, with the logs and what was set aside."""
    values, old_search = imported.profile.to_dict(), imported.old_search.to_dict()
    for row in values["rows"]:
        row["match"] = imported.matches[row["row"]].to_dict()
    return {
        **values,
        "logs": [item.to_dict() for item in imported.progress],
        "curve": old_search["curve"],
        "unmatched_tasks": old_search["unmatched"],
        "set_aside": [{"file": file, "line": bad.line, "reason": bad.reason} for file, bad in imported.bad],
    }
