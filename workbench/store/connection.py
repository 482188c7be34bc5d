"""Opens ``session.sqlite``, for writing where that is possible and for reading on any medium, and says what SQLite's errors mean."""

from __future__ import annotations

import contextlib
import os
import shutil
import sqlite3
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from workbench.errors import EnvironmentFault, SessionError, WorkbenchError
from workbench.escaping import plain
from workbench.store import schema
from workbench.store.transaction import transaction

_BUSY_TIMEOUT_S = 10.0
_RETRY_S = 0.02
_COMPANIONS = ("-wal", "-shm", "-journal")
_PROFILE_AGAIN = "Profile the model again into another directory: --session DIR."
_OTHER_PLACE = "Check its permissions and free space, or give another --session DIR."
_CANNOT_WRITE = (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL)


class Connection:
    """A connection to a session's database.

    Attributes:
        sql: SQLite's own object; every statement outside of a transaction is one of its own.
        version: Version of the format.
    """

    def __init__(self, path: Path, *, create: bool) -> None:
        self.path = path
        self._copy: Path | None = None
        self._writable = True
        if not create:
            _check_file(path)
        _check_companions(path)
        with self.errors():
            self.sql = self._open(create=create)
            try:
                if create:
                    schema.create(self.sql, _shown(path))
                self.version = schema.check(self.sql, _shown(path))
                if self.version < schema.FORMAT_VERSION and self._writable:
                    schema.migrate(self.sql)
                    self.version = schema.check(self.sql, _shown(path))
            except BaseException:
                self.close()
                raise

    def close(self) -> None:
        """Close it; the last one to close folds the write-ahead log into the file."""
        self.sql.close()
        if self._copy is not None:
            shutil.rmtree(self._copy, ignore_errors=True)

    @contextlib.contextmanager
    def errors(self) -> Iterator[None]:
        """Translate SQLite's errors into ones a user can act on."""
        try:
            yield
        except sqlite3.ProgrammingError:
            raise  # a fault of the workbench, not of the session
        except sqlite3.DatabaseError as error:
            raise _translated(error, self.path) from error

    @contextlib.contextmanager
    def transaction(self, *, write: bool = True) -> Iterator[sqlite3.Connection]:
        """All statements of the block together or none; without `write` they see one state of the database."""
        with self.errors(), transaction(self.sql, write=write):
            yield self.sql

    def _open(self, *, create: bool) -> sqlite3.Connection:
        if create:
            return _connect(self.path, "mode=rwc", lambda connection: _in_wal_mode(connection, _shown(self.path)))
        if os.access(self.path, os.W_OK) and os.access(self.path.parent, os.W_OK):
            try:
                return _connect(self.path, "mode=rw", _probe)
            except sqlite3.OperationalError as error:
                if _code(error) not in _CANNOT_WRITE:
                    raise  # a full disk has no room for the index of the log, but can be read; all else is no matter of the medium
        return self._open_for_reading()

    def _open_for_reading(self) -> sqlite3.Connection:
        """A medium that cannot be written has no room for the index of the write-ahead log, so that its content needs care."""
        self._writable = False
        log = self.path.with_name(f"{self.path.name}-wal")
        try:
            return _connect(self.path, "mode=ro", _probe)
        except sqlite3.OperationalError as error:
            if _code(error) not in _CANNOT_WRITE:
                raise
            if not log.exists() or log.stat().st_size == 0:
                return _connect(self.path, "mode=ro&immutable=1", _probe)
        self._copy = Path(tempfile.mkdtemp(prefix="workbench-session-"))
        try:
            for file in (self.path, log):
                shutil.copyfile(file, self._copy / file.name)
            return _connect(self._copy / self.path.name, "mode=rw", _for_reading_only)
        except BaseException:
            shutil.rmtree(self._copy, ignore_errors=True)
            raise


def _connect(path: Path, mode: str, prepare: Callable[[sqlite3.Connection], None]) -> sqlite3.Connection:
    connection = sqlite3.connect(f"{path.absolute().as_uri()}?{mode}", uri=True, isolation_level=None, timeout=_BUSY_TIMEOUT_S)
    try:
        prepare(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _probe(connection: sqlite3.Connection) -> None:
    """The first read, which finds out whether the medium allows it."""
    connection.execute("PRAGMA schema_version").fetchone()
    connection.execute("PRAGMA synchronous = NORMAL")


def _for_reading_only(connection: sqlite3.Connection) -> None:
    _probe(connection)
    connection.execute("PRAGMA query_only = 1")


def _in_wal_mode(connection: sqlite3.Connection, place: str) -> None:
    """Set the mode of a new database; SQLite does not wait by itself for another process that is just doing the same."""
    schema.refuse_foreign(connection, place)
    deadline = time.monotonic() + _BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            connection.execute("PRAGMA synchronous = NORMAL")
            return


def _check_file(path: Path) -> None:
    """Raise SessionError unless there is a file that may be a database; SQLite itself would make one of an empty file.

    The file is not opened: closing it would end the locks that SQLite holds on it for this process's other connections, whose log another
    process would then remove.
    """
    place = _shown(path)
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise SessionError(f"There is no session in {place}.", "Make one with: workbench profile MODEL.") from error
    if not stat.S_ISREG(status.st_mode):
        raise SessionError(f"{place} holds no workbench session: session.sqlite is not a regular file.", _PROFILE_AGAIN)
    if status.st_size == 0:
        raise SessionError(f"The session in {place} is empty: its making was cut short.", "Profile the model into it.")
    if not os.access(path, os.R_OK):
        raise EnvironmentFault(f"The session in {place} may not be read.", "Check its permissions.")


def _check_companions(path: Path) -> None:
    """Raise SessionError if something else stands in the place of a file that SQLite opens beside the database: it would wait for a pipe."""
    for companion in (path.with_name(f"{path.name}{ending}") for ending in _COMPANIONS):
        try:
            is_regular = stat.S_ISREG(companion.lstat().st_mode)
        except (OSError, ValueError):
            continue  # there is none
        if not is_regular:
            raise SessionError(
                f"The session in {_shown(path)} is damaged: {plain(companion.name)} is not a regular file.", f"Remove {plain(companion.name)}."
            )


def damaged(path: Path, reason: object) -> SessionError:
    """The error for a session whose content makes no sense."""
    return SessionError(f"The session in {_shown(path)} is damaged: {plain(str(reason), 200)}.", _PROFILE_AGAIN)


def _translated(error: sqlite3.DatabaseError, path: Path) -> WorkbenchError:
    code = _code(error)
    if code == sqlite3.SQLITE_FULL:
        return EnvironmentFault(f"The disk is full: {_shown(path)} could not be written.", "Free some space, or give another --session DIR.")
    if code in _CANNOT_WRITE:
        return EnvironmentFault(f"The session in {_shown(path)} cannot be written: {error}.", _OTHER_PLACE)
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return EnvironmentFault(f"The session in {_shown(path)} is locked by another process.", "Wait for it, or end it.")
    if code == sqlite3.SQLITE_NOTADB:
        return SessionError(f"{_shown(path)} holds no workbench session: session.sqlite is no database.", _PROFILE_AGAIN)
    return damaged(path, error)


def _code(error: sqlite3.DatabaseError) -> int:
    """SQLite's primary result code; 0 where Python raised the error itself."""
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _shown(path: Path) -> str:
    return plain(str(path.parent), 120)
