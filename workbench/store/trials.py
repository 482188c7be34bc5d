"""The trials of a session, and how far each task is: what a search writes and fronts read by cursor."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Any

from workbench.errors import EnvironmentFault
from workbench.escaping import plain
from workbench.records.trial import OK, UNMEASURED, Trial
from workbench.records.trial_point import TrialPoint
from workbench.records.tuning import SEARCHING, STOPPED, WAITING, TaskProgress
from workbench.store import schema
from workbench.store.connection import Connection
from workbench.store.consistency import check_progress, check_trial
from workbench.store.points import point
from workbench.store.values import dumps, loads

_SELECT = "SELECT trial, task, number, record FROM trials"
_POINTS = (
    "SELECT trial, task, number, json_extract(record, '$.status', '$.origin', '$.conditions', '$.measured_at', '$.times_us') "
    "FROM trials WHERE trial > ? ORDER BY trial LIMIT ?"
)
_COUNTS = "SELECT task, count(*) FROM trials WHERE json_extract(record, '$.status') <> ? GROUP BY task"


@dataclass(frozen=True)
class StoredTrial:
    """A trial with its place in the session: `cursor` grows with every trial that is stored."""

    cursor: int
    trial: Trial


class TrialTable:
    """Trials and the progress of tasks in an open store; every method is one transaction.

    Args:
        connection: The open database.
        reading: Translates what damaged content does to those who read it.
    """

    def __init__(self, connection: Connection, reading: Callable[[], AbstractContextManager[None]]) -> None:
        self._connection = connection
        self._sql: sqlite3.Connection = connection.sql
        self._reading = reading

    def add(self, trial: Trial, trace: str, progress: TaskProgress) -> int:
        """Store a trial, its trace (JSON text; empty for a baseline) and the progress of its task together; returns its cursor."""
        with self._writing() as sql:
            cursor = sql.execute(
                "INSERT INTO trials (task, number, record, trace) VALUES (?, ?, ?, ?)", (trial.task, trial.number, dumps(trial.to_dict()), trace)
            )
            self._set_progress(progress)
            return int(cursor.lastrowid or 0)

    def since(self, cursor: int, *, limit: int = 1000) -> list[StoredTrial]:
        """Trials stored after a cursor, oldest first."""
        return self._trials(f"{_SELECT} WHERE trial > ? ORDER BY trial LIMIT ?", (cursor, limit))

    def all(self, *, until: int | None = None) -> list[StoredTrial]:
        """All trials of the session, or those up to a cursor, oldest first."""
        return self._trials(f"{_SELECT} WHERE ? IS NULL OR trial <= ? ORDER BY trial", (until, until))

    def last(self) -> int:
        """The cursor of the newest trial; 0 if there is none."""
        with self._reading():
            found = self._rows("SELECT coalesce(max(trial), 0) FROM trials", ())
            return int(found[0][0]) if found else 0

    def points(self, cursor: int, *, limit: int) -> list[TrialPoint]:
        """As `since`, but only what a chart needs: a tenth of the time for each trial."""
        with self._reading():
            found = self._rows(_POINTS, (cursor, limit))
            records = loads(f"[{','.join(record for *_, record in found)}]")
            return [point(cursor, task, number, record) for (cursor, task, number, _), record in zip(found, records, strict=True)]

    def of_task(self, task: str) -> list[Trial]:
        """All trials of a task, oldest first."""
        return [stored.trial for stored in self._trials(f"{_SELECT} WHERE task = ? ORDER BY number", (task,))]

    def with_traces(self, task: str) -> list[tuple[Trial, str]]:
        """All trials of a task with their traces (JSON text; empty where there is none), oldest first."""
        with self._reading():
            found = self._rows("SELECT task, number, record, trace FROM trials WHERE task = ? ORDER BY number", (task,))
            return [(_trial(*place), str(trace)) for *place, trace in found]

    def trial(self, task: str, number: int) -> Trial | None:
        """One trial; None if there is none of that number."""
        found = self._trials(f"{_SELECT} WHERE task = ? AND number = ?", (task, number))
        return found[0].trial if found else None

    def trace(self, task: str, number: int) -> str | None:
        """Trace of a trial as JSON text: TVM's own form; None if there is no such trial."""
        with self._reading():
            found = self._rows("SELECT trace FROM trials WHERE task = ? AND number = ?", (task, number))
            return str(found[0][0]) if found else None

    def count(self, tasks: Sequence[str] | None = None) -> int:
        """Number of trials of some tasks, or of all; those that were only built and checked do not count."""
        with self._reading():
            counts = {str(task): int(number) for task, number in self._rows(_COUNTS, (UNMEASURED,))}
            return sum(counts.values()) if tasks is None else sum(counts.get(task, 0) for task in tasks)

    def count_recordable(self) -> int:
        """Number of trials that a record for stock TVM can be made of: measured, with a trace."""
        with self._reading():
            found = self._rows("SELECT count(*) FROM trials WHERE trace <> '' AND json_extract(record, '$.status') = ?", (OK,))
            return int(found[0][0]) if found else 0

    def set_progress(self, progress: TaskProgress) -> None:
        """Store how far a task is."""
        with self._writing():
            self._set_progress(progress)

    def progress(self) -> list[TaskProgress]:
        """How far each task is, in the order in which their searches began."""
        with self._reading():
            return [_progress(*found) for found in self._rows("SELECT task, record FROM searches ORDER BY position", ())]

    def progress_of(self, task: str) -> TaskProgress | None:
        """How far one task is; None if it was never searched."""
        with self._reading():
            found = self._rows("SELECT task, record FROM searches WHERE task = ?", (task,))
            return _progress(*found[0]) if found else None

    def stop_open(self, cause: str) -> bool:
        """Within the caller's transaction: stop the tasks whose searches have not ended; True if there were any."""
        left = [progress for progress in self.progress() if progress.state in (WAITING, SEARCHING)]
        for progress in left:
            self._set_progress(replace(progress, state=STOPPED, stopped_because=cause))
        return bool(left)

    def _set_progress(self, progress: TaskProgress) -> None:
        self._sql.execute(
            "INSERT INTO searches (task, record) VALUES (?, ?) ON CONFLICT (task) DO UPDATE SET record = excluded.record",
            (progress.task, dumps(progress.to_dict())),
        )

    def _writing(self) -> AbstractContextManager[sqlite3.Connection]:
        if self._connection.version < schema.WITH_TRIALS:
            raise EnvironmentFault(
                f"The session in {plain(str(self._connection.path.parent), 120)} cannot be written, and is of a format without trials.",
                "Copy it to a place that can be written.",
            )
        return self._connection.transaction()

    def _trials(self, query: str, arguments: tuple[Any, ...]) -> list[StoredTrial]:
        with self._reading():
            return [StoredTrial(int(cursor), _trial(*place)) for cursor, *place in self._rows(query, arguments)]

    def _rows(self, query: str, arguments: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """What a query finds; nothing in a session of an older workbench on a medium that cannot be written, which has no such tables."""
        return [] if self._connection.version < schema.WITH_TRIALS else self._sql.execute(query, arguments).fetchall()


def _trial(task: object, number: object, text: Any) -> Trial:
    """A trial from its row; raises ValueError if it makes no sense."""
    trial = Trial.from_dict(loads(text))
    check_trial(trial, task=task, number=number)
    return trial


def _progress(task: object, text: Any) -> TaskProgress:
    """How far a task is from its row; raises ValueError if it makes no sense."""
    progress = TaskProgress.from_dict(loads(text))
    check_progress(progress, task=task)
    return progress
