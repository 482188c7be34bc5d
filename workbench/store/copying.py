"""A copy of a session's database for others: one file of one moment, without what belongs to the processes that used it."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from workbench.store.connection import Connection

_OF_PROCESSES = ("worker", "commands", "events")


def copy_database(source: Path, target: Path) -> None:
    """Copy a database, also while a worker writes to it.

    Args:
        source: The session's database.
        target: A file that is not there yet.

    Raises:
        SessionError: The source is damaged, or no session.
        EnvironmentFault: There is no room for the copy.
    """
    connection = Connection(source, create=False)
    try:
        with connection.errors(), closing(sqlite3.connect(target, isolation_level=None)) as copy:
            connection.sql.backup(copy)
            for table in _OF_PROCESSES:
                copy.execute(f"DELETE FROM {table}")  # noqa: S608 - fixed names
            copy.execute("VACUUM")
            copy.execute("PRAGMA journal_mode = DELETE")  # one file, without a log beside it
    finally:
        connection.close()
