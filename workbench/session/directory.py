"""The session directory: what is in it, and how it comes into being or goes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from workbench.errors import EnvironmentFault, SessionError, WorkbenchError
from workbench.escaping import plain
from workbench.regular_files import NotRegularError, open_regular
from workbench.session.places import DATABASE, is_session
from workbench.store import Store

_LARGEST_LOG_BYTES = 10**6
SESSION_FILES = (DATABASE, f"{DATABASE}-wal", f"{DATABASE}-shm", f"{DATABASE}-journal", "worker.log", "worker.lock", "fronts.lock")
RECORDS = "records"
TUNED = "tuned"
_OLD_TUNED = "tuned.old"
_FOLDERS = ("program", RECORDS, "artifacts", TUNED)
_MODULES = "module-*.json"
_LEFTOVERS = (".module-*", "program-*", "program.partial-*", "artifacts/outputs-*", "artifacts/build-*", _OLD_TUNED)
_IDENTIFIER = re.compile(r"[0-9a-f]{1,64}")  # of profiles, modules and folders of outputs: it becomes part of a path
_ELSEWHERE = "Give another place: --session DIR."


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
        return self.path / DATABASE

    @property
    def program(self) -> Path:
        """The lowered module and its parameters, which belong to the profile."""
        return self.path / "program"

    @property
    def artifacts(self) -> Path:
        """What is written on demand."""
        return self.path / "artifacts"

    @property
    def records(self) -> Path:
        """The records for stock TVM; surely inside the session.

        Raises:
            SessionError: The folder is a link to another place.
        """
        return _no_link(self.path / RECORDS)

    @property
    def tuned(self) -> Path:
        """The applied model; surely inside the session.

        Raises:
            SessionError: The folder is a link to another place.
        """
        return _no_link(self.path / TUNED)

    @contextlib.contextmanager
    def replacing_tuned(self, new: Path) -> Iterator[None]:
        """Make a folder of this session the applied model, at the end for good: what was there comes back if the context ends with an error.

        After a crash in between, `sweep` puts back what was there.
        """
        tuned, old = self.tuned, _no_link(self.path / _OLD_TUNED)
        _remove(old)
        if tuned.exists():
            tuned.rename(old)
        try:
            new.rename(tuned)
            yield
        except BaseException:
            _remove(tuned)
            if old.exists():
                old.rename(tuned)
            raise
        _remove(old)

    @contextlib.contextmanager
    def scratch(self, command: int) -> Iterator[Path]:
        """A new folder for what a command builds, which goes with the end of the context; surely inside the session.

        What a killed worker leaves of it is swept by the next one.

        Raises:
            SessionError: The folder is there already, or would be behind a link to another place.
        """
        folder = _no_link(self.artifacts) / f"build-{command}"
        try:
            folder.mkdir(parents=True)
        except FileExistsError as error:
            raise SessionError(f"{plain(str(folder), 120)} is there already.", "Remove it.") from error
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def module(self, stamp: str) -> Path:
        """An IRModule that the user's own process brought.

        Raises:
            SessionError: The stamp is none.
        """
        return self.path / f"module-{self._identifier(stamp)}.json"

    def write_module(self, stamp: str, content: bytes) -> None:
        """Keep an IRModule where the worker can read it, whole or not at all.

        Raises:
            EnvironmentFault: It cannot be written.
        """
        path = self.module(stamp)
        try:
            with tempfile.NamedTemporaryFile(dir=self.path, prefix=".module-", suffix=".json", delete=False) as file:
                try:
                    file.write(content)
                    file.close()
                    Path(file.name).replace(path)
                except BaseException:
                    Path(file.name).unlink(missing_ok=True)
                    raise
        except OSError as error:
            raise EnvironmentFault(
                f"{plain(str(path), 120)} cannot be written: {error.strerror}.", "Check the space, or give another session."
            ) from error

    def forget_modules(self, *, but: str) -> None:
        """Remove the IRModules of profiles that were replaced."""
        for path in self.path.glob(_MODULES):
            if path != self.module(but):
                _remove(path)

    def outputs(self, identifier: str) -> Path:
        """A folder of output tensors, which the worker writes and a front removes; surely inside the session.

        Raises:
            SessionError: The identifier is none, or the folder is a link to another place.
        """
        return _no_link(_no_link(self.artifacts) / f"outputs-{self._identifier(identifier)}")

    def _identifier(self, text: object) -> str:
        if not isinstance(text, str) or not _IDENTIFIER.fullmatch(text):
            raise SessionError(
                f"The session in {plain(str(self.path), 120)} is damaged: {plain(repr(text), 80)} is no identifier.", "Profile the model again."
            )
        return text

    def open_log(self) -> BinaryIO:
        """The log, opened to append; one that has grown large begins anew.

        Raises:
            OSError: It cannot be written, is not a regular file, or is a link, which might lead to anybody's file.
        """
        file = os.fdopen(open_regular(self.log, os.O_WRONLY | os.O_APPEND | os.O_CREAT), "ab")
        if os.fstat(file.fileno()).st_size > _LARGEST_LOG_BYTES:
            file.truncate(0)
        return file

    @property
    def log(self) -> Path:
        """What the worker and TVM printed."""
        return self.path / "worker.log"

    @property
    def _lock(self) -> Path:
        return self.path / "worker.lock"

    def store(self) -> Store:
        """A new connection to the store, for the calling thread."""
        return Store(self.database)

    def new_program(self, profile_id: str) -> Path:
        """Where the program of a profile waits until the profile is stored; see `settle_program`."""
        return self.path / f"program-{self._identifier(profile_id)}"

    def settle_program(self, profile_id: str | None) -> None:
        """Make the program of the stored profile the session's program: the second half of storing a profile, repeated after a crash.

        Args:
            profile_id: Identifier of the stored profile; None if there is none.
        """
        new = None if profile_id is None else self.new_program(profile_id)
        if new is not None and new.is_dir() and not new.is_symlink():
            _remove(self.program)
            new.rename(self.program)

    def sweep(self) -> None:
        """Remove what a worker or front left half-done when it was killed; only for the worker that holds the lock."""
        if (self.path / _OLD_TUNED).is_dir() and not (self.path / TUNED).exists():
            (self.path / _OLD_TUNED).rename(self.path / TUNED)
        for pattern in _LEFTOVERS:
            for path in self.path.glob(pattern):
                if path.parent == self.path or not path.parent.is_symlink():
                    _remove(path)

    @contextlib.contextmanager
    def lock(self) -> Iterator[bool]:
        """Hold the worker's lock, which ends with the process that holds it however it ends; yields False if another holds it.

        Raises:
            OSError: It cannot be made, is not a regular file, or is a link.
        """
        with os.fdopen(open_regular(self._lock, os.O_RDWR | os.O_CREAT)) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                yield False
                return
            yield True

    def is_served(self) -> bool:
        """True while a worker of any front holds the lock.

        Raises:
            SessionError: Something else stands in the place of the lock, so that no worker can ever hold it.
        """
        try:
            with os.fdopen(open_regular(self._lock)) as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except NotRegularError as error:
            raise SessionError(f"{plain(str(self._lock), 120)} is not a regular file.", "Remove it.") from error
        except OSError:
            return False  # no worker has ever made it
        return False

    def attend(self) -> BinaryIO:
        """Show that a front is here until the file that is returned is closed, or this process ends however it ends: no clock runs out on it.

        Raises:
            EnvironmentFault: The session cannot be written.
        """
        try:
            file = os.fdopen(os.open(self._fronts, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666), "r+b")
            fcntl.flock(file, fcntl.LOCK_SH)
        except OSError as error:
            raise EnvironmentFault(f"{plain(str(self._fronts), 120)} cannot be written: {error.strerror}.", _ELSEWHERE) from error
        return file

    def is_attended(self) -> bool:
        """True while any front attends the session."""
        try:
            with self._fronts.open("r") as file:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False  # no front has ever made it
        return False

    @property
    def _fronts(self) -> Path:
        return self.path / "fronts.lock"

    def discard(self, *, own_commands: Collection[int] = ()) -> None:
        """Remove the session if this object made it and nobody else has begun to use it, so that a failed start leaves nothing behind.

        Files of other origin are kept, and so is a directory that was there before.

        Args:
            own_commands: Commands of this front, which nobody waits for any more; on a full disk their end could not be noted.
        """
        if not self._created or self._is_in_use(own_commands):
            return
        for path in (*(self.path / name for name in (*SESSION_FILES, *_FOLDERS)), *self.path.glob(_MODULES)):
            _remove(path)
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


def _no_link(path: Path) -> Path:
    if path.is_symlink():
        raise SessionError(f"{plain(str(path), 120)} leads out of the session.", "Remove the link.")
    return path


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
