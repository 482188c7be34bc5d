"""The command line: parses arguments, runs one command, turns errors into a sentence and an exit code."""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from collections.abc import Sequence

from workbench.cli import demo, doctor, models, profile, select, tasks
from workbench.errors import Interrupted, WorkbenchError
from workbench.escaping import plain

_INTERNAL_ERROR = 1
_MESSAGE_LIMIT = 2000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run ``workbench``.

    Returns:
        0 done; 1 ran but the answer is no; 2 bad input; 3 environment fault; 130 interrupted, state saved.
    """
    options = _parser().parse_args(arguments)
    try:
        return int(options.run(options))
    except KeyboardInterrupt:
        return _report(Interrupted("Stopped.", "What was finished before is saved."), verbose=False)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader has gone: nothing more can be said
        return 0
    except WorkbenchError as error:
        return _report(error, verbose=options.verbose)
    except OSError as error:
        print(f"workbench: {plain(str(error), _MESSAGE_LIMIT)}", file=sys.stderr)
        return 3


def _report(error: WorkbenchError, *, verbose: bool) -> int:
    print(f"workbench: {plain(str(error), _MESSAGE_LIMIT)}", file=sys.stderr)
    if verbose:
        traceback.print_exception(error)
    return error.exit_code


def _parser() -> argparse.ArgumentParser:
    shared = argparse.ArgumentParser(add_help=False, argument_default=argparse.SUPPRESS)
    shared.add_argument("--session", metavar="DIR", help="session directory (default: workbench-sessions/<model>-<target>)")
    shared.add_argument("--json", metavar="FILE", help="write the result as JSON; - writes JSON alone to standard output")
    shared.add_argument("-q", "--quiet", action="store_true", help="no progress, results only")
    shared.add_argument("-v", "--verbose", action="store_true", help="full error texts")
    parser = argparse.ArgumentParser(
        prog="workbench", description="Interactive kernel tuning for Apache TVM.", parents=[shared], allow_abbrev=False
    )
    parser.set_defaults(session=None, json=None, quiet=False, verbose=False)
    commands = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for module in (doctor, models, profile, tasks, select, demo):
        module.add_command(commands, shared)
    return parser


if __name__ == "__main__":
    sys.exit(main())
