"""Pipes in the place of a session's files: whoever reads one waits for ever, so each is an error, told at once."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from workbench.regular_files import NotRegularError, open_regular, read_text, reader
from workbench.session import SessionDirectory

HANG_S = 30
HEAD = """
import sys
from pathlib import Path
from workbench.errors import WorkbenchError
from workbench.kernel.worker_log import log_tail
from workbench.session import SessionDirectory, latest_session
from workbench.store import Store
path = Path(sys.argv[1])
def told(act):
    try:
        act()
    except (WorkbenchError, OSError) as error:
        print(type(error).__name__, error)
    else:
        print("no error")
"""


def run(code: str, path: Path) -> list[str]:
    """What a process of its own says; one that waits for a pipe fails the test."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", HEAD + code, str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def put_pipe(path: Path) -> None:
    path.unlink(missing_ok=True)
    os.mkfifo(path)


@pytest.mark.parametrize("name", ["session.sqlite", "session.sqlite-wal", "session.sqlite-shm", "session.sqlite-journal"])
def test_a_pipe_in_the_place_of_a_file_of_the_database_is_named(name: str, session: SessionDirectory) -> None:
    put_pipe(session.path / name)
    code = "told(lambda: SessionDirectory.open(path))\ntold(lambda: SessionDirectory.create(path))\nprint(latest_session(path.parent) == path)"
    opened, created, latest = run(code, session.path)
    assert opened.startswith("SessionError ")
    assert name in opened
    assert created.startswith("SessionError ")
    assert latest == "True"
    assert (session.path / name).is_fifo()


def test_a_pipe_in_the_place_of_the_workers_lock_or_log_is_named(session: SessionDirectory) -> None:
    for name in ("worker.lock", "worker.log"):
        put_pipe(session.path / name)
    code = """
s = SessionDirectory.open(path)
told(s.is_served)
told(lambda: s.lock().__enter__())
told(s.open_log)
print(repr(log_tail(s.log)))
"""
    served, locked, logged, tail = run(code, session.path)
    assert served.startswith("SessionError ")
    assert "worker.lock is not a regular file" in served
    assert all(line.startswith("NotRegularError ") for line in (locked, logged))
    assert tail == "''"


def test_a_pipe_in_the_place_of_an_archive_or_of_what_is_kept_beside_the_session_is_named(tmp_path: Path) -> None:
    for name in ("archive.zip", "tuned/verify.json", "library/target/kernel/winners.json", "changed/model.so"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        put_pipe(tmp_path / name)
    code = """
from workbench.applying.writing import _digest_or_nothing, read_verdict
from workbench.exchange import is_archive, unpack_session
from workbench.library.shelf import _read
print(is_archive(path / "archive.zip"))
told(lambda: unpack_session(path / "archive.zip", path / "s"))
told(lambda: read_verdict(path / "tuned"))
told(lambda: _read(path / "library/target/kernel/winners.json"))
print(repr(_digest_or_nothing(path / "changed/model.so")))
"""
    archive, unpacked, verdict, winners, digest = run(code, tmp_path)
    assert (archive, digest) == ("False", "''")
    assert unpacked.startswith("InputError ")
    assert verdict.startswith("NotRegularError ")
    assert winners.startswith("EnvironmentFault ")


@pytest.mark.parametrize("kind", ["pipe", "folder", "socket", "device"])
@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR | os.O_CREAT])
def test_only_a_regular_file_is_opened(kind: str, flags: int, tmp_path: Path) -> None:
    path = tmp_path / "x"
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    elif kind == "socket":
        os.mknod(path, 0o600 | 0o140000)
    else:
        path = Path("/dev/null")
    with pytest.raises(NotRegularError, match="not a regular file"):
        open_regular(path, flags)


@pytest.mark.parametrize("act", [read_text, lambda path: reader(path).close()])
def test_a_file_behind_a_link_can_be_read_and_a_pipe_behind_one_cannot(act: Callable[[Path], object], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("a\r\nü", newline="")
    (tmp_path / "link").symlink_to("file")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "pipe link").symlink_to("pipe")
    act(tmp_path / "link")
    assert read_text(tmp_path / "link") == "a\nü"
    with pytest.raises(NotRegularError):
        act(tmp_path / "pipe link")
    with pytest.raises(FileNotFoundError):
        act(tmp_path / "nothing")
    with pytest.raises(OSError, match="symbolic"):
        open_regular(tmp_path / "link")
