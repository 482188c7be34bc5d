"""Where a command's result goes: a table on standard output, JSON in a file or alone on standard output; all else to standard error."""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TextIO

from rich.console import RenderableType

from workbench.cli.formats import table_console
from workbench.errors import EnvironmentFault, InputError
from workbench.escaping import plain
from workbench.session import DATABASE, SESSION_FILES
from workbench.whole_files import write_whole

_STDOUT = "-"
_DESTINATIONS = ("--json", "--csv", "--export", "--output")


def check_destinations(options: argparse.Namespace) -> None:
    """Find out before the work whether its result can be written.

    Raises:
        InputError: Two results want standard output, or an option names a directory, or a file in a directory that does not exist.
        EnvironmentFault: A file may not be written.
    """
    wanted = [(option, getattr(options, option.removeprefix("--"), None)) for option in (*_DESTINATIONS, *getattr(options, "destinations", ()))]
    to_stdout = [option for option, destination in wanted if destination == _STDOUT]
    if len(to_stdout) > 1:
        raise InputError(f"{' and '.join(to_stdout)} cannot both write to standard output.", "Give a file to one of them.")
    if options.session is not None and not options.session.strip():
        raise InputError("--session names no directory.", "Give a directory, or leave --session out.")
    files: dict[Path, str] = {}
    for option, destination in wanted:
        if destination in (None, _STDOUT):
            continue
        _check_file(destination, option)
        path = Path(destination).resolve()
        if path.is_file() and path in files:
            raise InputError(f"{files[path]} and {option} name the same file.", "Give each a file of its own.")
        files.setdefault(path, option)
        if getattr(options, "model", None) is not None and path == Path(options.model).resolve():
            raise InputError(f"{option} would overwrite the model.", f"Give another file to {option}.")
        if path.name in SESSION_FILES and (path.parent / DATABASE).exists():
            raise InputError(f"{option} would overwrite a part of a session.", f"Give another file to {option}.")


def _check_file(destination: str, option: str) -> None:
    path, shown = Path(destination), plain(destination, 120)
    try:
        if not destination or path.is_dir():
            raise InputError(f"{option} {shown} is a directory." if destination else f"{option} names no file.", f"Give a file to {option}.")
        if not path.parent.is_dir():
            raise InputError(f"{option} {shown}: there is no directory {plain(str(path.parent), 120)}.", "Make it, or give another file.")
        if not os.access(path if path.exists() else path.parent, os.W_OK):
            raise EnvironmentFault(f"{option} {shown} may not be written.", f"Give another file to {option}.")
    except OSError as error:
        raise InputError(f"{option} {shown} is no file: {error.strerror}.", f"Give another file to {option}.") from error


def show(renderables: list[RenderableType], *, values: Mapping[str, Any] | list[Any], json_to: str | None) -> None:
    """Print a result.

    Args:
        renderables: What to print, unless JSON takes standard output; one with a true ``keeps_lines`` has its lines cut nowhere.
        values: The same as JSON-ready values.
        json_to: ``-``, a file, or None.
    """
    if json_to is not None:
        write_text(json.dumps(values, indent=2, ensure_ascii=True, allow_nan=False) + "\n", json_to, option="--json")
    if json_to != _STDOUT:
        console = table_console()
        with _standard_output():
            for renderable in renderables:
                console.print(renderable, crop=not getattr(renderable, "keeps_lines", False))


def write_text(text: str, destination: str, *, option: str) -> None:
    """Write a text to a file, whole or not at all, or to standard output for ``-``.

    Raises:
        EnvironmentFault: The file cannot be written.
    """
    if destination == _STDOUT:
        with _standard_output():
            sys.stdout.write(text)
        return
    try:
        write_whole(Path(destination), text)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise EnvironmentFault(
            f"{plain(destination, 120)} cannot be written: {error.strerror or error}.", f"Free some space, or give another file to {option}."
        ) from error


@contextlib.contextmanager
def _standard_output() -> Iterator[None]:
    """Write all of a result now, and say so if that is not possible."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        raise  # the reader has what it wants
    except OSError as error:
        discard(sys.stdout)
        raise EnvironmentFault(f"Standard output cannot be written: {error.strerror or error}.", "Free some space.") from error


def discard(stream: TextIO) -> None:
    """Send what a stream has not written yet to nowhere, so that the end of the process does not fail on it again."""
    with contextlib.suppress(OSError, ValueError):  # a stream that is no file has nothing to be written later
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def note(text: str, *, quiet: bool) -> None:
    """Say something on standard error, unless the user asked for quiet."""
    if not quiet:
        with contextlib.suppress(OSError):  # nobody listens
            print(plain(text, 400), file=sys.stderr)
