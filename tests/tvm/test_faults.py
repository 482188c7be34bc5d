"""Faults that are really injected: killed and crashing workers, Ctrl-C, fronts that vanish, disks that are full or read-only."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

import workbench
from tests.medium import Medium, mounted
from workbench.errors import EnvironmentFault, WorkerDied
from workbench.session import SessionDirectory, is_session

HANG_S = 120
FOREVER = ["--repeat", "1000000000"]
MATMUL = ["profile", "matmul", "--args", "[16, 16, 16]", "--target", "cpu", "--session", "s"]

Answer = subprocess.CompletedProcess[str]


def environment_with(**variables: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **variables}


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., Answer]:
    """Runs the command line in a process of its own."""

    def run(*arguments: str, **variables: str) -> Answer:
        command = [sys.executable, "-m", "workbench.cli.main", *arguments]
        return subprocess.run(command, cwd=tmp_path, env=environment_with(**variables), capture_output=True, text=True, timeout=HANG_S, check=False)

    return run


@pytest.fixture
def small_medium(tmp_path: Path) -> Iterator[Medium]:
    """Two megabytes that can be filled or made read-only."""
    with mounted(tmp_path / "medium", megabytes=2) as medium:
        yield medium


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def is_measuring(path: Path, *, since: int = 0) -> bool:
    """True once the worker of a session has come as far as measuring, after the event `since`."""
    if not is_session(path):
        return False
    try:
        with SessionDirectory(path).store() as store:
            return any(str(event.data.get("phase")).startswith("measure") for event in store.events_since(since))
    except workbench.WorkbenchError:
        return False  # it is just being made


def processes_of(path: Path) -> list[psutil.Process]:
    """All workers that serve a session, and what they started."""
    found = []
    for process in psutil.process_iter():
        try:
            if str(path) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE:
                found += [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            continue
    return found


def said(answer: Answer) -> str:
    lines = [line for line in answer.stderr.splitlines() if not line.startswith(" ")]
    assert len(lines) == 1, answer.stderr
    assert lines[0].startswith("workbench: ")
    return lines[0]


def test_a_worker_that_is_killed_is_named_and_the_next_call_starts_another(tmp_path: Path) -> None:
    with workbench.open("matmul", args=(16, 16, 16), session=tmp_path / "s") as session:
        workers = []

        def kill(event: Any) -> None:
            if str(event.data.get("phase")).startswith("measure") and not workers:
                workers.append(session._worker.pid)  # noqa: SLF001 - which process it is matters to tests alone
                os.kill(workers[0], signal.SIGKILL)

        with pytest.raises(WorkerDied, match=r"SIGKILL"):
            session.profile(repeat=10**9, on_event=kill)
        record = session.profile(repeat=2).record
        assert session._worker.pid not in workers  # noqa: SLF001
        workers.clear()
        with pytest.raises(WorkerDied, match=r"SIGKILL"):
            session.profile(repeat=10**9, on_event=kill)
        assert session.profile().record == record
        assert session.debug_outputs([0])[0][0].shape == (16, 16)
    assert [path.name for path in (tmp_path / "s").glob("program*")] == ["program"]


@pytest.mark.parametrize("existing", [False, True])
def test_ctrl_c_ends_all_processes_and_leaves_nothing_half_done(existing: bool, call: Callable[..., Answer], tmp_path: Path) -> None:
    place = tmp_path / "s"
    if existing:
        assert call(*MATMUL, "--repeat", "2", "-q").returncode == 0
    since = 0
    if existing:
        with SessionDirectory(place).store() as store:
            since = store.last_event()
    before = call("tasks", "--session", "s", "--json", "-").stdout
    command = ["env", "--default-signal=INT", sys.executable, "-m", "workbench.cli.main", *MATMUL, *FOREVER]  # tests may run where it is ignored
    with subprocess.Popen(command, cwd=tmp_path, env=environment_with(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as front:
        wait_until(lambda: is_measuring(place, since=since))
        workers = processes_of(place)
        front.send_signal(signal.SIGINT)
        out, err = front.communicate(timeout=HANG_S)
    assert front.returncode == 130
    assert out == ""
    assert err.splitlines()[-1] == "workbench: Stopped. What was finished before is saved."
    assert "Traceback" not in err
    assert workers
    assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in workers)
    assert processes_of(place) == []
    assert place.exists() == existing
    assert call("tasks", "--session", "s", "--json", "-").stdout == before
    if existing:
        assert sorted(path.name for path in place.iterdir()) == ["program", "session.sqlite", "worker.lock", "worker.log"]


def test_a_front_that_is_killed_leaves_a_worker_that_finishes_and_ends(call: Callable[..., Answer], tmp_path: Path) -> None:
    place = tmp_path / "s"
    command = [sys.executable, "-m", "workbench.cli.main", *MATMUL, "--repeat", "50"]
    with subprocess.Popen(command, cwd=tmp_path, env=environment_with(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as front:
        wait_until(lambda: is_measuring(place))
        front.kill()
        front.wait(HANG_S)
    wait_until(lambda: not processes_of(place))
    assert not SessionDirectory(place).is_served()
    assert call("tasks", "--session", "s").returncode == 0
    with workbench.open(place) as session:
        assert session.debug_outputs([0])[0][0].shape == (16, 16)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV while it loaded TVM"),
        ("raise ImportError('libtvm.so: undefined symbol: x')", "undefined symbol"),
        ("raise RuntimeError('no\\n\\x1b[31mTVM')", "TVM cannot be loaded"),
        ("import os\nos._exit(7)", "exit code 7"),
        ("import sys\nsys.exit('gone')", "TVM"),
    ],
)
def test_a_tvm_that_cannot_be_loaded_is_one_sentence_that_names_the_doctor(
    code: str, words: str, call: Callable[..., Answer], tmp_path: Path
) -> None:
    (tmp_path / "fake" / "tvm").mkdir(parents=True)
    (tmp_path / "fake" / "tvm" / "__init__.py").write_text(code)
    answer = call(*MATMUL, PYTHONPATH=os.pathsep.join([str(tmp_path / "fake"), *sys.path]))
    assert answer.returncode == 3, answer.stderr
    assert words in said(answer)
    assert "workbench doctor" in said(answer)
    assert not (tmp_path / "s").exists()
    assert "worker.log" not in said(answer)
    if "SIGSEGV" in words:
        full = call(*MATMUL, "-v", PYTHONPATH=os.pathsep.join([str(tmp_path / "fake"), *sys.path])).stderr
        assert "Fatal Python error: Segmentation fault" in full  # from the log, which is gone with the session


def test_a_pipe_in_the_place_of_a_file_of_the_session_is_one_sentence(call: Callable[..., Answer], tmp_path: Path) -> None:
    assert call(*MATMUL, "--repeat", "2", "-q").returncode == 0
    assert call("select", "--top", "1", "--session", "s", "-q").returncode == 0
    names = ["session.sqlite", "session.sqlite-journal", "worker.lock", "worker.log"]
    names += ["program/calls.json", "program/params.bin", "records/database_tuning_record.json"]
    for name in names:
        copy = tmp_path / name.replace("/", "-")
        shutil.copytree(tmp_path / "s", copy)
        (copy / name).parent.mkdir(exist_ok=True)
        (copy / name).unlink(missing_ok=True)
        os.mkfifo(copy / name)
        answer = call("tune", "--trials", "1", "--session", str(copy), "-q")
        assert answer.returncode in (2, 3), (name, answer.stderr)
        assert Path(name).name in said(answer) or "program" in said(answer), name
    again = call("profile", str(tmp_path / "program-params.bin"), "--repeat", "2", "-q")  # which replaces the program
    assert again.returncode == 0, again.stderr


def test_a_full_disk_is_one_sentence_and_leaves_nothing_or_the_old_profile(small_medium: Medium, call: Callable[..., Answer]) -> None:
    place = str(small_medium.path / "s")
    arguments = ["profile", "matmul", "--repeat", "2", "--session", place, "--args"]
    assert call(*arguments, "[16, 16, 16]").returncode == 0
    before = call("tasks", "--session", place, "--json", "-").stdout
    with (small_medium.path / "ballast").open("wb", buffering=0) as file:
        left = os.statvfs(small_medium.path)
        file.write(bytes(left.f_bavail * left.f_frsize - 60_000))
    answer = call(*arguments, "[16, 16, 16]", "--seed", "1")
    assert answer.returncode == 3, answer.stderr
    assert "--session DIR" in said(answer) or "free space" in said(answer)
    assert call("tasks", "--session", place, "--json", "-").stdout == before
    shutil.rmtree(place)
    for size in (400_000, 250_000, 100_000):  # full in the worker, or in the front already
        with (small_medium.path / "ballast").open("wb", buffering=0) as file:
            file.write(bytes(2 * 2**20 - size))
        fresh = call("profile", "matmul", "--args", "[256, 256, 256]", "--session", str(small_medium.path / "other" / "s"))
        assert fresh.returncode == 3, fresh.stderr
        said(fresh)
        assert not (small_medium.path / "other").exists()


def test_a_read_only_session_can_be_read_and_not_profiled(small_medium: Medium, call: Callable[..., Answer]) -> None:
    place = str(small_medium.path / "s")
    assert call("profile", "matmul", "--args", "[16, 16, 16]", "--repeat", "2", "--session", place).returncode == 0
    before = call("tasks", "--session", place, "--json", "-").stdout
    small_medium.make_read_only()
    assert call("tasks", "--session", place, "--json", "-").stdout == before
    for arguments in (["profile", "matmul", "--args", "[16, 16, 16]"], ["select", "--top", "1"], ["profile", place]):
        answer = call(*arguments, *([] if place in arguments else ["--session", place]))
        assert answer.returncode == 3, answer.stderr
        said(answer)
    with workbench.open(place) as session:
        assert len(session.profile().rows) >= 1
        with pytest.raises(EnvironmentFault):
            session.debug_outputs([0])
