"""Tables of ``session.sqlite`` and their version; a database with anything else in it is refused."""

from __future__ import annotations

import sqlite3

from workbench.errors import SessionError
from workbench.store.transaction import transaction

FORMAT_VERSION = 3
WITH_TRIALS = 2
"""The first version that has tables for trials."""
WITH_DOCUMENTS = 3
"""The first version that has a table for documents."""
APPLICATION_ID = 0x54564D57  # "TVMW"

_TABLES = (
    "CREATE TABLE manifest (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE rows (row INTEGER PRIMARY KEY, record TEXT NOT NULL)",
    "CREATE TABLE tasks (position INTEGER PRIMARY KEY, record TEXT NOT NULL)",
    "CREATE TABLE links (row INTEGER PRIMARY KEY, kernel TEXT NOT NULL, structural_hash TEXT NOT NULL, task TEXT NOT NULL)",
    "CREATE TABLE selection (id INTEGER PRIMARY KEY CHECK (id = 1), record TEXT NOT NULL)",
    "CREATE TABLE events (event INTEGER PRIMARY KEY AUTOINCREMENT, time_s REAL NOT NULL, kind TEXT NOT NULL, data TEXT NOT NULL)",
    """CREATE TABLE commands (command INTEGER PRIMARY KEY AUTOINCREMENT, kind TEXT NOT NULL, arguments TEXT NOT NULL, state TEXT NOT NULL,
    cancelled INTEGER NOT NULL DEFAULT 0, result TEXT, failure TEXT)""",
    "CREATE TABLE worker (id INTEGER PRIMARY KEY CHECK (id = 1), pid INTEGER NOT NULL, time_s REAL NOT NULL, phase TEXT NOT NULL)",
)

_TRIAL_TABLES = (
    """CREATE TABLE trials (trial INTEGER PRIMARY KEY AUTOINCREMENT, task TEXT NOT NULL, number INTEGER NOT NULL, record TEXT NOT NULL,
    trace TEXT NOT NULL, UNIQUE (task, number))""",
    "CREATE TABLE searches (position INTEGER PRIMARY KEY AUTOINCREMENT, task TEXT NOT NULL UNIQUE, record TEXT NOT NULL)",
)
_DOCUMENT_TABLES = ("CREATE TABLE documents (name TEXT PRIMARY KEY, record TEXT NOT NULL) WITHOUT ROWID",)
_ADDED_BY = {1: _TABLES, WITH_TRIALS: _TRIAL_TABLES, WITH_DOCUMENTS: _DOCUMENT_TABLES}


def create(connection: sqlite3.Connection, place: str) -> None:
    """Make an empty database a session store, in one transaction."""
    with transaction(connection):
        if _version(connection) == 0:
            refuse_foreign(connection, place)
            for statement in _tables_of(FORMAT_VERSION):
                connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def refuse_foreign(connection: sqlite3.Connection, place: str) -> None:
    """Raise SessionError if the database belongs to another program; it is only read."""
    if _identifier(connection) != APPLICATION_ID and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
        raise SessionError(f"{place} holds the database of another program.", "Give another directory: --session DIR.")


def migrate(connection: sqlite3.Connection) -> None:
    """Bring a checked database of an older version to this one, in one transaction."""
    with transaction(connection):
        if (version := _version(connection)) < FORMAT_VERSION:
            for statement in _tables_of(FORMAT_VERSION)[len(_tables_of(version)) :]:
                connection.execute(statement)
            connection.execute(f"PRAGMA user_version = {FORMAT_VERSION}")


def check(connection: sqlite3.Connection, place: str) -> int:
    """The version of a session store.

    Raises:
        SessionError: The database is none, or of a newer version.
    """
    version = _version(connection)
    if version == 0 or _identifier(connection) != APPLICATION_ID:
        raise SessionError(f"{place} holds no workbench session.", "Make one with: workbench profile MODEL.")
    if version > FORMAT_VERSION:
        raise SessionError(
            f"{place} was written by a newer workbench (format {version}; this one knows {FORMAT_VERSION}).",
            "Upgrade tvm-workbench to open it.",
        )
    if version < 0:
        raise SessionError(f"{place} has the format {version}, which no workbench writes.", "Give another directory: --session DIR.")
    # A trigger or view would change what every later statement does, so only the very tables of this version are accepted.
    found = connection.execute("SELECT sql FROM sqlite_master WHERE NOT (type IN ('table', 'index') AND name LIKE 'sqlite\\_%' ESCAPE '\\')")
    if sorted(str(sql) for (sql,) in found) != sorted(_tables_of(version)):
        raise SessionError(f"The session in {place} is damaged: its tables are not those of a session.", "Give another directory: --session DIR.")
    return version


def _tables_of(version: int) -> list[str]:
    return [statement for added, statements in _ADDED_BY.items() if added <= version for statement in statements]


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _identifier(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA application_id").fetchone()[0])
