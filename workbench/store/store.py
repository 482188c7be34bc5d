"""The store: one SQLite file, the only channel between fronts and a worker.

Every method is one transaction. A connection belongs to the thread that opened it; another thread or process opens its own. The database is
in WAL mode: readers never wait for the writer, and what was committed survives the death of any process.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from workbench.errors import EnvironmentFault, SessionError
from workbench.records.command import CANCELLED, DONE, FAILED, PENDING, RUNNING, Command, Event, Failure, Heartbeat
from workbench.records.profile import Profile, Row, Task
from workbench.records.selection import Selection
from workbench.store import schema

_BUSY_TIMEOUT_S = 10.0


class Store:
    """An open ``session.sqlite``.

    Raises:
        SessionError: The file is missing, damaged, no session, or of a newer format.
        EnvironmentFault: The disk is full or the file cannot be written.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self._path = path
        if not create and not path.is_file():
            raise SessionError(f"There is no session in {path.parent}.", "Make one with: workbench profile MODEL.")
        with self._errors():
            self._connection = self._connect(create=create)
            try:
                if create:
                    schema.create(self._connection)
                schema.check(self._connection, str(path.parent))
            except BaseException:
                self._connection.close()
                raise

    def _connect(self, *, create: bool) -> sqlite3.Connection:
        if not create and not _writable(self._path):
            connection = sqlite3.connect(f"{self._path.resolve().as_uri()}?mode=ro&immutable=1", uri=True, isolation_level=None)
        else:
            connection = sqlite3.connect(self._path, isolation_level=None, timeout=_BUSY_TIMEOUT_S)
            connection.execute("PRAGMA journal_mode = WAL")
            connection.execute("PRAGMA synchronous = NORMAL")
        return connection

    def close(self) -> None:
        """Close the connection; the last one to close folds the write-ahead log into the file."""
        self._connection.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # manifest

    def manifest(self) -> dict[str, Any]:
        """All entries of the manifest."""
        with self._errors():
            return {key: json.loads(value) for key, value in self._connection.execute("SELECT key, value FROM manifest")}

    def update_manifest(self, entries: Mapping[str, Any]) -> None:
        """Set entries of the manifest."""
        with self._transaction():
            self._set_manifest(entries)

    def _set_manifest(self, entries: Mapping[str, Any]) -> None:
        self._connection.executemany(
            "INSERT OR REPLACE INTO manifest (key, value) VALUES (?, ?)", [(key, json.dumps(value)) for key, value in entries.items()]
        )

    # profile

    def write_profile(self, profile: Profile, hashes: Mapping[str, str], manifest: Mapping[str, Any]) -> None:
        """Replace rows, tasks and links, and set manifest entries, all at once; a selection of tasks that are gone is dropped.

        Args:
            profile: The new profile.
            hashes: Structural hash of each kernel by name.
            manifest: Entries that belong to the new profile.
        """
        with self._transaction():
            for table in ("rows", "tasks", "links"):
                self._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a fixed name
            self._connection.executemany(
                "INSERT INTO rows VALUES (?, ?, ?, ?, ?)",
                [(row.row, row.kernel, row.task, row.time_us, json.dumps(row.to_record())) for row in profile.rows],
            )
            self._connection.executemany(
                "INSERT INTO tasks VALUES (?, ?, ?, ?)",
                [(index, task.task, task.weight, json.dumps(task.to_dict())) for index, task in enumerate(profile.tasks)],
            )
            self._connection.executemany(
                "INSERT INTO links VALUES (?, ?, ?, ?)",
                [(row.row, row.kernel, hashes[row.kernel], row.task) for row in profile.rows if row.kernel is not None],
            )
            self._set_manifest({**manifest, "profile": profile.header()})
            selection = self._selection()
            known = {task.task for task in profile.tasks}
            if selection is not None and not all(item.task in known for item in selection.tasks):
                self._connection.execute("DELETE FROM selection")

    def profile(self) -> Profile | None:
        """The profile, or None before the first one is finished."""
        with self._transaction(immediate=False):
            header = self._connection.execute("SELECT value FROM manifest WHERE key = 'profile'").fetchone()
            if header is None:
                return None
            rows = [Row.from_record(json.loads(text)) for (text,) in self._connection.execute("SELECT record FROM rows ORDER BY row")]
            tasks = [Task.from_dict(json.loads(text)) for (text,) in self._connection.execute("SELECT record FROM tasks ORDER BY position")]
        return Profile.from_parts(json.loads(header[0]), rows, tasks)

    # selection

    def write_selection(self, selection: Selection) -> None:
        """Replace the selection."""
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO selection VALUES (1, ?)", (json.dumps(selection.to_dict()),))

    def selection(self) -> Selection | None:
        """The selection, or None if nothing is selected."""
        with self._errors():
            return self._selection()

    def _selection(self) -> Selection | None:
        found = self._connection.execute("SELECT record FROM selection").fetchone()
        return None if found is None else Selection.from_dict(json.loads(found[0]))

    # events

    def add_event(self, kind: str, data: Mapping[str, Any]) -> int:
        """Append an event; return its number."""
        with self._transaction():
            cursor = self._connection.execute("INSERT INTO events (time_s, kind, data) VALUES (?, ?, ?)", (time.time(), kind, json.dumps(data)))
            return int(cursor.lastrowid or 0)

    def events_since(self, event: int, limit: int = 1000) -> list[Event]:
        """Events after the given one, oldest first."""
        with self._errors():
            found = self._connection.execute(
                "SELECT event, time_s, kind, data FROM events WHERE event > ? ORDER BY event LIMIT ?", (event, limit)
            ).fetchall()
        return [Event(event=number, time_s=time_s, kind=kind, data=json.loads(data)) for number, time_s, kind, data in found]

    def last_event(self) -> int:
        """Number of the newest event; 0 if there is none."""
        with self._errors():
            return int(self._connection.execute("SELECT coalesce(max(event), 0) FROM events").fetchone()[0])

    # commands

    def add_command(self, kind: str, arguments: Mapping[str, Any]) -> int:
        """Append a command for the worker; return its number."""
        with self._transaction():
            cursor = self._connection.execute(
                "INSERT INTO commands (kind, arguments, state) VALUES (?, ?, ?)", (kind, json.dumps(arguments), PENDING)
            )
            return int(cursor.lastrowid or 0)

    def take_command(self) -> Command | None:
        """The oldest pending command, now running; None if there is none."""
        with self._errors():
            waiting = self._connection.execute("SELECT 1 FROM commands WHERE state = ? LIMIT 1", (PENDING,)).fetchone()
        if waiting is None:
            return None
        with self._transaction():
            found = self._connection.execute("SELECT command FROM commands WHERE state = ? ORDER BY command LIMIT 1", (PENDING,)).fetchone()
            if found is None:
                return None
            self._connection.execute("UPDATE commands SET state = ? WHERE command = ?", (RUNNING, found[0]))
            return self._command(found[0])

    def finish_command(self, command: int, *, result: Mapping[str, Any] | None = None, failure: Failure | None = None, cancelled: bool = False) -> None:
        """Store a command's answer."""
        state = CANCELLED if cancelled else DONE if failure is None else FAILED
        with self._transaction():
            self._connection.execute(
                "UPDATE commands SET state = ?, result = ?, failure = ? WHERE command = ?",
                (state, None if result is None else json.dumps(result), None if failure is None else json.dumps(failure.to_dict()), command),
            )

    def cancel_command(self, command: int) -> None:
        """Ask the worker to end a command; one that has not begun ends at once."""
        with self._transaction():
            self._connection.execute("UPDATE commands SET cancelled = 1 WHERE command = ?", (command,))
            self._connection.execute("UPDATE commands SET state = ? WHERE command = ? AND state = ?", (CANCELLED, command, PENDING))

    def abandon_commands(self) -> None:
        """End all commands that no worker will finish: called when a worker takes over a session."""
        failure = Failure(kind="WorkerDied", message="The worker that ran this command is gone.")
        with self._transaction():
            self._connection.execute(
                "UPDATE commands SET state = ?, failure = ? WHERE state = ?", (FAILED, json.dumps(failure.to_dict()), RUNNING)
            )

    def command(self, command: int) -> Command:
        """A command with its present state."""
        with self._errors():
            return self._command(command)

    def _command(self, command: int) -> Command:
        number, kind, arguments, state, cancelled, result, failure = self._connection.execute(
            "SELECT command, kind, arguments, state, cancelled, result, failure FROM commands WHERE command = ?", (command,)
        ).fetchone()
        return Command(
            command=number,
            kind=kind,
            arguments=json.loads(arguments),
            state=state,
            cancelled=bool(cancelled),
            result=None if result is None else json.loads(result),
            failure=None if failure is None else Failure.from_dict(json.loads(failure)),
        )

    # heartbeat

    def beat(self, pid: int, phase: str) -> None:
        """Show that the worker is alive."""
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO heartbeat VALUES (1, ?, ?, ?)", (pid, time.time(), phase))

    def heartbeat(self) -> Heartbeat | None:
        """The worker's last sign of life."""
        with self._errors():
            found = self._connection.execute("SELECT pid, time_s, phase FROM heartbeat").fetchone()
        return None if found is None else Heartbeat(pid=found[0], time_s=found[1], phase=found[2])

    def clear_heartbeat(self) -> None:
        """Show that the worker has ended."""
        with self._transaction():
            self._connection.execute("DELETE FROM heartbeat")

    # plumbing

    @contextlib.contextmanager
    def _transaction(self, *, immediate: bool = True) -> Iterator[None]:
        with self._errors():
            self._connection.execute("BEGIN IMMEDIATE" if immediate else "BEGIN")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    @contextlib.contextmanager
    def _errors(self) -> Iterator[None]:
        """Translate SQLite's errors into ones a user can act on."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise _translated(error, self._path) from error
        except (sqlite3.DatabaseError, json.JSONDecodeError, KeyError, TypeError) as error:
            raise SessionError(f"The session in {self._path.parent} is damaged: {error}.", "Profile the model again into another directory.") from error


def _writable(path: Path) -> bool:
    """True if SQLite can write the file and the log beside it."""
    try:
        with path.open("r+b"):
            pass
        probe = path.parent / f".{path.name}.probe"
        probe.touch()
        probe.unlink()
    except OSError:
        return False
    return True


def _translated(error: sqlite3.OperationalError, path: Path) -> EnvironmentFault | SessionError:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return EnvironmentFault(f"The disk is full: {path.parent} could not be written.", "Free some space, or give another --session DIR.")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_IOERR):
        return EnvironmentFault(f"{path.parent} cannot be written: {error}.", "Check its permissions and space, or give another --session DIR.")
    if code == sqlite3.SQLITE_BUSY:
        return EnvironmentFault(f"The session in {path.parent} is locked by another process.", "Wait for it, or end it.")
    return SessionError(f"The session in {path.parent} is damaged: {error}.", "Profile the model again into another directory.")
