"""Owns opening a file where a stranger may have put a pipe or a device in its place: such a thing is neither waited for nor changed."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO

_NO_FILE = (errno.ENXIO, errno.ENODEV, errno.EISDIR)
"""What the system says of a pipe that nobody reads, of a socket, of a device without a driver, and of a folder that is to be written."""


class NotRegularError(OSError):
    """What stands in the place of a file is a folder, a pipe, a socket or a device."""


def open_regular(path: Path, flags: int = os.O_RDONLY, *, follow: bool = False) -> int:
    """A descriptor of a regular file; with ``os.O_CREAT`` it is made if it is missing.

    Args:
        path: The file.
        flags: How to open it.
        follow: True lets the path be a link to the file.

    Raises:
        NotRegularError: It is something else.
        OSError: It is missing, is a link that is not to be followed, or must not be opened.
    """
    try:
        descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC | (0 if follow else os.O_NOFOLLOW), 0o666)
    except OSError as error:
        if error.errno in _NO_FILE:
            raise _not_regular(path) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise _not_regular(path)
    return descriptor


def reader(path: Path) -> BinaryIO:
    """A regular file, or a link to one, opened for reading; see `open_regular`."""
    return os.fdopen(open_regular(path, follow=True), "rb")


def read_text(path: Path) -> str:
    """The text of a regular file in UTF-8, or of the one that a link leads to; see `open_regular`."""
    with os.fdopen(open_regular(path, follow=True), encoding="utf-8") as file:
        return file.read()


def _not_regular(path: Path) -> NotRegularError:
    return NotRegularError(errno.EINVAL, "it is not a regular file", str(path))
