"""``workbench doctor``: prints what `workbench.doctor` found."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from workbench import doctor
from workbench.cli.arguments import add_python_option
from workbench.cli.formats import table_console
from workbench.cli.output import show
from workbench.doctor import Check, DoctorReport

_STYLES = {"ok": "green", "warning": "yellow", "fault": "bold red"}


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("doctor", parents=[shared], help="check TVM, compiler, CPU, GPUs; one line each with a remedy")
    add_python_option(parser)
    parser.set_defaults(run=lambda options: run_doctor(session=options.session, json_to=options.json, quiet=options.quiet, python=options.python))


def run_doctor(*, session: str | None = None, json_to: str | None, quiet: bool, python: str = "") -> int:
    """Examine this machine and print one line a check, with the remedy below where there is one.

    Args:
        session: The directory that will be written; None looks at the place where sessions go by default.
        json_to: ``-`` for JSON alone on stdout, a file name for JSON in that file besides the lines, None for lines only.
        quiet: Print only warnings and faults.
        python: The old Python of the relay engine; empty takes that of the environment variable.

    Returns:
        Exit code: 0, or 1 if a fault was found.

    Raises:
        EnvironmentFault: The JSON file cannot be written.
    """
    report = doctor.examine(python=python) if session is None else doctor.examine(sessions=Path(session), python=python)
    show([], values=report.to_dict(), json_to=json_to)
    if json_to != "-":
        print_report(report, table_console(), quiet=quiet)
    return 0 if report.healthy else 1


def print_report(report: DoctorReport, console: Console, *, quiet: bool) -> None:
    """Print the checks to `console`; text that came from the environment is shown as it is, without markup."""
    shown = [check for check in report.checks if not quiet or check.status != "ok"]
    width = max((len(check.name) for check in report.checks), default=0)
    for check in shown:
        console.print(_line(check, width), soft_wrap=True)
    faults = sum(check.status == "fault" for check in report.checks)
    if not quiet:
        console.print(Text("No faults found." if faults == 0 else f"{faults} fault{'' if faults == 1 else 's'} found."))


def _line(check: Check, width: int) -> Text:
    line = Text.assemble((f"{check.status:<8}", _STYLES[check.status]), f"{check.name:<{width}}  ", _printable(check.value))
    if check.remedy:
        line.append(f"\n{'':<{10 + width}}-> {_printable(check.remedy)}")
    return line


def _printable(text: str) -> str:
    """Without control characters, which a variable of the environment may hold and a terminal would obey."""
    return "".join(character if character.isprintable() else "?" for character in text)
