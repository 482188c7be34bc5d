"""Which files an archive of a session may hold, and how large it may be: the same rules for those who write one and those who read it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from workbench.records.decode import decode
from workbench.session import DATABASE

CONTENTS = "workbench-session.json"
"""The first file of an archive: what it is, and the size and digest of every other one."""

FORMAT = "workbench-session"
VERSION = 1

FOLDERS = ("program", "records", "tuned")
"""Folders of a session that travel; ``artifacts`` is made again on demand."""

MOST_FILES = 10_000
MOST_FILE_BYTES = 4 << 30
MOST_BYTES = 8 << 30
MOST_RATIO = 200
"""An archive that unpacks to more than so many times its own size is refused."""

FREE_RATIO_BYTES = 64 << 20
"""Up to this size the ratio does not matter: a database of few rows packs well."""

MOST_CONTENTS_BYTES = 4 << 20

_PART = r"[A-Za-z0-9_][A-Za-z0-9._+-]{0,120}"
_NAME = re.compile(rf"(?:{DATABASE}|module-[0-9a-f]{{1,64}}\.json|(?:{'|'.join(FOLDERS)})(?:/{_PART}){{1,6}})")


@dataclass(frozen=True)
class PackedFile:
    """One file of an archive."""

    bytes: int
    sha256: str


@dataclass(frozen=True)
class Contents:
    """What an archive says of itself.

    Attributes:
        format: `FORMAT`.
        version: `VERSION` of whoever wrote it.
        workbench: Version of the workbench that wrote it.
        model: What the model is called.
        target: Label of the target.
        files: Every other file, by its name.
    """

    format: str
    version: int
    workbench: str
    model: str
    target: str
    files: dict[str, PackedFile]

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {**vars(self), "files": {name: vars(file).copy() for name, file in self.files.items()}}

    @classmethod
    def from_dict(cls, values: Any) -> Contents:
        """The inverse of `to_dict`; raises DecodeError."""
        return decode(cls, values)


def is_allowed(name: str) -> bool:
    """True for the name of a file that a session has: a relative path of plain letters that stays inside."""
    return bool(_NAME.fullmatch(name)) and not any(part in (".", "..") for part in name.split("/"))
