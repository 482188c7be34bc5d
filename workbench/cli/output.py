"""Where a command's result goes: a table on standard output, JSON in a file or alone on standard output; all else to standard error."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import RenderableType

from workbench.cli.formats import table_console
from workbench.errors import EnvironmentFault
from workbench.escaping import plain

_STDOUT = "-"


def show(renderables: list[RenderableType], *, values: Mapping[str, Any] | list[Any], json_to: str | None) -> None:
    """Print a result.

    Args:
        renderables: What to print, unless JSON takes standard output.
        values: The same as JSON-ready values.
        json_to: ``-``, a file, or None.
    """
    if json_to is not None:
        write_text(json.dumps(values, indent=2, ensure_ascii=True, allow_nan=False) + "\n", json_to, option="--json")
    if json_to != _STDOUT:
        console = table_console()
        for renderable in renderables:
            console.print(renderable)
        sys.stdout.flush()


def write_text(text: str, destination: str, *, option: str) -> None:
    """Write a text to a file, whole or not at all, or to standard output for ``-``.

    Raises:
        EnvironmentFault: The file cannot be written.
    """
    if destination == _STDOUT:
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    path = Path(destination)
    try:
        if path.exists() and not path.is_file():  # a device or pipe such as /dev/stderr
            path.write_text(text, encoding="utf-8")
            return
        with tempfile.NamedTemporaryFile("w", dir=path.parent, prefix=f".{path.name[:40]}-", delete=False, encoding="utf-8") as file:
            try:
                file.write(text)
                file.close()
                os.chmod(file.name, 0o666 & ~_umask())  # a temporary file is private; a result is as any other file
                Path(file.name).replace(path)
            except BaseException:
                Path(file.name).unlink(missing_ok=True)
                raise
    except OSError as error:
        raise EnvironmentFault(f"{plain(destination, 120)} cannot be written: {error.strerror}.", f"Give another file to {option}.") from error


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def note(text: str, *, quiet: bool) -> None:
    """Say something on standard error, unless the user asked for quiet."""
    if not quiet:
        print(plain(text, 400), file=sys.stderr)
