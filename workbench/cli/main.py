"""The command line: parses arguments, runs one command, turns errors into a sentence and an exit code."""

from __future__ import annotations

import argparse
import io
import os
import sys
import traceback
from collections.abc import Sequence

import workbench
from workbench.cli import (
    apply,
    compare,
    demo,
    doctor,
    export,
    import_artifacts,
    inspect,
    lab,
    library,
    models,
    profile,
    report,
    rerun,
    select,
    tasks,
    tune,
)
from workbench.cli.arguments import Parser
from workbench.cli.output import check_destinations, discard
from workbench.errors import EnvironmentFault, InputError, InternalError, Interrupted, WorkbenchError
from workbench.escaping import plain

_COMMANDS = (
    *(doctor, models, profile, tasks, select, tune, apply, inspect, rerun),
    *(report, export, import_artifacts, library, compare, demo, lab),
)
_MESSAGE_LIMIT = 2000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``workbench``.

    Returns:
        0 done; 1 ran but the answer is no; 2 bad input; 3 environment fault; 130 interrupted, state saved.
    """
    _prepare_streams()
    parser = _parser()
    options = parser.parse_args(arguments)
    if options.command is None:
        parser.print_help(sys.stderr)
        return InputError.exit_code
    try:
        check_destinations(options)
        return int(options.run(options))
    except BrokenPipeError:
        _silence()
        return 0
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the last place that can make a sentence of it
        return _report(error, verbose=options.verbose)


def _report(error: BaseException, *, verbose: bool) -> int:
    """Say what happened in one line, with the full text below it if the user wants it; returns the exit code."""
    known = _known(error)
    try:
        print(f"workbench: {plain(str(known), _MESSAGE_LIMIT)}", file=sys.stderr)
        if verbose:
            traceback.print_exception(error)
        sys.stderr.flush()
        sys.stdout.flush()
    except OSError:
        _silence()
    return known.exit_code


def _known(error: BaseException) -> WorkbenchError:
    """The error as one of ours."""
    if isinstance(error, WorkbenchError):
        return error
    if isinstance(error, KeyboardInterrupt):
        return Interrupted("Stopped.", "What was finished before is saved.")
    if isinstance(error, OSError):
        place = f"{plain(str(error.filename), 120)}: " if error.filename else ""
        return EnvironmentFault(f"{place}{error.strerror or error}.", "Check the place and its free space.")
    if isinstance(error, MemoryError):
        return EnvironmentFault("The memory of this machine is not enough.", "Use a machine with more memory.")
    return InternalError(f"The workbench failed: {type(error).__name__}: {error}.", "Please report it with the text that -v shows.")


def _prepare_streams() -> None:
    """Let every command print: into nothing where a stream is closed, escaped where its encoding lacks a character."""
    if sys.stdout is None:
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open as long as the process lives
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - open as long as the process lives
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def _silence() -> None:
    """Send what is still unwritten to nowhere: its reader has gone, or its disk is full, and the end of the process would write it again."""
    discard(sys.stdout)
    discard(sys.stderr)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="workbench", description="Interactive kernel tuning for Apache TVM.", parents=[_shared_options()])
    parser.add_argument("--version", action="version", version=f"workbench {workbench.__version__}")
    parser.set_defaults(session=None, json=None, quiet=False, verbose=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    # Parsers of their own: a parent's options are the same objects in every child, and `set_defaults` above changes them.
    shared = _shared_options()
    for module in _COMMANDS:
        module.add_command(commands, shared)
    return parser


def _shared_options() -> argparse.ArgumentParser:
    """Options that stand before or after the command; an absent one leaves the other place's value alone."""
    shared = Parser(add_help=False, argument_default=argparse.SUPPRESS)
    shared.add_argument("--session", metavar="DIR", help="session directory (default: workbench-sessions/<model>[-<args>]-<target>)")
    shared.add_argument("--json", metavar="FILE", help="write the result as JSON; - writes JSON alone to standard output")
    shared.add_argument("-q", "--quiet", action="store_true", help="no progress, results only")
    shared.add_argument("-v", "--verbose", action="store_true", help="full error texts")
    return shared


if __name__ == "__main__":
    sys.exit(main())
