"""Receives a model file from a page in pieces, and keeps it beside the sessions; a file appears whole or not at all."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import BinaryIO

from workbench.errors import EnvironmentFault, InputError
from workbench.escaping import file_stem, plain
from workbench.session.places import SESSIONS

UPLOADS = SESSIONS / "uploads"
MOST_BYTES = 4 * 2**30
_ENDING_LIMIT = 12


class Upload:
    """One file on its way.

    Args:
        name: What it is called on the user's side; only what is harmless of it is used.
        size: Its bytes.
        folder: Where it goes.
    """

    def __init__(self, name: object, size: object, folder: Path = UPLOADS) -> None:
        if not isinstance(name, str) or not name or isinstance(size, bool) or not isinstance(size, int) or not 0 < size <= MOST_BYTES:
            raise InputError(
                "The file that was dropped is empty, too large, or has no name.", f"Files up to {MOST_BYTES // 2**30} GiB can be dropped."
            )
        self.path = folder / _safe_name(name)
        self.size = size
        self.received = 0
        self._partial = self.path.with_name(f".{self.path.name}.partial")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._file: BinaryIO | None = self._partial.open("wb")
        except OSError as error:
            raise EnvironmentFault(f"{plain(str(self._partial), 120)} cannot be written: {error.strerror}.", "Check the free space.") from error

    def take(self, piece: bytes | memoryview, *, offset: object) -> bool:
        """Take the next piece; True once the file is complete and in its place.

        Raises:
            InputError: It is not the piece that comes next.
            EnvironmentFault: It cannot be written.
        """
        if self._file is None or offset != self.received or self.received + len(piece) > self.size:
            self.drop()
            raise InputError("The file arrived in disorder.", "Drop it again.")
        try:
            self._file.write(piece)
            self.received += len(piece)
            if self.received < self.size:
                return False
            self._file.close()
            self._file = None
            self._partial.replace(self.path)
        except OSError as error:
            self.drop()
            raise EnvironmentFault(
                f"{plain(str(self.path), 120)} cannot be written: {error.strerror}.", "Free some space, then drop it again."
            ) from error
        return True

    def drop(self) -> None:
        """Forget it and what has arrived."""
        file, self._file = self._file, None
        if file is not None:
            with contextlib.suppress(OSError):  # a full disk, which is what is being reported
                file.close()
        with contextlib.suppress(OSError):
            self._partial.unlink(missing_ok=True)


def _safe_name(name: str) -> str:
    """A file's name with nothing of a path in it; the ending stays, since it tells the kind of the model."""
    last = name.replace("\\", "/").rpartition("/")[2]
    stem, dot, ending = last.rpartition(".")
    if not dot or not ending.isascii() or not ending.isalnum() or len(ending) > _ENDING_LIMIT:
        return file_stem(last)
    return f"{file_stem(stem or 'model')}.{ending.lower()}"
