"""The backend kernel: a worker in a Jupyter kernel, which outlives its front as long as somebody may want its search; every fault is a real one."""

from __future__ import annotations

import json
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
from workbench.errors import EnvironmentFault, InputError, WorkerDied
from workbench.records.command import DONE, FAILED, FINAL_STATES
from workbench.session import SessionDirectory

pytest.importorskip("jupyter_client", reason="the extra notebook is not installed")
pytest.importorskip("ipykernel", reason="the extra notebook is not installed")

from workbench.kernel.jupyter_kernel import JupyterKernel, kernel_names

HANG_S = 120
SIZES = (64, 64, 64)


def wait_until(holds: Callable[[], bool], seconds: float = HANG_S) -> float:
    """How long it took until something was so."""
    started = time.monotonic()
    while not holds():
        assert time.monotonic() - started < seconds
        time.sleep(0.01)
    return time.monotonic() - started


@pytest.fixture(autouse=True)
def _own_jupyter_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONFIG", "DATA", "RUNTIME"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / name.lower()))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A profiled matrix product."""
    path = tmp_path_factory.mktemp("profiled") / "s"
    with workbench.open("matmul", args=SIZES, target="cpu", session=path, threads=1) as session:
        session.profile(repeat=2)
    return path


@pytest.fixture
def session(profiled: Path, tmp_path: Path) -> Iterator[workbench.Session]:
    """The same in a session of its own, whose worker will live in a kernel."""
    shutil.copytree(profiled, tmp_path / "s")
    with workbench.open(tmp_path / "s") as opened:
        opened.use_host(JupyterKernel())
        yield opened
    end_worker(opened.directory)


def end_worker(directory: SessionDirectory) -> None:
    """What a test left behind."""
    with directory.store() as store:
        worker = store.worker()
    if worker is not None and directory.is_served() and psutil.pid_exists(worker.pid):
        os.killpg(worker.pid, signal.SIGKILL)
        wait_until(lambda: not directory.is_served())


def begin_search(session: workbench.Session, **budget: Any) -> workbench.Search:
    session.profile().select(top=1)
    search = session.tune(resume=True, **(budget or {"trials": 400}))
    wait_until(lambda: bool(search.trials()[0]))
    return search


def front(code: str, folder: Path) -> subprocess.Popen[str]:
    """A front of its own: a process that uses the session."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    preamble = "import workbench\nfrom workbench.kernel.jupyter_kernel import JupyterKernel\n"
    return subprocess.Popen(
        [sys.executable, "-c", preamble + code],
        cwd=folder,
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


SEARCHING_FRONT = """
session = workbench.open("s")
session.use_host(JupyterKernel(lease_s={lease_s}))
session.attend()
session.profile().select(top=1)
search = session.tune(trials=4000, resume=True)
while not search.trials()[0]: pass
print(session.worker_pid, flush=True)
input()
"""


def test_profile_search_and_texts_work_as_in_a_plain_worker(session: workbench.Session) -> None:
    assert session.profile(refresh=True, repeat=2).record.total_us is not None
    pid = session.worker_pid
    assert pid is not None
    assert "ipykernel" in " ".join(psutil.Process(pid).cmdline())
    assert "JPY_PARENT_PID" not in psutil.Process(pid).environ()
    search = begin_search(session, trials=4)
    (task,) = search.wait()
    assert task.trials == 4
    assert session.inspect(task.task, "schedule")
    assert session.worker_pid == pid, "one worker did all of it"
    assert psutil.Process(pid).environ()["TVM_NUM_THREADS"] == "1"


def test_a_warm_worker_measures_its_first_trial_within_seconds(session: workbench.Session) -> None:
    session.warm_up()
    started = time.monotonic()
    begin_search(session).cancel()
    assert time.monotonic() - started < 30, "docs/benchmarks.md has what an idle machine takes"


def test_no_file_tells_others_how_to_talk_to_the_kernel(session: workbench.Session, tmp_path: Path) -> None:
    session.warm_up()
    assert list((tmp_path / "runtime").glob("kernel-*.json")) == []


def test_what_the_worker_prints_goes_into_the_log_and_not_into_the_front(session: workbench.Session, capfd: pytest.CaptureFixture[str]) -> None:
    session.warm_up()
    assert capfd.readouterr() == ("", "")
    assert session.directory.log.exists()


def test_a_worker_that_is_killed_is_noticed_within_a_second_and_the_search_goes_on_from_what_is_stored(session: workbench.Session) -> None:
    search = begin_search(session)
    known = len(search.trials()[0])
    pid = session.worker_pid
    assert pid is not None
    os.killpg(pid, signal.SIGKILL)
    assert wait_until(lambda: not session.directory.is_served()) < 1.0
    with pytest.raises(WorkerDied, match="SIGKILL"):
        search.wait()
    again = begin_search(session, trials=known + 3)
    (task,) = again.wait()
    assert task.trials == known + 3
    assert session.worker_pid not in (None, pid)


def test_closing_the_session_ends_an_idle_worker(session: workbench.Session) -> None:
    session.attend()
    session.warm_up()
    pid = session.worker_pid
    assert pid is not None
    session.close()
    assert not session.directory.is_served()
    assert not psutil.pid_exists(pid)


def test_a_search_outlives_its_front_however_it_ends_and_is_found_again(session: workbench.Session, tmp_path: Path) -> None:
    process = front(SEARCHING_FRONT.format(lease_s=3600), tmp_path)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    process.kill()
    process.communicate()
    before = len(session_trials(session))
    wait_until(lambda: len(session_trials(session)) > before + 1)
    assert psutil.pid_exists(pid)
    with workbench.open(tmp_path / "s") as reopened:
        reopened.attend()
        search = reopened.running_search()
        assert search is not None
        assert search.request.budget.trials == 4000
        search.pause()
        search.resume()
        search.stop()
        (task,) = search.wait()
        assert task.final is not None, "stopped in order: a winner was named"
    assert reopened.running_search() is None


def session_trials(session: workbench.Session) -> list[Any]:
    with session.directory.store() as store:
        return store.trials.all()


def test_closing_the_front_in_order_leaves_its_search_running(session: workbench.Session, tmp_path: Path) -> None:
    process = front(SEARCHING_FRONT.format(lease_s=3600), tmp_path)
    assert process.stdout is not None
    pid = int(process.stdout.readline())
    _, errors = process.communicate("\n", timeout=HANG_S)
    assert process.returncode == 0, errors
    before = len(session_trials(session))
    wait_until(lambda: len(session_trials(session)) > before + 1)
    assert psutil.pid_exists(pid)


def test_a_search_that_nobody_looks_at_ends_with_its_lease_and_says_so(session: workbench.Session, tmp_path: Path) -> None:
    process = front(SEARCHING_FRONT.format(lease_s=0.5), tmp_path)
    assert process.stdout is not None
    int(process.stdout.readline())
    process.kill()
    process.communicate()

    def has_ended() -> bool:
        with session.directory.store() as store:
            command = store.last_command("tune")
            return command is not None and command.state in FINAL_STATES

    wait_until(has_ended)
    assert "nobody looked at it" in session.manifest()["last_stop"]["cause"]


def test_a_kernel_that_does_not_exist_is_bad_input_and_leaves_no_command(session: workbench.Session) -> None:
    session.use_host(JupyterKernel("no-such-kernel"))
    with pytest.raises(InputError, match="no Jupyter kernel no-such-kernel") as caught:
        session.warm_up()
    assert "kernelspec list" in caught.value.remedy
    with session.directory.store() as store:
        assert store.open_commands() == ()


def write_kernelspec(tmp_path: Path, name: str, argv: list[str]) -> None:
    folder = tmp_path / "data" / "kernels" / name
    folder.mkdir(parents=True)
    spec = {"argv": argv, "display_name": name, "language": "python"}
    (folder / "kernel.json").write_text(json.dumps(spec), encoding="utf-8")


def test_another_kernelspec_hosts_the_worker_and_is_offered(session: workbench.Session, tmp_path: Path) -> None:
    write_kernelspec(tmp_path, "other", [sys.executable, "-X", "dev", "-m", "ipykernel_launcher", "-f", "{connection_file}"])
    assert kernel_names()["other"] == "other"
    session.use_host(JupyterKernel("other"))
    session.warm_up()
    pid = session.worker_pid
    assert pid is not None
    assert "dev" in psutil.Process(pid).cmdline()


def test_a_kernel_without_the_workbench_says_what_to_install(session: workbench.Session, tmp_path: Path) -> None:
    session.close()
    code = "import sys; sys.modules['workbench'] = None; from ipykernel import kernelapp; kernelapp.launch_new_instance()"
    write_kernelspec(tmp_path, "bare", [sys.executable, "-c", code, "-f", "{connection_file}"])
    session.use_host(JupyterKernel("bare"))
    with pytest.raises(EnvironmentFault, match="kernel bare cannot run the workbench") as caught:
        session.warm_up()
    assert "Install tvm-workbench" in caught.value.remedy
    assert not session.directory.is_served()


def test_a_kernel_that_dies_at_once_is_reported_with_its_last_words(session: workbench.Session, tmp_path: Path) -> None:
    write_kernelspec(tmp_path, "broken", [sys.executable, "-c", "import sys; sys.exit('no such thing')", "-f", "{connection_file}"])
    session.use_host(JupyterKernel("broken"))
    with pytest.raises(WorkerDied, match="no such thing"):
        session.warm_up()


def test_a_function_of_the_users_own_process_reaches_the_kernel(tmp_path: Path) -> None:
    def doubled(n: int) -> list[Any]:
        from tvm import te  # noqa: PLC0415 - runs in the worker

        x = te.placeholder((n,), name="x")
        return [x, te.compute((n,), lambda i: x[i] * 2.0, name="y")]

    with workbench.open(doubled, args=(8,), session=tmp_path / "f", threads=1) as session:
        session.use_host(JupyterKernel())
        assert len(session.profile(repeat=2).record.kernel_rows) == 1
    end_worker(session.directory)


def test_two_fronts_share_the_worker_of_the_one(session: workbench.Session, tmp_path: Path) -> None:
    search = begin_search(session)
    with workbench.open(tmp_path / "s") as other:
        found = other.running_search()
        assert found is not None
        found.pause()
        with session.directory.store() as store:
            command = store.last_command("pause")
        assert command is not None
        assert command.state == DONE
        found.resume()
        found.cancel()
    assert not search.is_running
    with session.directory.store() as store:
        last = store.last_command("tune")
    assert last is not None
    assert last.state != FAILED
