"""``workbench rerun``: a recorded trial, lowered and measured again."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from typing import Any

from workbench.api import open as open_session
from workbench.cli import formats
from workbench.cli.arguments import add_python_option, count
from workbench.cli.grid import Sentence
from workbench.cli.output import show
from workbench.cli.progress import ProgressLine
from workbench.cli.sessions import find_session, profile_of
from workbench.cli.tune_figures import first_line
from workbench.escaping import plain
from workbench.records.rerun import Rerun

FAILED = 1
"""Exit code if the trial does not run any more, or its output is wrong."""


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("rerun", parents=[shared], help="lower and measure a recorded trial again, and say how far it is from its record")
    parser.add_argument("--task", required=True, metavar="T", help="the task, or the name of its kernel: see workbench tasks")
    parser.add_argument("--trial", type=count, metavar="N", help="number of the trial, 0 for the untuned kernel (default: the winner of the search)")
    parser.add_argument("--device", type=count, metavar="I", help="index of the device (default: that of the record)")
    parser.add_argument("--trust", action="store_true", help="allow a recorded schedule that brings code of its own")
    add_python_option(parser)
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    directory = find_session(options.session, quiet=options.quiet)
    profile_of(directory)
    with open_session(directory.path.absolute(), trust=options.trust, python=options.python) as session, ProgressLine(quiet=options.quiet) as line:
        found = session.rerun(options.task, options.trial, device=options.device, on_event=line.on_event)
    show([Sentence(words, style=style) for style, words in _words(found)], values=found.to_dict(), json_to=options.json)
    return 0 if found.passed else FAILED


def _words(found: Rerun) -> Iterator[tuple[str, str]]:
    """What came of it, in sentences."""
    name = f"{plain(found.kernel)}, {'the untuned kernel' if found.trial == 0 else f'trial {found.trial}'}"
    if not found.passed:
        yield "red", f"{name}: {found.status}: {first_line(found.error)}"
        return
    yield "bold", f"{name}: {formats.microseconds(found.measured_us)} us (IQR {formats.microseconds(found.measured_us_iqr)})"
    yield "", found.distance or "there is no time in the record"
    if found.gain:
        yield "", f"beside the untuned kernel now: {found.gain}"
    if found.check is not None:
        largest = "not a number" if found.check.max_abs is None else f"{found.check.max_abs:.3g}"
        yield "green", f"its output agrees with the untuned kernel's; the largest difference is {largest}"
