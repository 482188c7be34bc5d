"""Owns writing whole or not at all: files that the user named, never in the place of a link or device, and folders."""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def whole_file(destination: Path) -> Iterator[Path]:
    """A file to write to, which takes its place at the end of the context; if that ends with an error, what was there before stays.

    A device or pipe such as ``/dev/stderr`` is no file that could be replaced: it is written to itself.

    Raises:
        OSError: It cannot be written.
    """
    if destination.exists() and not destination.is_file():
        yield destination
        return
    path = Path(os.path.realpath(destination))
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name[:40]}-")
    os.close(descriptor)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_umask())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_whole(destination: Path, text: str) -> None:
    """Write a text in UTF-8; see `whole_file`."""
    with whole_file(destination) as file:
        file.write_text(text, encoding="utf-8")


@contextlib.contextmanager
def whole_folder(destination: Path) -> Iterator[Path]:
    """A new folder to write to, which takes its place at the end of the context; what was there before stays until then, and if anything fails.

    Raises:
        OSError: The disk is full, or refuses to be written.
    """
    partial = destination.with_name(f"{destination.name}.partial-{os.getpid()}")
    replaced = destination.with_name(f"{destination.name}.replaced-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        yield partial
        if destination.exists():
            destination.rename(replaced)
        try:
            partial.rename(destination)
        except OSError:
            if replaced.exists():
                replaced.rename(destination)
            raise
    finally:
        shutil.rmtree(partial, ignore_errors=True)
        shutil.rmtree(replaced, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
