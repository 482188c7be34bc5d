"""A search under fire: its processes are killed at random moments, its disk fills up, and it goes on, or stops with nothing lost."""

from __future__ import annotations

import contextlib
import os
import random
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
from workbench.errors import EnvironmentFault, TargetError, WorkerDied
from workbench.records.trial import BUILD_ERROR, OK, RUN_ERROR, MeasureOptions
from workbench.records.tuning import STOPPED
from workbench.session import SessionDirectory
from workbench.tuning_database import read_database

HANG_S = 120
QUICK = MeasureOptions(repeat=2, min_repeat_ms=0.5)
KILLS_OF_HELPERS = 40
KILLS_OF_WORKERS = 10


@pytest.fixture
def session(tmp_path: Path) -> Iterator[workbench.Session]:
    with workbench.open("matmul", args=[64, 64, 64], target="cpu", threads=2, repeat=1, session=tmp_path / "s") as opened:
        opened.profile().select(top=1)
        yield opened


def wait_until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + HANG_S
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def descendants(pid: int) -> list[psutil.Process]:
    with contextlib.suppress(psutil.NoSuchProcess):
        return psutil.Process(pid).children(recursive=True)
    return []


def worker_pid(session: workbench.Session) -> int:
    with session.directory.store() as store:
        state = store.worker()
    assert state is not None
    return state.pid


def counted(session: workbench.Session) -> int:
    """Trials so far; it is asked often, beside a search on the same processors, so none is read."""
    with session.directory.store() as store:
        return store.trials.last()


def check_store(directory: SessionDirectory) -> int:
    """Assert that nothing contradicts anything else; returns the number of trials."""
    with directory.store() as store:
        trials = [stored.trial for stored in store.trials.since(0, limit=100_000)]
        [progress] = store.trials.progress()
    assert [trial.number for trial in trials] == list(range(len(trials)))
    assert progress.trials == len(trials)
    assert len({trial.fingerprint for trial in trials}) == len(trials)
    times = [trial.time_us for trial in trials if trial.time_us is not None]
    assert progress.best_us == (min(times) if times else None)
    assert sum(progress.errors.values()) == sum(trial.status != OK for trial in trials)
    return len(trials)


def test_builders_and_measurers_that_are_killed_cost_one_trial_each_and_the_search_goes_on(session: workbench.Session) -> None:
    dice = random.Random(1)
    search = session.tune(trials=10_000, measure=QUICK, flat_after=None)
    wait_until(lambda: counted(session) > 0)
    worker = worker_pid(session)
    killed = 0
    while killed < KILLS_OF_HELPERS:
        reached = counted(session)
        victims = [process for process in descendants(worker) if process.status() != psutil.STATUS_ZOMBIE]
        if victims:
            with contextlib.suppress(psutil.NoSuchProcess):
                dice.choice(victims).kill()
                killed += 1
        wanted = reached + dice.randint(1, 3)
        wait_until(lambda wanted=wanted: counted(session) >= wanted)  # type: ignore[misc]
        assert search.is_running
    helpers = descendants(worker_pid(session))
    search.stop()
    [progress] = search.wait(HANG_S)
    assert progress.stopped_because == "stopped by the user"
    session.close()
    gone, alive = psutil.wait_procs(helpers, timeout=HANG_S)
    assert not alive, gone
    assert progress.final is not None
    assert set(progress.errors) <= {BUILD_ERROR, RUN_ERROR}
    assert sum(progress.errors.values()) <= 3 * KILLS_OF_HELPERS  # who kills the forking process kills its children, two builders and a measurer
    assert check_store(session.directory) >= KILLS_OF_HELPERS
    assert len(read_database(session.path / "records").records) == sum(trial.status == OK and trial.number > 0 for trial in search.trials()[0])


def test_a_killed_worker_loses_what_is_in_flight_at_most_and_the_search_resumes(session: workbench.Session) -> None:
    dice = random.Random(2)
    known = 0
    for round_ in range(KILLS_OF_WORKERS):
        search = session.tune(trials=10_000, measure=QUICK, flat_after=None, resume=round_ > 0)
        wanted = known + dice.randint(1, 12)
        wait_until(lambda wanted=wanted: counted(session) >= wanted)  # type: ignore[misc]
        worker = worker_pid(session)
        family = descendants(worker)
        seen = counted(session)
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(WorkerDied):
            search.wait(HANG_S)
        gone, alive = psutil.wait_procs(family, timeout=3)
        assert not alive, gone
        reached = check_store(session.directory)
        assert reached >= seen
        with session.directory.store() as store:
            assert {item.state for item in store.trials.progress()} == {STOPPED}
            assert "SIGKILL" in store.manifest()["last_stop"]["cause"]
        known = reached
    search = session.tune(trials=known + 8, measure=QUICK, flat_after=None, resume=True)
    [progress] = search.wait(HANG_S)
    assert progress.trials == known + 8 == check_store(session.directory)
    assert progress.final is not None
    assert not list(session.path.glob("artifacts/build-*"))


@pytest.fixture
def small_medium(tmp_path: Path) -> Iterator[Medium]:
    """Some megabytes that can be filled or made read-only."""
    with mounted(tmp_path / "medium", megabytes=6) as medium:
        yield medium


def opened_on(medium: Path) -> Any:
    return workbench.open("matmul", args=[64, 64, 64], target="cpu", threads=2, repeat=1, session=medium / "s")


def test_a_full_disk_stops_the_search_with_a_message_and_what_was_measured_stays(small_medium: Medium) -> None:
    with opened_on(small_medium.path) as session:
        session.profile().select(top=1)
        search = session.tune(trials=10_000, measure=QUICK, flat_after=None)
        wait_until(lambda: counted(session) > 4)
        filler = small_medium.fill()
        with pytest.raises(EnvironmentFault, match=r"full|No space"):
            search.wait(HANG_S)
        filler.unlink()
        reached = check_store(session.directory)
        assert reached > 4
        [progress] = session.tune(trials=reached + 4, measure=QUICK, flat_after=None, resume=True).wait(HANG_S)
        assert progress.trials == reached + 4


def test_a_read_only_session_is_not_searched_but_can_be_read(small_medium: Medium) -> None:
    with opened_on(small_medium.path) as session:
        session.profile().select(top=1)
        [progress] = session.tune(trials=4, measure=QUICK).wait(HANG_S)
    small_medium.make_read_only()
    with workbench.open(small_medium.path / "s") as session:
        with pytest.raises(EnvironmentFault, match=r"cannot be written|read-only"):
            session.tune(trials=8, measure=QUICK, resume=True).wait(HANG_S)
        with session.directory.store() as store:
            assert store.trials.progress() == [progress]
            assert store.trials.count() == 4


def test_a_second_worker_on_the_session_is_refused_with_the_owners_pid(session: workbench.Session) -> None:
    search = session.tune(trials=10_000, measure=QUICK, flat_after=None)
    wait_until(lambda: counted(session) > 0)
    command = [sys.executable, "-P", "-m", "workbench.worker", str(session.path), "--first-command", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 75
    assert f"process {worker_pid(session)}" in done.stderr
    search.cancel()


def test_a_lost_folder_of_built_candidates_is_no_fault_of_the_schedules(session: workbench.Session) -> None:
    search = session.tune(trials=10_000, measure=QUICK, flat_after=None)
    wait_until(lambda: counted(session) > 0)
    shutil.rmtree(session.path / "artifacts")
    with pytest.raises(EnvironmentFault, match="has gone"):
        search.wait(HANG_S)
    assert all(trial.status == OK for trial in search.trials()[0])


def test_a_dry_run_needs_no_leave_to_go_on_since_it_measures_nothing(session: workbench.Session) -> None:
    session.tune(trials=3, measure=QUICK).wait(HANG_S)
    [progress] = session.tune(dry_run=2).wait(HANG_S)
    assert progress.trials == 3


def test_a_processor_has_one_device(session: workbench.Session) -> None:
    with pytest.raises(TargetError, match="no device 7"):
        session.tune(trials=3, measure=MeasureOptions(device=7)).wait(HANG_S)


def test_a_second_fronts_search_begins_when_the_first_front_has_ended(session: workbench.Session) -> None:
    first = session.tune(trials=10_000, measure=QUICK, flat_after=None)
    wait_until(lambda: counted(session) > 0)
    with workbench.open(session.path) as other:
        second = other.tune(trials=10_000, seconds=1.0, measure=QUICK, flat_after=None, resume=True)
        first.cancel()
        session.close()
        [progress] = second.wait(HANG_S)
    assert progress.stopped_because == "the budget of 1 s is used up"
