"""The store and what faults of files, disks and processes leave behind; all of them are real."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import EnvironmentFault, SessionError
from workbench.records.selection import Selection
from workbench.session import SessionDirectory
from workbench.store import FORMAT_VERSION, Store

HANG_S = 60
NOTHING = Selection("net", "cpu", (), (), "by hand")


def spoil(directory: SessionDirectory, statement: str, *values: Any) -> None:
    """Change the database behind the store's back."""
    with contextlib.closing(sqlite3.connect(directory.database)) as connection, connection:
        connection.execute(statement, values)


def child(code: str, *arguments: str) -> subprocess.Popen[str]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    return subprocess.Popen([sys.executable, "-c", code, *arguments], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True, env=environment)


# files that are no session


def test_a_session_of_a_newer_format_is_refused_with_both_versions(session: SessionDirectory) -> None:
    spoil(session, f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    for create in (False, True):
        with pytest.raises(SessionError, match=f"format {FORMAT_VERSION + 1}; this one knows {FORMAT_VERSION}") as caught:
            Store(session.database, create=create)
        assert caught.value.exit_code == 2
        assert "Upgrade" in caught.value.remedy


@pytest.mark.parametrize("content", [None, b"", b"x", b"no database at all" * 1000, b"SQLite format 3\x00", b"SQLite format 3\x00" + bytes(4096)])
def test_a_file_that_is_no_session_is_refused_and_stays_as_it_is(content: bytes | None, tmp_path: Path) -> None:
    path = tmp_path / "session.sqlite"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(SessionError) as caught:
        Store(path)
    assert caught.value.remedy
    assert (path.read_bytes() if content is not None else None) == content
    assert sorted(tmp_path.iterdir()) == ([path] if content is not None else [])


def test_a_directory_in_the_place_of_the_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "session.sqlite").mkdir()
    with pytest.raises(SessionError):
        Store(tmp_path / "session.sqlite")


def test_the_database_of_another_program_is_refused_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "session.sqlite"
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("CREATE TABLE theirs (x)")
    before = path.read_bytes()
    for create in (False, True):
        with pytest.raises(SessionError):
            Store(path, create=create)
    assert path.read_bytes() == before


def test_a_file_that_was_left_empty_becomes_a_session_when_one_is_made(tmp_path: Path) -> None:
    (tmp_path / "session.sqlite").touch()
    with Store(tmp_path / "session.sqlite", create=True) as store:
        assert store.manifest() == {}


@pytest.mark.parametrize("kept", [100, 512, 1000, 4096, 5000, 20000])
def test_a_database_that_is_cut_off_is_refused(kept: int, session: SessionDirectory) -> None:
    content = session.database.read_bytes()
    assert len(content) > kept
    session.database.write_bytes(content[:kept])
    with pytest.raises(SessionError), session.store() as store:
        store.profile()


# content that no workbench wrote


def damaged_row(**changes: Any) -> str:
    row = {"row": 0, "node_name": "conv2d", "ops": ["conv2d"], "origins": [], "time_us": 1.0, "time_us_iqr": 0.1, "time_percent": 50.0}
    row |= {"shape": "", "dtype": "float32", "inputs": 1, "outputs": 1, "flop": 1, "gflops": 1.0, "kernel": "conv2d", "task": "nowhere"}
    return json.dumps({**row, "untunable": None, "nan_count": 0, "inf_count": 0, **changes})


@pytest.mark.parametrize(
    ("statement", "value"),
    [
        *(
            ("UPDATE rows SET record = ? WHERE row = 0", text)
            for text in (
                *("{", "null", "[]", "5", '"text"', "{}", "", damaged_row(), damaged_row(time_us="1"), damaged_row(time_us=float("nan"))),
                *(damaged_row(ops="conv2d"), damaged_row(origins=[1]), damaged_row(flop=10**400), damaged_row(row=7), damaged_row(task=None)),
                *("[" * 100_000, '{"row": ' + "9" * 5000 + "}", damaged_row(kernel=["x"])),
            )
        ),
        ("UPDATE rows SET record = ? WHERE row = 0", b"\xff\xfe"),
        ("UPDATE tasks SET record = ? WHERE position = 0", "{}"),
        ("UPDATE tasks SET record = replace(record, '\"weight\": 2', ?)", '"weight": 1000'),
        ("UPDATE tasks SET record = replace(record, '[0, 2]', ?)", "[0, 99]"),
        ("UPDATE tasks SET record = replace(record, '[0, 2]', ?)", "[0, -1]"),
        ("UPDATE manifest SET value = ? WHERE key = 'profile'", "[]"),
        ("UPDATE manifest SET value = ? WHERE key = 'profile'", '{"model": "net"}'),
        ("DELETE FROM rows WHERE row = ?", 1),
        ("DELETE FROM tasks WHERE position = ?", 0),
        ("UPDATE rows SET record = replace(record, '\"task\": null', ?)", '"task": "conv2d"'),
        ("UPDATE rows SET record = (SELECT record FROM rows WHERE row = 1) WHERE row = ?", 0),
        ("CREATE TABLE x AS SELECT ?", 1),
    ],
)
def test_a_profile_that_makes_no_sense_is_a_damaged_session(statement: str, value: Any, session: SessionDirectory) -> None:
    spoil(session, statement, value)
    if statement.startswith("CREATE"):
        spoil(session, "DROP TABLE rows")
    with pytest.raises(SessionError, match=r"damaged") as caught, session.store() as store:
        store.profile()
    assert len(caught.value.message) < 500


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER late AFTER UPDATE ON commands BEGIN UPDATE commands SET result = '{}' WHERE command = new.command; END",
        "CREATE VIEW more AS SELECT * FROM rows",
        "CREATE INDEX more ON rows (record)",
        "CREATE TABLE more (x)",
        "ALTER TABLE rows ADD COLUMN more",
    ],
)
def test_a_database_with_more_than_the_tables_of_a_session_is_refused(statement: str, session: SessionDirectory) -> None:
    spoil(session, statement)
    for create in (False, True):
        with pytest.raises(SessionError, match=r"not those of a session"):
            Store(session.database, create=create)


@pytest.mark.parametrize("text", ["{", "5", "[]", '{"source": {}}', "NaN", '{"source": null}'])
def test_a_request_that_makes_no_sense_is_a_damaged_session(text: str, session: SessionDirectory) -> None:
    spoil(session, "UPDATE manifest SET value = ? WHERE key = 'request'", text)
    with pytest.raises(SessionError, match=r"damaged"), session.store() as store:
        store.request()


def test_names_of_any_length_and_content_come_back(tmp_path: Path, sessions: Any) -> None:
    for index, name in enumerate(["<script>", "a\"b'c", "a\nb", "\x1b[31m", "свёртка畳", "\ud800", "x" * 1_000_000]):
        profile = sessions.profile([name], model=name)
        with sessions.write(tmp_path / str(index), profile).store() as store:
            assert store.profile() == profile


def test_a_number_that_is_none_is_never_written(session: SessionDirectory) -> None:
    with session.store() as store:
        for value in (float("nan"), float("inf")):
            with pytest.raises(ValueError, match=r"JSON"):
                store.update_manifest({"x": value})


# disks


def test_on_a_full_disk_writing_fails_with_a_remedy_and_the_old_profile_can_be_read(small_medium: Any, sessions: Any) -> None:
    old = sessions.profile(["conv2d"])
    directory = sessions.write(small_medium.path / "session", old)
    small_medium.fill()
    large = sessions.profile([f"kernel{index}" for index in range(1000)])
    with pytest.raises(EnvironmentFault) as caught, directory.store() as store:
        store.write_profile(large, sessions.hashes(large), {"profile_id": "2"})
    assert caught.value.exit_code == 3
    assert "--session DIR" in caught.value.remedy
    with directory.store() as store:
        assert store.profile() == old


def test_a_disk_that_gets_full_while_a_profile_is_written_leaves_the_old_one(small_medium: Any, sessions: Any) -> None:
    old = sessions.profile(["conv2d"])
    large = sessions.profile([f"kernel{index}" for index in range(3000)])
    with sessions.write(small_medium.path / "session", old).store() as store:
        with pytest.raises(EnvironmentFault, match=r"disk is full"):
            store.write_profile(large, sessions.hashes(large), {"profile_id": "2"})
        assert store.profile() == old
        store.write_profile(old, sessions.hashes(old), {"profile_id": "3"})
        assert store.manifest()["profile_id"] == "3"


def test_on_a_read_only_medium_a_session_can_be_read_and_not_written(small_medium: Any, sessions: Any) -> None:
    profile = sessions.profile(["conv2d", "dense"])
    directory = sessions.write(small_medium.path / "session", profile)
    small_medium.make_read_only()
    with directory.store() as store:
        assert store.profile() == profile
        with pytest.raises(EnvironmentFault, match=r"cannot be written"):
            store.write_selection(NOTHING)
    with pytest.raises(EnvironmentFault):
        Store(small_medium.path / "other.sqlite", create=True)


def test_on_a_read_only_medium_what_a_killed_writer_had_committed_is_read(small_medium: Any, sessions: Any) -> None:
    directory = sessions.write(small_medium.path / "session", sessions.profile(["conv2d"]))
    code = "import os, sys; from workbench.session import SessionDirectory; from pathlib import Path\n"
    code += "SessionDirectory(Path(sys.argv[1])).store().update_manifest({'late': 1}); os.kill(os.getpid(), 9)"
    with child(code, str(directory.path)) as writer:
        assert writer.wait(HANG_S) == -signal.SIGKILL
    directory.database.with_name("session.sqlite-shm").unlink()
    small_medium.make_read_only()
    with directory.store() as store:
        assert store.manifest()["late"] == 1
        with pytest.raises(EnvironmentFault):
            store.update_manifest({"later": 1})


# processes

READER = """
import sys
from pathlib import Path
from workbench.store import Store
seen = set()
with Store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    while "last" not in seen:
        profile = store.profile()
        assert len(profile.kernel_rows) == int(profile.notes[0]), profile.notes
        seen.add(profile.notes[1])
print(len(seen), flush=True)
"""


def test_two_processes_read_whole_profiles_while_another_writes(session: SessionDirectory, sessions: Any) -> None:
    def write(store: Store, rows: int, note: str) -> None:
        profile = sessions.profile([f"kernel{index}" for index in range(rows)], notes=[str(rows), note])
        store.write_profile(profile, sessions.hashes(profile), {"profile_id": note})

    with session.store() as store:
        write(store, 3, "first")
        with child(READER, str(session.database)) as one, child(READER, str(session.database)) as two:
            for reader in (one, two):
                assert reader.stdout is not None
                assert reader.stdout.readline() == "ready\n"
            for turn in range(40):
                write(store, 2 + turn % 7, f"turn {turn}")
            write(store, 5, "last")
            assert one.wait(HANG_S) == 0
            assert two.wait(HANG_S) == 0


KILLED = """
import os, sys
from pathlib import Path
from workbench.store import Store
store = Store(Path(sys.argv[1]))
with store._connection.transaction() as sql:
    for table in ("rows", "tasks", "links", "manifest"):
        sql.execute(f"DELETE FROM {table}")
    sql.execute("PRAGMA cache_spill = 1")
    print("inside", flush=True)
    sys.stdin.read(1)
"""


def test_a_writer_that_is_killed_in_a_transaction_leaves_the_old_profile(session: SessionDirectory, sessions: Any) -> None:
    with child(KILLED, str(session.database)) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "inside\n"
        writer.kill()
        assert writer.wait(HANG_S) == -signal.SIGKILL
    with session.store() as store:
        assert store.profile() == sessions.profile(["conv2d", "dense", "conv2d", "softmax"])
        store.update_manifest({"alive": True})


def test_a_process_that_opens_a_session_twice_keeps_its_locks_when_others_come_and_go(session: SessionDirectory) -> None:
    """Closing any handle of a file ends all of a process's locks on it: another process then removes the log that is in use."""
    code = "import sys; from pathlib import Path; from workbench.store import Store\n"
    code += "with Store(Path(sys.argv[1])) as store: store.update_manifest({'other': 1})"
    with session.store() as first:
        first.update_manifest({"mine": 1})
        session.store().close()
        SessionDirectory.open(session.path)
        with child(code, str(session.database)) as other:
            assert other.wait(HANG_S) == 0
        assert first.manifest()["other"] == 1
        with child(code.replace("'other'", "'third'"), str(session.database)) as third:
            assert third.wait(HANG_S) == 0
        assert first.manifest()["third"] == 1
