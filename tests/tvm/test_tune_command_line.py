"""`workbench tune` for real, on small kernels with small budgets: exit codes, JSON, resuming, stopping, and what a killed command leaves."""

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

from workbench.session import SessionDirectory
from workbench.store import Store

HANG_S = 120
STOP_S = 5.0
KILLED_S = 3.0
ENDLESS = ("--per-task", "100000", "--flat-after", "0")
PROMISED = {"task", "name", "baseline_us", "best_us", "trials", "errors", "verified", "stopped_because"}

Answer = subprocess.CompletedProcess[str]
Call = Callable[..., Answer]


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "workbench.cli.main", *arguments]


def environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}


@pytest.fixture
def call(tmp_path: Path) -> Call:
    """Runs the command line in a process of its own, in a folder of its own."""

    def run(*arguments: str) -> Answer:
        return subprocess.run(
            command(*arguments),
            cwd=tmp_path,
            env=environment(),
            capture_output=True,
            text=True,
            timeout=HANG_S,
            check=False,
            stdin=subprocess.DEVNULL,
        )

    return run


@pytest.fixture(scope="module")
def profiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session with a profile of a small matrix product, and nothing else."""
    folder = tmp_path_factory.mktemp("profiled")
    arguments = ("profile", "matmul", "--args", "[64, 64, 64]", "--target", "cpu", "--threads", "2", "--repeat", "2", "--session", "s", "-q")
    subprocess.run(command(*arguments), cwd=folder, env=environment(), check=True, capture_output=True, timeout=HANG_S)
    return folder / "s"


@pytest.fixture(scope="module")
def ticked(profiled: Path) -> Path:
    """The same session, ready to be tuned."""
    folder = profiled.with_name("ticked")
    shutil.copytree(profiled, folder)
    subprocess.run(command("select", "--session", str(folder), "--top", "1"), env=environment(), check=True, capture_output=True, timeout=HANG_S)
    return folder


@pytest.fixture
def session(ticked: Path, tmp_path: Path) -> SessionDirectory:
    """A copy of it."""
    shutil.copytree(ticked, tmp_path / "s")
    return SessionDirectory.open(tmp_path / "s")


@pytest.fixture
def begin(session: SessionDirectory, tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts a search and returns while it measures."""
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command("tune", "--session", "s", *arguments), cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        started.append(process)
        with session.store() as store:
            wait_for(lambda: store.trials.count() > 3 or process.poll() is not None, HANG_S)
        assert process.poll() is None, process.communicate()
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def wait_for(condition: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {seconds:g} s"
        time.sleep(0.02)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Those that still run; a zombie does not."""
    return [process for process in processes if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]


def trials_of(session: SessionDirectory) -> int:
    with Store(session.database) as store:
        return store.trials.count()


def is_one_sentence_with_a_remedy(answer: Answer) -> bool:
    said = [line for line in answer.stderr.splitlines() if not line.startswith(" ")]  # progress is indented
    return len(said) == 1 and said[0].startswith("workbench: ") and said[0].isprintable() and said[0].rstrip(".").count(". ") >= 1


def test_a_search_gives_json_that_a_second_one_goes_on_from(session: SessionDirectory, call: Call) -> None:
    answer = call("tune", "--session", "s", "--per-task", "10", "--json", "-")
    assert answer.returncode == 0, answer.stderr
    values = json.loads(answer.stdout)
    (task,) = values["tasks"]
    assert set(task) >= PROMISED
    assert (values["trials"], task["trials"], task["verified"]) == (10, 10, True)
    assert task["best_us"] <= task["baseline_us"]
    assert 0 < values["seconds"] < HANG_S
    assert [line for line in answer.stderr.splitlines() if not line.startswith(" ")] == []

    refused = call("tune", "--session", "s", "--per-task", "14")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert is_one_sentence_with_a_remedy(refused), refused.stderr
    assert "--resume" in refused.stderr
    assert trials_of(session) == 10

    more = call("tune", "--session", "s", "--per-task", "14", "--resume", "--json", "more.json", "-q")
    assert (more.returncode, more.stderr) == (0, "")
    assert json.loads((session.path.parent / "more.json").read_text())["trials"] == trials_of(session) == 14
    assert "forecast of the whole model" in more.stdout
    listed = json.loads(call("tasks", "--session", "s", "--json", "-").stdout)["tasks"]
    assert [(item["state"], item["trials"], item["best_us"] is not None) for item in listed] == [("finished", 14, True)]


def test_without_a_selection_nothing_is_searched(profiled: Path, tmp_path: Path, call: Call) -> None:
    shutil.copytree(profiled, tmp_path / "s")
    answer = call("tune", "--session", "s")
    assert (answer.returncode, answer.stdout) == (2, "")
    assert is_one_sentence_with_a_remedy(answer), answer.stderr
    assert "workbench select --share 0.8" in answer.stderr


def test_seconds_end_a_search_in_time_with_a_verdict(session: SessionDirectory, call: Call) -> None:
    answer = call("tune", "--session", "s", "--seconds", "8", "--flat-after", "0", "--json", "-")
    assert answer.returncode == 0, answer.stderr
    values = json.loads(answer.stdout)
    assert values["stopped_because"] == "the budget of 8 s is used up"
    assert values["tasks"][0]["verdict"] is not None
    assert 8.0 <= values["seconds"] < 60.0
    assert values["trials"] == trials_of(session) > 1


def test_a_dry_run_builds_and_measures_nothing(session: SessionDirectory, call: Call) -> None:
    answer = call("tune", "--session", "s", "--dry-run", "3", "--json", "-")
    assert answer.returncode == 0, answer.stderr
    (task,) = json.loads(answer.stdout)["tasks"]
    assert (task["baseline_us"], task["best_us"], task["winner"]) == (None, None, None)
    counts = task["dry_run"]
    assert (counts["candidates"], counts["built"], counts["checked"], counts["unchecked"], counts["failures"]) == (3, 3, 3, 0, {})
    assert counts["rejected"] >= 0
    with session.store() as store:
        assert [stored.trial.status for stored in store.trials.since(0)] == ["unmeasured"] * 4
    again = call("tune", "--session", "s", "--dry-run", "2")
    assert "2 candidates, none measured: 2 built, 2 checked and right" in again.stdout


def test_what_the_worker_refuses_is_one_sentence(session: SessionDirectory, call: Call) -> None:
    for options, named in ((("--space", "nonsense\x1b[31m"), "nonsense"), (("--transfer", "nowhere"), "nowhere")):
        answer = call("tune", "--session", "s", "--per-task", "2", *options)
        assert (answer.returncode, answer.stdout) == (2, ""), answer.stderr
        assert is_one_sentence_with_a_remedy(answer), answer.stderr
        assert named in answer.stderr
    assert trials_of(session) == 0


def test_without_a_device_nothing_can_be_measured(tmp_path: Path, call: Call) -> None:
    profiled = call("profile", "matmul", "--args", "[64, 64, 64]", "--target", "cuda:sm_90", "--session", "c", "--json", "-")
    if json.loads(profiled.stdout)["measured"]:
        pytest.skip("there is a CUDA device here")
    assert call("select", "--session", "c", "--top", "1").returncode == 0
    answer = call("tune", "--session", "c", "--per-task", "2")
    assert (answer.returncode, answer.stdout) == (3, "")
    assert is_one_sentence_with_a_remedy(answer), answer.stderr
    assert "no CUDA device here" in answer.stderr
    assert "--dry-run" in answer.stderr
    dry = call("tune", "--session", "c", "--dry-run", "2", "--json", "-")
    assert dry.returncode == 0, dry.stderr
    (task,) = json.loads(dry.stdout)["tasks"]
    assert task["dry_run"]["checked"] >= 1
    assert task["best_us"] is None


def test_control_c_ends_a_search_in_time_and_keeps_what_was_measured(
    session: SessionDirectory, begin: Callable[..., subprocess.Popen[str]], call: Call
) -> None:
    process = begin(*ENDLESS)
    family = psutil.Process(process.pid).children(recursive=True)
    assert family
    stored = trials_of(session)
    process.send_signal(signal.SIGINT)
    started = time.monotonic()
    out, err = process.communicate(timeout=HANG_S)
    assert time.monotonic() - started < STOP_S
    assert process.returncode == 130
    assert out.startswith("Task ")
    assert "no verdict: the best was not measured again" in out
    assert "stopped by the user" in out
    assert "go on with workbench tune --session s --resume" in err
    assert is_one_sentence_with_a_remedy(subprocess.CompletedProcess([], 130, out, err)), err
    assert "--resume" in err
    assert alive(family) == []
    assert not session.is_served()
    kept = trials_of(session)
    assert kept >= stored
    more = call("tune", "--session", "s", "--per-task", str(kept + 2), "--resume", "--json", "-")
    assert more.returncode == 0, more.stderr
    assert json.loads(more.stdout)["trials"] == kept + 2


SCHEDULE = """
def tile(sch):
    i, j, k = sch.get_loops(sch.get_sblock("matmul"))
    i_outer, i_inner = sch.split(i, sch.sample_perfect_tile(i, n=2, max_innermost_factor=16))
    sch.reorder(i_outer, j, k, i_inner)


def broken(sch):
    sch.get_sblock("no_such_block")
"""


def test_a_schedule_function_is_the_space_and_is_to_be_given_again(session: SessionDirectory, call: Call, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(SCHEDULE)
    failed = call("tune", "--session", "s", "--schedule", "mine:broken", "--trust", "--per-task", "4", "-q")
    assert (failed.returncode, failed.stdout) == (2, ""), failed.stderr
    assert f"The schedule function broken failed in {tmp_path / 'mine.py'}, line 9: ScheduleError: " in failed.stderr
    assert "no_such_block" in failed.stderr
    mine = ("--schedule", "mine:tile", "--trust")
    first = call("tune", "--session", "s", *mine, "--per-task", "3", "--json", "-", "-q")
    assert first.returncode == 0, first.stderr
    assert json.loads(first.stdout)["tasks"][0]["space_size"] == 5
    refused = call("tune", "--session", "s", "--resume", "--per-task", "5", "-q")
    assert refused.returncode == 2
    assert is_one_sentence_with_a_remedy(refused), refused.stderr
    assert "--schedule mine:tile --trust" in refused.stderr
    again = call("tune", "--session", "s", "--resume", "--per-task", "5", *mine, "--json", "-", "-q")
    assert json.loads(again.stdout)["trials"] == trials_of(session) == 5
    other = call("tune", "--session", "s", "--resume", "--per-task", "6", "--space", "default", "--json", "-", "-q")
    assert json.loads(other.stdout)["tasks"][0]["space_size"] > 5
    with session.store() as store:
        assert [stored.trial.origin for stored in store.trials.all()] == ["baseline", "user", "user", "user", "user", "search"]


def test_a_transfer_tells_what_each_source_gave(session: SessionDirectory, ticked: Path, call: Call, tmp_path: Path) -> None:
    assert call("tune", "--session", "s", "--per-task", "5", "-q").returncode == 0
    shutil.copytree(session.path, tmp_path / "first")
    shutil.rmtree(session.path)
    shutil.copytree(tmp_path / "first", tmp_path / "empty" / "s")
    for name in ("database_workload.json", "database_tuning_record.json"):
        (tmp_path / "empty" / "s" / "records" / name).write_text("")
    shutil.copytree(ticked, session.path)
    answer = call("tune", "--session", "s", "--per-task", "6", "--transfer", "first", "empty/s", "--json", "out.json", "-q")
    assert answer.returncode == 0, answer.stderr
    first, empty = json.loads((tmp_path / "out.json").read_text())["transfer"]
    four, none = (dict.fromkeys(("records", "for_target", "schedules"), count) | {"bad_lines": 0, "workloads": [], "why": ""} for count in (4, 0))
    assert first == {"source": str(tmp_path / "first"), **four}
    assert empty == {"source": str(tmp_path / "empty" / "s"), **none}
    assert f"from {tmp_path / 'first'}: 4 schedules taken; 4 of 4 records for this target" in answer.stdout
    with session.store() as store:
        assert [stored.trial.origin for stored in store.trials.all()] == ["baseline", *["transfer"] * 4, "search"]


def test_a_search_that_waits_for_another_fronts_says_so_and_shows_its_own_alone(
    session: SessionDirectory, begin: Callable[..., subprocess.Popen[str]], call: Call, tmp_path: Path
) -> None:
    first = begin(*ENDLESS)
    second = subprocess.Popen(
        command("tune", "--session", "s", "--resume", "--dry-run", "2", "--json", "-"),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert second.stderr is not None
    line = second.stderr.readline()
    assert "waiting for the search of another front to end" in line
    first.send_signal(signal.SIGINT)
    first.communicate(timeout=HANG_S)
    out, err = second.communicate(timeout=HANG_S)
    assert second.returncode == 0, err
    assert json.loads(out)["tasks"][0]["dry_run"]["candidates"] == 2
    told = [text.partition(" s  ")[2] for text in (line + err).splitlines()]
    assert [words for words in told if words.startswith("matmul: ")] == [
        "matmul: begins",
        "matmul: finished after 2 trials: 2 candidates: 2 built, 2 checked, none measured",
    ]


def test_a_killed_command_takes_its_worker_and_builders_along(session: SessionDirectory, begin: Callable[..., subprocess.Popen[str]]) -> None:
    process = begin(*ENDLESS)
    family = psutil.Process(process.pid).children(recursive=True)
    assert len(family) > 1
    process.kill()
    process.communicate()
    wait_for(lambda: not alive(family), KILLED_S)
    stored = trials_of(session)
    assert stored > 3
    assert numbers(session) == list(range(stored))


def numbers(session: SessionDirectory) -> list[Any]:
    with session.store() as store:
        return [stored.trial.number for stored in store.trials.since(0)]
