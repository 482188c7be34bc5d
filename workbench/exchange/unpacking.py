"""Unpacks a session that a stranger may have packed: nothing leaves its directory, nothing is larger than it says, nothing but files comes out."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import stat
import tempfile
import zipfile
import zlib
from pathlib import Path

from workbench.errors import EnvironmentFault, InputError, SessionError
from workbench.escaping import plain
from workbench.exchange.contents import (
    CONTENTS,
    FORMAT,
    FREE_RATIO_BYTES,
    MOST_BYTES,
    MOST_CONTENTS_BYTES,
    MOST_FILE_BYTES,
    MOST_FILES,
    MOST_RATIO,
    VERSION,
    Contents,
    is_allowed,
)
from workbench.records.decode import DecodeError
from workbench.regular_files import NotRegularError, reader
from workbench.session import DATABASE, SessionDirectory, default_path

_PIECE = 1 << 20
_ENCRYPTED = 0x1
_REMEDY = "Give an archive that `workbench export --archive FILE` wrote."
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError, UnicodeDecodeError)


def is_archive(path: Path) -> bool:
    """True for a file that says it is an archive of a session."""
    try:
        with reader(path) as file, zipfile.ZipFile(file) as archive:
            return CONTENTS in archive.namelist()
    except (OSError, *_BROKEN):
        return False


def unpack_session(path: Path, target: Path | None = None) -> SessionDirectory:
    """Make a session of an archive.

    Args:
        path: The archive.
        target: The new session directory, which must not be there or be empty; None takes ``workbench-sessions/<model>-<target>``.

    Raises:
        InputError: It is no archive of a session, is damaged, or wants more than a session may; nothing is left of it.
        SessionError: The directory is in use, or what the archive holds is no session.
        EnvironmentFault: The disk refuses.
    """
    try:
        with reader(path) as file, zipfile.ZipFile(file) as archive:
            members = _checked(archive, path)
            contents = _contents(archive, path)
            _compare(contents, members, path)
            target = (default_path(contents.model, contents.target) if target is None else target).absolute()
            _check_target(target)
            return _unpacked(archive, contents, path, target)
    except _BROKEN as error:
        raise _refused(path, f"it is damaged: {plain(str(error), 120)}") from error
    except NotRegularError as error:
        raise _refused(path, "it is no file") from error
    except OSError as error:
        shown = plain(str(error.filename or path), 120)
        raise EnvironmentFault(f"{shown}: {error.strerror or error}.", "Check the place and its free space.") from error


def _checked(archive: zipfile.ZipFile, path: Path) -> dict[str, zipfile.ZipInfo]:
    """The files of an archive by name; every reason to refuse it that its directory shows."""
    entries = archive.infolist()
    if len(entries) > MOST_FILES + 1:
        raise _refused(path, f"it holds {len(entries):,} files")
    names: set[str] = set()
    for entry in entries:
        shown = plain(entry.filename, 80)
        kind = stat.S_IFMT(entry.external_attr >> 16)
        if kind not in (0, stat.S_IFREG):
            raise _refused(path, f"{shown} is no file but a link, a folder or a device")
        if entry.orig_filename != entry.filename or not (entry.filename == CONTENTS or is_allowed(entry.filename)):
            raise _refused(path, f"{shown} is no file that a session has")
        if entry.filename.casefold() in names:
            raise _refused(path, f"it holds {shown} twice")
        names.add(entry.filename.casefold())
        if entry.flag_bits & _ENCRYPTED or entry.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise _refused(path, f"{shown} is encrypted, or packed in a way that no workbench uses")
        if entry.file_size > MOST_FILE_BYTES:
            raise _refused(path, f"{shown} would be {entry.file_size:,} bytes")
    total = sum(entry.file_size for entry in entries)
    if total > MOST_BYTES or (total > FREE_RATIO_BYTES and total > MOST_RATIO * path.stat().st_size):
        raise _refused(path, f"it would unpack to {total:,} bytes")
    return {entry.filename: entry for entry in entries}


def _contents(archive: zipfile.ZipFile, path: Path) -> Contents:
    """What the archive says of itself."""
    try:
        with archive.open(CONTENTS) as file:
            text = file.read(MOST_CONTENTS_BYTES + 1)
        if len(text) > MOST_CONTENTS_BYTES:
            raise _refused(path, f"{CONTENTS} is too long")
        contents = Contents.from_dict(json.loads(text))
    except KeyError as error:
        raise _refused(path, f"it holds no {CONTENTS}") from error
    except (DecodeError, json.JSONDecodeError, RecursionError) as error:
        raise _refused(path, f"{CONTENTS} is damaged: {plain(str(error), 120)}") from error
    if contents.format != FORMAT:
        raise _refused(path, "it is of another kind")
    if contents.version > VERSION:
        raise SessionError(f"{plain(str(path), 120)} was written by a newer workbench.", "Upgrade tvm-workbench to import it.")
    return contents


def _compare(contents: Contents, members: dict[str, zipfile.ZipInfo], path: Path) -> None:
    """The files that are there are those that it says are there, as large as it says."""
    found = {name: member.file_size for name, member in members.items() if name != CONTENTS}
    told = {name: file.bytes for name, file in contents.files.items()}
    if found != told:
        strange = next(iter(sorted({*found.items()} ^ {*told.items()})))[0]
        raise _refused(path, f"{plain(strange, 80)} is not as {CONTENTS} says")
    if DATABASE not in found:
        raise _refused(path, f"it holds no {DATABASE}")


def _check_target(target: Path) -> None:
    if target.is_symlink() or (target.exists() and not (target.is_dir() and not any(target.iterdir()))):
        raise SessionError(f"{plain(str(target), 120)} is there already.", "Give another directory: --session DIR.")


def _unpacked(archive: zipfile.ZipFile, contents: Contents, path: Path, target: Path) -> SessionDirectory:
    """Unpack beside the target, look whether it is a session, then put it there."""
    target.parent.mkdir(parents=True, exist_ok=True)
    need = sum(file.bytes for file in contents.files.values())
    if shutil.disk_usage(target.parent).free < need:
        raise EnvironmentFault(
            f"There is no room for {need:,} bytes in {plain(str(target.parent), 120)}.", "Free some space, or give another --session DIR."
        )
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=".workbench-import-") as scratch:
        folder = Path(scratch) / "session"
        folder.mkdir(mode=0o755)
        for name, file in contents.files.items():
            place = folder / name
            place.parent.mkdir(parents=True, exist_ok=True)
            if _unpack(archive, name, place, most=file.bytes) != file.sha256:
                raise _refused(path, f"{plain(name, 80)} is not what was packed")
        with SessionDirectory.open(folder).store() as store:
            if store.profile() is None:
                raise _refused(path, "its session has no profile")
        if target.exists():
            target.rmdir()  # empty, as was checked; if it is not any more, this says so
        folder.rename(target)
    return SessionDirectory.open(target)


def _unpack(archive: zipfile.ZipFile, name: str, place: Path, *, most: int) -> str:
    """Write one file; returns its digest. It gets no larger than was said, whatever the archive's own figures are."""
    digest, left = hashlib.sha256(), most
    descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644)
    with os.fdopen(descriptor, "wb") as file, archive.open(name) as packed:
        while piece := packed.read(min(_PIECE, left + 1)):
            left -= len(piece)
            if left < 0:
                return ""
            digest.update(piece)
            file.write(piece)
    return digest.hexdigest()


def _refused(path: Path, reason: str) -> InputError:
    return InputError(f"{plain(str(path), 120)} cannot be imported: {reason}.", _REMEDY)
