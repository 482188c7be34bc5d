"""The store: one SQLite file, the only channel between fronts and a worker.

Every method is one transaction. A connection belongs to the thread that opened it; another thread or process opens its own. The database is
in WAL mode: readers never wait for the writer, and what was committed survives the death of any process. What is read was perhaps written by
somebody else: all of it is checked.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from workbench.errors import Interrupted, SessionError
from workbench.escaping import plain
from workbench.records.command import ABANDONED, CANCELLED, DONE, FAILED, FINAL_STATES, PENDING, RUNNING, Command, Event, Failure, WorkerState
from workbench.records.decode import decode
from workbench.records.profile import Profile, Row, Task
from workbench.records.request import ProfileRequest
from workbench.records.selection import Selection
from workbench.store import schema
from workbench.store.connection import Connection, damaged
from workbench.store.consistency import check_links
from workbench.store.trials import TrialTable
from workbench.store.values import column, dumps, loads, loads_or_none

_COMMAND_COLUMNS = "command, kind, arguments, state, cancelled, result, failure"
_STRANGE = (ValueError, TypeError, KeyError, IndexError, RecursionError, OverflowError)
"""What content raises that nobody of the workbench wrote."""

_OLD_RULE = "; made before the present profile"


class Store:
    """An open ``session.sqlite``.

    A session that cannot be written can still be read.

    Attributes:
        trials: The trials, and how far each task is.

    Raises:
        SessionError: The file is missing, damaged, no session, or of a newer format.
        EnvironmentFault: The disk is full or the file cannot be written.
    """

    def __init__(self, path: Path, *, create: bool = False) -> None:
        self._path = path
        self._connection = Connection(path, create=create)
        self._sql = self._connection.sql
        self.trials = TrialTable(self._connection, self._reading)

    def close(self) -> None:
        """Close the connection; the last one to close folds the write-ahead log into the file."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # manifest

    def manifest(self) -> dict[str, Any]:
        """All entries of the manifest."""
        with self._reading():
            return {str(key): loads(value) for key, value in self._sql.execute("SELECT key, value FROM manifest")}

    def request(self) -> ProfileRequest | None:
        """What the profile was made for, or is to be made for; None if nothing was asked for yet."""
        with self._reading():
            found = self._entry("request")
            return None if found is None else ProfileRequest.from_dict(found)

    def update_manifest(self, entries: Mapping[str, Any]) -> None:
        """Set entries of the manifest."""
        with self._connection.transaction():
            self._set_manifest(entries)

    def _set_manifest(self, entries: Mapping[str, Any]) -> None:
        self._sql.executemany("INSERT OR REPLACE INTO manifest (key, value) VALUES (?, ?)", [(key, dumps(value)) for key, value in entries.items()])

    def _entry(self, key: str) -> Any:
        found = self._sql.execute("SELECT value FROM manifest WHERE key = ?", (key,)).fetchone()
        return None if found is None else loads(found[0])

    # profile

    def write_profile(
        self,
        profile: Profile,
        hashes: Mapping[str, str],
        manifest: Mapping[str, Any],
        *,
        documents: Mapping[str, Mapping[str, Any]] | None = None,
        command: int | None = None,
    ) -> None:
        """Replace rows, tasks and links, and set manifest entries and documents, all at once.

        A selection stays as long as all its tasks exist, and then ticks their rows of the new profile.

        Args:
            profile: The new profile.
            hashes: Structural hash of each kernel by name.
            manifest: Entries that belong to the new profile.
            documents: Documents that belong to it, by name.
            command: The command that asked for it.

        Raises:
            Interrupted: The command was cancelled; the profile that was there is kept.
        """
        with self._connection.transaction() as sql:
            if command is not None and self.command(command).cancelled:
                raise Interrupted("The work was stopped.")
            for table in ("rows", "tasks", "links"):
                sql.execute(f"DELETE FROM {table}")  # noqa: S608 - a fixed name
            sql.executemany("INSERT INTO rows VALUES (?, ?)", [(row.row, dumps(row.to_record())) for row in profile.rows])
            sql.executemany("INSERT INTO tasks VALUES (?, ?)", [(index, dumps(task.to_dict())) for index, task in enumerate(profile.tasks)])
            sql.executemany(
                "INSERT INTO links VALUES (?, ?, ?, ?)",
                [(row.row, column(row.kernel), column(hashes[row.kernel]), column(row.task)) for row in profile.rows if row.kernel is not None],
            )
            for name, record in (documents or {}).items():
                sql.execute("INSERT OR REPLACE INTO documents VALUES (?, ?)", (name, dumps(record)))
            self._set_manifest({**manifest, "profile": profile.header(), "used_at": time.time()})
            self._keep_selection(profile)

    def _keep_selection(self, profile: Profile) -> None:
        """Tie the selection to a new profile, or drop it."""
        places = {task.task: place for place, task in enumerate(profile.tasks)}
        try:
            with self._reading():
                selection = self._selection()
        except SessionError:
            selection = None  # a damaged one is not worth a lost profile
        if selection is None or not all(item.task in places for item in selection.tasks):
            self._sql.execute("DELETE FROM selection")
            return
        tasks = tuple(sorted(selection.tasks, key=lambda item: -(profile.tasks[places[item.task]].time_us or 0.0)))
        rows = tuple(sorted(row for item in tasks for row in profile.tasks[places[item.task]].rows))
        rule = f"{selection.rule.removesuffix(_OLD_RULE)}{_OLD_RULE}"
        self._set_selection(replace(selection, model=profile.model, target=profile.target, tasks=tasks, rows=rows, rule=rule, notes=profile.notes))

    def structural_hashes(self) -> dict[str, str]:
        """Structural hash of the kernels of each task that rows call; the same kernel has the same one in every session of one TVM version."""
        with self._reading():
            return {str(task): str(found) for task, found in self._sql.execute("SELECT DISTINCT task, structural_hash FROM links")}

    def profile(self) -> Profile | None:
        """The profile, or None before the first one is finished."""
        with self._reading(), self._connection.transaction(write=False) as sql:
            header = self._entry("profile")
            if header is None:
                return None
            rows = [Row.from_record(loads(text)) for (text,) in sql.execute("SELECT record FROM rows ORDER BY row")]
            tasks = [Task.from_dict(loads(text)) for (text,) in sql.execute("SELECT record FROM tasks ORDER BY position")]
            profile = Profile.from_parts(header, rows, tasks)
            check_links(profile)
            return profile

    # selection

    def write_selection(self, selection: Selection) -> None:
        """Replace the selection."""
        with self._connection.transaction():
            self._set_selection(selection)
            self._set_manifest({"used_at": time.time()})

    def used_at(self) -> float:
        """Unix time when the session was profiled or selected from last; 0 if it never was."""
        with self._reading():
            found = self._entry("used_at")
            return float(found) if isinstance(found, int | float) else 0.0

    def selection(self) -> Selection | None:
        """The selection, or None if nothing is selected."""
        with self._reading():
            return self._selection()

    def _set_selection(self, selection: Selection) -> None:
        self._sql.execute("INSERT OR REPLACE INTO selection VALUES (1, ?)", (dumps(selection.to_dict()),))

    def _selection(self) -> Selection | None:
        found = self._sql.execute("SELECT record FROM selection").fetchone()
        return None if found is None else Selection.from_dict(loads(found[0]))

    # documents

    def write_document(self, name: str, record: Mapping[str, Any]) -> None:
        """Replace one document: what a step after the profile found out, as one JSON object.

        Raises:
            EnvironmentFault: The session is of an older format and on a medium that cannot be written.
        """
        with self._connection.transaction() as sql:
            sql.execute("INSERT OR REPLACE INTO documents VALUES (?, ?)", (name, dumps(record)))

    def document(self, name: str) -> dict[str, Any] | None:
        """One document; None if there is none. It may have been written by anybody: decode it with a record's ``from_dict``."""
        if self._connection.version < schema.WITH_DOCUMENTS:
            return None
        with self._reading():
            found = self._sql.execute("SELECT record FROM documents WHERE name = ?", (name,)).fetchone()
            record = None if found is None else loads(found[0])
        if record is None or isinstance(record, dict):
            return record
        raise damaged(self._path, f"the document {name} is no object")

    # events

    def add_event(self, kind: str, data: Mapping[str, Any]) -> int:
        """Append an event; return its number."""
        with self._connection.transaction() as sql:
            cursor = sql.execute("INSERT INTO events (time_s, kind, data) VALUES (?, ?, ?)", (time.time(), kind, dumps(data)))
            return int(cursor.lastrowid or 0)

    def events_since(self, event: int, limit: int = 1000) -> list[Event]:
        """Events after the given one, oldest first."""
        with self._reading():
            found = self._sql.execute("SELECT event, time_s, kind, data FROM events WHERE event > ? ORDER BY event LIMIT ?", (event, limit))
            return [decode(Event, {"event": number, "time_s": time_s, "kind": kind, "data": loads(data)}) for number, time_s, kind, data in found]

    def forget_progress(self) -> None:
        """Remove the events that only told how far a command was."""
        with self._connection.transaction() as sql:
            sql.execute("DELETE FROM events WHERE kind = 'progress'")

    def last_event(self) -> int:
        """Number of the newest event; 0 if there is none."""
        with self._reading():
            return int(self._sql.execute("SELECT coalesce(max(event), 0) FROM events").fetchone()[0])

    # commands

    def add_command(self, kind: str, arguments: Mapping[str, Any]) -> int:
        """Append a command for the worker; return its number."""
        with self._connection.transaction() as sql:
            cursor = sql.execute("INSERT INTO commands (kind, arguments, state) VALUES (?, ?, ?)", (kind, dumps(arguments), PENDING))
            return int(cursor.lastrowid or 0)

    def take_command(self, kinds: Collection[str] | None = None) -> Command | None:
        """The oldest pending command (of some kinds, or of any), now running; None if there is none. One that cannot be read is answered so."""
        wanted = "" if kinds is None else f" AND kind IN ({', '.join('?' * len(kinds))})"
        oldest = f"SELECT command FROM commands WHERE state = ?{wanted} ORDER BY command LIMIT 1"  # noqa: S608 - placeholders only
        arguments = (PENDING, *(kinds or ()))
        with self._reading():
            if self._sql.execute(oldest, arguments).fetchone() is None:
                return None
            with self._connection.transaction() as sql:
                while (found := sql.execute(oldest, arguments).fetchone()) is not None:
                    sql.execute("UPDATE commands SET state = ? WHERE command = ?", (RUNNING, found[0]))
                    try:
                        return self._command(found[0])
                    except _STRANGE as error:
                        self._refuse_unreadable(found[0], error)
                return None

    def _refuse_unreadable(self, command: int, error: Exception) -> None:
        """Answer a command that cannot be read, and leave one in its place that can: whoever wrote it, nobody else is to stumble over it."""
        failure = Failure("SessionError", f"The command cannot be read: {plain(str(error), 200)}.", "Give it again.")
        self._sql.execute(
            "UPDATE commands SET arguments = '{}', state = ?, cancelled = 0, result = NULL, failure = ? WHERE command = ?",
            (FAILED, dumps(failure.to_dict()), command),
        )

    def finish_command(
        self, command: int, *, result: Mapping[str, Any] | None = None, failure: Failure | None = None, cancelled: bool = False
    ) -> None:
        """Store a command's answer, unless it has one."""
        state = CANCELLED if cancelled else DONE if failure is None else FAILED
        answer = (None if result is None else dumps(result), None if failure is None else dumps(failure.to_dict()))
        with self._connection.transaction() as sql:
            sql.execute(
                "UPDATE commands SET state = ?, result = ?, failure = ? WHERE command = ? AND state NOT IN (?, ?, ?, ?)",
                (state, *answer, command, *FINAL_STATES),
            )

    def cancel_command(self, command: int) -> None:
        """Ask the worker to end a command; one that has not begun ends at once."""
        with self._connection.transaction() as sql:
            sql.execute("UPDATE commands SET cancelled = 1 WHERE command = ?", (command,))
            sql.execute("UPDATE commands SET state = ? WHERE command = ? AND state = ?", (CANCELLED, command, PENDING))

    def abandon_commands(self, *, first: int) -> None:
        """End all commands that came before the one that a worker was started for: called when the worker takes over a session.

        What ran has lost its worker. What waits may be years old and of anybody who wrote the session; a front that still waits for it gives it
        again.
        """
        with self._connection.transaction() as sql:
            self._fail_running(Failure("WorkerDied", "The worker that ran this command is gone.", "Try again."))
            sql.execute("UPDATE commands SET state = ? WHERE state = ? AND command < ?", (ABANDONED, PENDING, first))

    def fail_left(self) -> None:
        """Answer what a worker took and has no answer for: called between its commands, when nothing runs. Its front waits.

        A search takes commands of its own, and may end by a disk on which they could not be answered.
        """
        with self._connection.transaction():
            self._fail_running(Failure("SessionError", "The work that this command was for has failed.", "Start that again."))

    def _fail_running(self, failure: Failure) -> None:
        self._sql.execute("UPDATE commands SET state = ?, failure = ? WHERE state = ?", (FAILED, dumps(failure.to_dict()), RUNNING))

    def end_search(self, cause: str) -> None:
        """Say of a search whose worker is gone that it has ended, and why, if one was open: called when no other worker serves the session."""
        with contextlib.suppress(SessionError), self._connection.transaction():  # what is damaged is told to whoever reads it
            if self.trials.stop_open(cause):
                self._set_manifest({"last_stop": {"command": "tune", "cause": cause}})

    def abandon_command(self, command: int) -> None:
        """Leave a running command to whoever still waits for it: its worker ends."""
        with self._connection.transaction() as sql:
            sql.execute("UPDATE commands SET state = ? WHERE command = ? AND state = ?", (ABANDONED, command, RUNNING))

    def running_beside(self, command: int) -> Command | None:
        """What a worker does while a command waits for it; None if that command does not wait any more, or nothing else runs."""
        query = "SELECT min(command) FROM commands WHERE state = ? AND EXISTS (SELECT 1 FROM commands WHERE command = ? AND state = ?)"
        with self._reading():
            found = self._sql.execute(query, (RUNNING, command, PENDING)).fetchone()[0]
            return None if found is None else self._command(found)

    def open_commands(self) -> tuple[int, ...]:
        """Numbers of the commands that have no answer yet."""
        with self._reading():
            found = self._sql.execute("SELECT command FROM commands WHERE state IN (?, ?) ORDER BY command", (PENDING, RUNNING))
            return tuple(int(number) for (number,) in found)

    def command(self, command: int) -> Command:
        """A command with its present state."""
        with self._reading():
            return self._command(command)

    def last_command(self, *kinds: str) -> Command | None:
        """The newest command of some kinds; None if there is none."""
        query = f"SELECT max(command) FROM commands WHERE kind IN ({', '.join('?' * len(kinds))})"  # noqa: S608 - placeholders only
        with self._reading():
            found = self._sql.execute(query, kinds).fetchone()[0]
            return None if found is None else self._command(found)

    def last_obeyed(self, after: int, *kinds: str) -> Command | None:
        """The newest command of some kinds behind a given one that was done; None if there is none."""
        query = f"SELECT max(command) FROM commands WHERE command > ? AND state = ? AND kind IN ({', '.join('?' * len(kinds))})"  # noqa: S608 - as above
        with self._reading():
            found = self._sql.execute(query, (after, DONE, *kinds)).fetchone()[0]
            return None if found is None else self._command(found)

    def version(self) -> int:
        """A number that changes whenever another connection has changed something; asking for it costs next to nothing."""
        with self._connection.errors():
            return int(self._sql.execute("PRAGMA data_version").fetchone()[0])

    def _command(self, command: int) -> Command:
        found = self._sql.execute(f"SELECT {_COMMAND_COLUMNS} FROM commands WHERE command = ?", (command,)).fetchone()  # noqa: S608 - fixed names
        number, kind, arguments, state, cancelled, result, failure = found
        values = {"command": number, "kind": kind, "arguments": loads(arguments), "state": state, "cancelled": bool(cancelled)}
        return decode(Command, {**values, "result": loads_or_none(result), "failure": loads_or_none(failure)})

    # worker

    def set_worker(self, pid: int, phase: str) -> None:
        """Tell which process serves the session, and whether it is ready."""
        with self._connection.transaction() as sql:
            sql.execute("INSERT OR REPLACE INTO worker VALUES (1, ?, ?, ?)", (pid, time.time(), phase))

    def worker(self) -> WorkerState | None:
        """What the worker said last of itself; None if it ended in order."""
        with self._reading():
            found = self._sql.execute("SELECT pid, phase FROM worker").fetchone()
            return None if found is None else decode(WorkerState, {"pid": found[0], "phase": found[1]})

    def clear_worker(self) -> None:
        """Show that the worker has ended."""
        with self._connection.transaction() as sql:
            sql.execute("DELETE FROM worker")

    # plumbing

    @contextlib.contextmanager
    def _reading(self) -> Iterator[None]:
        """Translate what strange content does to those who read it."""
        with self._connection.errors():
            try:
                yield
            except _STRANGE as error:
                raise damaged(self._path, error) from error
