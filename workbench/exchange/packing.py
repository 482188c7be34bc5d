"""Packs a session into one file."""

from __future__ import annotations

import hashlib
import json
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from workbench.errors import EnvironmentFault, InputError, SessionError
from workbench.escaping import plain
from workbench.exchange.contents import CONTENTS, FOLDERS, FORMAT, MOST_BYTES, MOST_FILE_BYTES, MOST_FILES, VERSION, Contents, PackedFile, is_allowed
from workbench.regular_files import reader
from workbench.session import DATABASE, SessionDirectory
from workbench.store.copying import copy_database
from workbench.whole_files import whole_file

_PIECE = 1 << 20
_STAMP = (1980, 1, 1, 0, 0, 0)  # equal sessions are equal archives


def pack_session(directory: SessionDirectory, path: Path, *, version: str) -> Contents:
    """Write a whole session into one archive, also while a search runs in it; whole or not at all.

    Args:
        directory: The session.
        path: The archive; one that is there is replaced.
        version: Version of the workbench.

    Raises:
        SessionError: The session holds no profile, or files that no session has.
        EnvironmentFault: The disk refuses.
    """
    with directory.store() as store:
        profile = store.profile()
    if profile is None:
        raise SessionError(f"The session in {plain(str(directory.path), 120)} has no profile yet.", "Profile the model first.")
    path = path.absolute()
    if path.exists() and not path.is_file():
        raise InputError(f"{plain(str(path), 120)} is a {'directory' if path.is_dir() else 'device or pipe'}.", "Give a file for the archive.")
    try:
        with whole_file(path) as packed, tempfile.TemporaryDirectory(dir=path.parent, prefix=".workbench-") as scratch:
            database = Path(scratch) / DATABASE
            copy_database(directory.database, database)
            sources = {DATABASE: database, **dict(_files(directory.path))}
            if len(sources) > MOST_FILES:
                raise SessionError(f"The session has {len(sources):,} files.", f"An archive holds {MOST_FILES:,} at most.")
            contents = Contents(FORMAT, VERSION, version, profile.model, profile.target, {name: _described(file) for name, file in sources.items()})
            _write(packed, contents, sources)
    except OSError as error:
        raise EnvironmentFault(
            f"{plain(str(path), 120)} cannot be written: {error.strerror or error}.", "Check the place and its free space."
        ) from error
    return contents


def _files(root: Path) -> Iterator[tuple[str, Path]]:
    """The files of a session beside its database; links and what else is no regular file stay behind."""
    places = [*root.glob("module-*.json"), *(path for folder in FOLDERS for path in sorted((root / folder).rglob("*")))]
    for path in places:
        name = path.relative_to(root).as_posix()
        inside = not any(parent.is_symlink() for parent in [path, *path.parents][: len(Path(name).parts)])
        if inside and stat.S_ISREG(path.lstat().st_mode) and is_allowed(name):
            yield name, path


def _described(path: Path) -> PackedFile:
    digest, size = hashlib.sha256(), 0
    with reader(path) as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
            size += len(piece)
    return PackedFile(size, digest.hexdigest())


def _write(path: Path, contents: Contents, sources: dict[str, Path]) -> None:
    if sum(file.bytes for file in contents.files.values()) > MOST_BYTES or any(file.bytes > MOST_FILE_BYTES for file in contents.files.values()):
        raise SessionError(f"The session is larger than the {MOST_BYTES / 1e9:.0f} GB that an archive holds.", "Copy its directory instead.")
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_entry(CONTENTS), json.dumps(contents.to_dict(), indent=1))
        for name, source in sources.items():
            with reader(source) as file, archive.open(_entry(name), "w", force_zip64=True) as packed:
                left = contents.files[name].bytes  # a file that grows meanwhile keeps to what was described
                while left and (piece := file.read(min(_PIECE, left))):
                    packed.write(piece)
                    left -= len(piece)


def _entry(name: str) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, _STAMP)
    entry.compress_type = zipfile.ZIP_DEFLATED
    entry.external_attr = (stat.S_IFREG | 0o644) << 16
    return entry
