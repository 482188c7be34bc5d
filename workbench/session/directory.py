"""The session directory: where it lies, what is in it, and how it comes into being or goes."""

from __future__ import annotations

import shutil
from pathlib import Path

from workbench.errors import EnvironmentFault, SessionError
from workbench.escaping import file_stem, plain
from workbench.store import Store

SESSIONS = Path("workbench-sessions")
_FILES = {"session.sqlite", "session.sqlite-wal", "session.sqlite-shm", "worker.log"}
_FOLDERS = {"program", "records", "artifacts", "tuned"}


def default_path(model: str, target_label: str) -> Path:
    """Where a session goes that the user gave no place: ``workbench-sessions/<model>-<target>``."""
    return SESSIONS / f"{file_stem(model)}-{file_stem(target_label)}"


def latest_session(sessions: Path = SESSIONS) -> Path | None:
    """The session under `sessions` that was written last; None if there is none."""
    found = [path for path in sessions.glob("*/session.sqlite") if path.is_file()]
    return max(found, key=lambda path: path.stat().st_mtime).parent if found else None


class SessionDirectory:
    """One session on disk.

    Attributes:
        path: The directory.
        created: True if this object made it.
    """

    def __init__(self, path: Path, *, created: bool = False) -> None:
        self.path = path
        self.created = created

    @classmethod
    def create(cls, path: Path) -> SessionDirectory:
        """Make the directory and an empty store in it, or take the session that is there.

        Raises:
            SessionError: The place holds something else, or a session of a newer format.
            EnvironmentFault: The place cannot be written.
        """
        fresh = not path.exists()
        try:
            if not fresh and not path.is_dir():
                raise SessionError(f"{plain(str(path), 120)} is a file.", "Give a directory: --session DIR.")
            if not fresh and any(path.iterdir()) and not (path / "session.sqlite").exists():
                raise SessionError(f"{plain(str(path), 120)} is not empty and holds no session.", "Give another directory: --session DIR.")
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise EnvironmentFault(
                f"The session directory {plain(str(path), 120)} cannot be made: {error.strerror}.", "Give another place: --session DIR."
            ) from error
        directory = cls(path, created=fresh)
        try:
            Store(directory.database, create=True).close()
        except BaseException:
            directory.discard()
            raise
        return directory

    @classmethod
    def open(cls, path: Path) -> SessionDirectory:
        """An existing session.

        Raises:
            SessionError: There is none, it is damaged, or it is of a newer format.
        """
        Store(path / "session.sqlite").close()
        return cls(path)

    @property
    def database(self) -> Path:
        """The store."""
        return self.path / "session.sqlite"

    @property
    def program(self) -> Path:
        """The lowered module and its parameters."""
        return self.path / "program"

    @property
    def artifacts(self) -> Path:
        """What is written on demand."""
        return self.path / "artifacts"

    @property
    def log(self) -> Path:
        """What the worker and TVM printed."""
        return self.path / "worker.log"

    def store(self) -> Store:
        """A new connection to the store, for the calling thread."""
        return Store(self.database)

    def discard(self) -> None:
        """Remove the directory if this object made it, so that a failed start leaves nothing behind; other files in it are kept."""
        if not self.created:
            return
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        for name in _FOLDERS:
            shutil.rmtree(self.path / name, ignore_errors=True)
        for folder in (self.path, *([self.path.parent] if self.path.parent.name == SESSIONS.name else [])):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
