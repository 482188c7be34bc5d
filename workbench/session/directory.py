"""The session directory: where it lies, what is in it, and how it comes into being or goes."""

from __future__ import annotations

import contextlib
import fcntl
import shutil
from collections.abc import Collection, Iterator
from pathlib import Path

from workbench.errors import EnvironmentFault, SessionError, WorkbenchError
from workbench.escaping import file_stem, plain
from workbench.store import Store

SESSIONS = Path("workbench-sessions")
_DATABASE = "session.sqlite"
_FILES = (_DATABASE, f"{_DATABASE}-wal", f"{_DATABASE}-shm", f"{_DATABASE}-journal", "worker.log", "worker.lock", "module.json")
_FOLDERS = ("program", "records", "artifacts", "tuned")
_LEFTOVERS = (".module-*", "program-*", "program.partial-*", "artifacts/outputs-*")
_ELSEWHERE = "Give another place: --session DIR."


def default_path(model: str, target_label: str) -> Path:
    """Where a session goes that the user gave no place: ``workbench-sessions/<model>-<target>``."""
    return SESSIONS / f"{file_stem(model)}-{file_stem(target_label)}"


def latest_session(sessions: Path = SESSIONS) -> Path | None:
    """The session under `sessions` that was written last; None if there is none."""
    found = []
    for path in sessions.glob(f"*/{_DATABASE}"):
        with contextlib.suppress(OSError):  # one that may not be looked at, or has just gone
            found.append((max(_changed(path), _changed(path.with_name(f"{_DATABASE}-wal"))), path.parent))
    return max(found)[1] if found else None


def is_session(path: Path) -> bool:
    """True if a path leads to a session directory."""
    try:
        return (path / _DATABASE).is_file()
    except (OSError, ValueError):
        return False  # no name that this file system can have


class SessionDirectory:
    """One session on disk.

    Attributes:
        path: The directory, absolute, so that it stays the same when the process goes to another folder.
    """

    def __init__(self, path: Path, *, made: tuple[Path, ...] = (), created: bool = False) -> None:
        self.path = path.absolute()
        self._made = made
        self._created = created

    @classmethod
    def create(cls, path: Path) -> SessionDirectory:
        """Make the directory and an empty store in it, or take the session that is there.

        Raises:
            SessionError: The place holds something else, or a session of a newer format.
            EnvironmentFault: The place cannot be written.
        """
        path = path.absolute()
        shown = plain(str(path), 120)
        created = not is_session(path)
        made: tuple[Path, ...] = ()
        try:
            if path.exists() and not path.is_dir():
                raise SessionError(f"{shown} is a file.", "Give a directory: --session DIR.")
            if created and path.exists() and any(path.iterdir()):
                raise SessionError(f"{shown} is not empty and holds no session.", "Give another directory: --session DIR.")
            made = tuple(folder for folder in (path, *path.parents) if not folder.exists())
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            _remove_empty(made)
            raise EnvironmentFault(f"The session directory {shown} cannot be made: {error.strerror}.", _ELSEWHERE) from error
        directory = cls(path, made=made, created=created)
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
        directory = cls(path)
        directory.store().close()
        return directory

    @property
    def database(self) -> Path:
        """The store."""
        return self.path / _DATABASE

    @property
    def program(self) -> Path:
        """The lowered module and its parameters, which belong to the profile."""
        return self.path / "program"

    @property
    def artifacts(self) -> Path:
        """What is written on demand."""
        return self.path / "artifacts"

    @property
    def module(self) -> Path:
        """An IRModule that the user's own process brought."""
        return self.path / "module.json"

    @property
    def log(self) -> Path:
        """What the worker and TVM printed."""
        return self.path / "worker.log"

    def store(self) -> Store:
        """A new connection to the store, for the calling thread."""
        return Store(self.database)

    def new_program(self, profile_id: str) -> Path:
        """Where the program of a profile waits until the profile is stored; see `settle_program`."""
        return self.path / f"program-{profile_id}"

    def settle_program(self, profile_id: str | None) -> None:
        """Make the program of the stored profile the session's program: the second half of storing a profile, repeated after a crash.

        Args:
            profile_id: Identifier of the stored profile; None if there is none.
        """
        new = None if profile_id is None else self.new_program(profile_id)
        if new is not None and new.is_dir():
            shutil.rmtree(self.program, ignore_errors=True)
            new.rename(self.program)

    def sweep(self) -> None:
        """Remove what a worker or front left half-done when it was killed; only for the worker that holds the lock."""
        for pattern in _LEFTOVERS:
            for path in self.path.glob(pattern):
                _remove(path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the worker's lock, which ends with the process that holds it however it ends; yields False if another holds it."""
        with (self.path / "worker.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def is_served(self) -> bool:
        """True while a worker of any front holds the lock."""
        try:
            with (self.path / "worker.lock").open("r") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False  # no worker has ever made it
        return False

    def discard(self, *, own_commands: Collection[int] = ()) -> None:
        """Remove the session if this object made it and nobody else has begun to use it, so that a failed start leaves nothing behind.

        Files of other origin are kept, and so is a directory that was there before.

        Args:
            own_commands: Commands of this front, which nobody waits for any more; on a full disk their end could not be noted.
        """
        if not self._created or self._is_in_use(own_commands):
            return
        for name in (*_FILES, *_FOLDERS):
            _remove(self.path / name)
        self.sweep()
        _remove_empty(self._made)
        self._created = False

    def _is_in_use(self, own_commands: Collection[int]) -> bool:
        """True if the session holds a profile, or another front works on it."""
        if self.is_served():
            return True
        try:
            with self.store() as store:
                return "profile_id" in store.manifest() or not set(store.open_commands()) <= set(own_commands)
        except WorkbenchError:
            return False  # its making failed


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):  # what cannot be removed stays
            path.unlink(missing_ok=True)


def _remove_empty(folders: tuple[Path, ...]) -> None:
    """Remove folders, innermost first, as far as they are empty."""
    for folder in folders:
        try:
            folder.rmdir()
        except FileNotFoundError:
            continue
        except OSError:
            return  # somebody uses it


def _changed(path: Path) -> float:
    """When a file was written last; 0 if there is none."""
    try:
        return path.stat().st_mtime
    except FileNotFoundError:
        return 0.0
