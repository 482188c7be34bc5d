"""A search that goes on where another one ended: nothing known is measured again, and the counters are those of before."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.search_fakes import RIGHT, WRONG, FakeTaskSearch, Rig, open_records, trace_of
from workbench.api.winner import winner
from workbench.engines.search_protocol import Artifact, Candidate, Experience, Failed, Measured
from workbench.errors import Interrupted, SelectionError, SessionError
from workbench.records.trial import BUILD_ERROR, OK, RUN_ERROR, MeasureOptions
from workbench.records.tuning import FINISHED, STOPPED
from workbench.search.recorder import RECORD_ERROR, Recorder
from workbench.search.task_run import TaskRun
from workbench.tuning_database import RECORD_FILE, read_database


def cancel_at(rig: Rig, fingerprint: str) -> None:
    rig.bench.on_measure = lambda measured: rig.cancel() if measured == fingerprint else None


def records(rig: Rig) -> list[tuple[int, float | None]]:
    """Tile and time of each record, in the order of the file."""
    return [(record.trace[1][0][1][0], record.time_us) for record in read_database(rig.directory.path / "records").records]


@pytest.mark.parametrize("exclusive", [True, False])
def test_a_cancelled_search_goes_on_with_its_counters_best_baseline_and_curve(rig: Rig, exclusive: bool) -> None:
    rig.exclusive = exclusive
    rig.bench.builds["conv2d/2"] = Failed(BUILD_ERROR, "first failure")
    rig.bench.times |= {"conv2d/1": 40.0, "conv2d/3": Failed(RUN_ERROR, "another")}
    cancel_at(rig, "conv2d/6")
    with pytest.raises(Interrupted):
        rig.search("conv2d", per_task=12)
    before, curve = rig.stored("conv2d"), [trial.best_us for trial in rig.trials("conv2d")]
    seen: list[Any] = []
    rig.bench.on_measure = lambda fingerprint: seen.append(rig.stored("conv2d"))
    after = rig.search("conv2d", per_task=12, resume=True)["tasks"]["conv2d"]
    assert (seen[0].trials, seen[0].baseline_us, seen[0].best, seen[0].best_us) == (before.trials, 100.0, 1, 40.0)
    assert (seen[0].errors, seen[0].first_errors) == (before.errors, before.first_errors)
    assert seen[0].seconds >= before.seconds
    trials = rig.trials("conv2d")
    assert [trial.best_us for trial in trials][: len(curve)] == curve
    assert [trial.number for trial in trials] == list(range(12))
    assert (after.trials, after.best, after.final.winner) == (12, 1, 1)


@pytest.mark.parametrize("exclusive", [True, False])
def test_nothing_that_is_known_is_measured_again(rig: Rig, exclusive: bool) -> None:
    rig.exclusive = exclusive
    rig.bench.times["conv2d/2"] = Failed(RUN_ERROR, "no")
    cancel_at(rig, "conv2d/5")
    with pytest.raises(Interrupted):
        rig.search("conv2d", per_task=12)
    known = {trial.fingerprint for trial in rig.trials("conv2d")}
    rig.bench.on_measure = lambda fingerprint: None
    rig.search("conv2d", per_task=12, resume=True)
    assert not known.intersection(rig.bench.said("measure"))
    assert len({trial.fingerprint for trial in rig.trials("conv2d")}) == 12


def test_tasks_whose_turn_did_not_come_keep_what_they_had(rig: Rig) -> None:
    rig.bench.times |= {"dense/1": 5.0, "dense/2": Failed(RUN_ERROR, "no")}
    before = rig.search("conv2d", "dense", per_task=4)["tasks"]["dense"]
    rig.bench.faults["prepare", "conv2d"] = Interrupted("The work was stopped.")
    with pytest.raises(Interrupted):
        rig.search("conv2d", "dense", per_task=30, resume=True)
    after = rig.stored("dense")
    assert (after.trials, after.best, after.best_us, after.errors, after.final) == (4, 1, 5.0, before.errors, before.final)
    assert after.state == STOPPED


def test_under_other_conditions_there_is_a_new_baseline_and_old_times_do_not_count(rig: Rig) -> None:
    rig.bench.times["conv2d/1"] = 10.0
    rig.search("conv2d", per_task=4)
    rig.conditions = "elsewhere"
    rig.bench.times |= {"conv2d/untuned": 200.0, "conv2d/1": 150.0}
    task = rig.search("conv2d", per_task=7, resume=True)["tasks"]["conv2d"]
    trials = rig.trials("conv2d")
    assert [trial.fingerprint for trial in trials[4:]] == ["conv2d/untuned", "conv2d/1", "conv2d/2"]
    assert [trial.best_us for trial in trials[4:]] == [200.0, 150.0, 99.875]
    assert (task.trials, task.baseline_us, task.best, task.best_us, task.conditions) == (7, 200.0, 6, 99.875, "elsewhere")
    assert task.final.best == 6
    assert rig.bench.said("compare") == ["conv2d/untuned conv2d/2 conv2d/1"]


def test_times_of_other_conditions_are_said_to_be_there_where_nothing_is_measured_under_the_present_ones(rig: Rig) -> None:
    rig.bench.times |= {"conv2d/1": 10.0, "conv2d/2": Failed(RUN_ERROR, "no")}
    rig.search("conv2d", trials=4)
    rig.conditions = "elsewhere"
    rig.differences = lambda digest, options: (f"{digest} instead of elsewhere",)
    task = rig.search("conv2d", trials=4, resume=True)["tasks"]["conv2d"]
    assert (task.trials, task.baseline_us, task.best, task.best_us, task.final) == (4, None, None, None, None)
    assert (task.other_trials, task.elsewhere) == (3, "measured under other conditions (here instead of elsewhere)")
    assert rig.stored("conv2d") == task
    with pytest.raises(SelectionError, match=r"measured under other conditions \(here instead of elsewhere\)"):
        winner([task], "conv2d")


def test_a_baseline_that_stands_alone_says_where_the_other_trials_are(rig: Rig) -> None:
    rig.bench.times["conv2d/1"] = 10.0
    rig.search("conv2d", per_task=4)
    rig.conditions = "elsewhere"
    task = rig.search("conv2d", per_task=4, resume=True)["tasks"]["conv2d"]
    assert (task.trials, task.baseline_us, task.best) == (5, 100.0, 4)
    assert task.final.why == "no candidate was measured beside it; earlier ones were measured under other conditions"


def test_who_comes_back_to_the_first_conditions_has_its_times_again(rig: Rig) -> None:
    rig.bench.times["conv2d/1"] = 10.0
    before = rig.search("conv2d", trials=4)["tasks"]["conv2d"]
    rig.conditions = "elsewhere"
    rig.search("conv2d", trials=4, resume=True)
    rig.conditions = "here"
    after = rig.search("conv2d", trials=4, resume=True)["tasks"]["conv2d"]
    assert (after.best, after.best_us, after.baseline_us, after.final.winner) == (1, 10.0, 100.0, 1)
    assert (after.other_trials, before.final.winner) == (0, 1)
    assert rig.bench.said("measure") == []


def test_a_finished_search_that_is_resumed_does_nothing_and_keeps_its_winner(rig: Rig) -> None:
    before = rig.search("conv2d", "dense", per_task=5)["tasks"]
    again = rig.search("conv2d", "dense", per_task=5, resume=True)
    assert again["tasks"]["conv2d"].final == before["conv2d"].final
    assert again["tasks"]["conv2d"].state == FINISHED
    assert (again["trials"], rig.bench.log) == (10, ["close"])


def test_a_winner_stays_when_nothing_new_is_measured(rig: Rig) -> None:
    rig.bench.sizes["conv2d"] = 3
    before = rig.search("conv2d", per_task=50)["tasks"]["conv2d"]
    after = rig.search("conv2d", per_task=60, resume=True)["tasks"]["conv2d"]
    assert (after.final, after.stopped_because) == (before.final, "the whole search space was tried")
    assert rig.bench.said("compare") == []
    assert rig.bench.said("measure") == []


def test_new_trials_make_a_new_final_with_old_finalists_built_again(rig: Rig) -> None:
    rig.bench.times |= {"conv2d/1": 10.0, "conv2d/2": 11.0}
    rig.search("conv2d", per_task=4)
    task = rig.search("conv2d", per_task=6, resume=True, finalists=2)["tasks"]["conv2d"]
    assert rig.bench.said("compare") == ["conv2d/untuned conv2d/1 conv2d/2"]
    assert task.final.winner == 1


def test_a_finalist_that_cannot_be_built_again_takes_no_part(rig: Rig) -> None:
    rig.bench.times["conv2d/1"] = 10.0
    rig.search("conv2d", per_task=4)
    rig.bench.faults["rebuild", "conv2d"] = RuntimeError("a recorded schedule does not fit")
    task = rig.search("conv2d", per_task=6, resume=True, finalists=2)["tasks"]["conv2d"]
    assert rig.bench.said("compare") == ["conv2d/untuned conv2d/5"]
    assert task.final.winner == 5


def test_a_finalist_whose_trace_gives_another_schedule_takes_no_part(rig: Rig) -> None:
    rig.bench.times |= {"conv2d/1": 10.0, "conv2d/2": 11.0}
    rig.search("conv2d", per_task=4)
    with contextlib.closing(sqlite3.connect(rig.directory.database, isolation_level=None)) as sql:
        sql.execute("UPDATE trials SET record = json_set(record, '$.fingerprint', 'conv2d/77') WHERE number = 1")
    task = rig.search("conv2d", per_task=6, resume=True, finalists=2)["tasks"]["conv2d"]
    assert rig.bench.said("compare") == ["conv2d/untuned conv2d/2"]
    assert task.final.winner == 2


def test_a_finalist_built_again_is_checked_and_one_that_is_wrong_takes_no_part(rig: Rig) -> None:
    rig.bench.times |= {"conv2d/1": 10.0, "conv2d/2": 11.0, "conv2d/3": 12.0}
    rig.search("conv2d", per_task=4)
    rig.bench.times |= {"conv2d/1": Measured((), 0, WRONG, 0.1), "conv2d/2": Failed(RUN_ERROR, "SIGSEGV")}
    task = rig.search("conv2d", per_task=6, resume=True, finalists=3)["tasks"]["conv2d"]
    assert rig.bench.said("check") == ["conv2d/1", "conv2d/2", "conv2d/3"]
    assert rig.bench.said("compare") == ["conv2d/untuned conv2d/3"]
    assert task.final.winner == 3


def test_winners_that_an_earlier_search_did_not_name_are_named_though_no_budget_is_left(rig: Rig) -> None:
    rig.bench.faults["compare", "conv2d"] = Interrupted("The work was stopped.")
    with pytest.raises(Interrupted):
        rig.search("conv2d", "dense", trials=9)
    rig.bench.faults.clear()
    result = rig.search("conv2d", "dense", trials=9, resume=True)
    assert (result["trials"], rig.bench.said("measure")) == (9, [])
    assert all(task.final is not None for task in result["tasks"].values())


def test_an_error_while_restoring_ends_that_task_only(rig: Rig) -> None:
    rig.search("conv2d", "dense", per_task=3)
    rig.bench.faults["restore", "conv2d"] = ValueError("the trace names no block")
    tasks = rig.search("conv2d", "dense", per_task=5, resume=True)["tasks"]
    assert tasks["conv2d"].stopped_because == "ValueError: the trace names no block"
    assert "Traceback" in tasks["conv2d"].first_errors["task"]
    assert (tasks["conv2d"].trials, tasks["conv2d"].best_us is None, tasks["dense"].trials) == (3, False, 5)


def test_an_error_of_the_last_search_is_forgotten_by_the_next(rig: Rig) -> None:
    rig.bench.faults["propose", "conv2d"] = ValueError("not now")
    assert "task" in rig.search("conv2d", per_task=3)["tasks"]["conv2d"].first_errors
    rig.bench.faults.clear()
    assert rig.search("conv2d", per_task=3, resume=True)["tasks"]["conv2d"].first_errors == {}


def test_a_task_that_is_flat_already_ends_without_another_trial(rig: Rig) -> None:
    rig.bench.times |= {f"conv2d/{number}": 99.5 for number in range(1, 1000)}
    rig.search("conv2d", flat_after=10)
    result = rig.search("conv2d", flat_after=10, resume=True)
    assert result["trials"] == 11
    assert result["tasks"]["conv2d"].stopped_because == "no gain of 1% in the last 10 trials"


# records


def test_trials_that_a_dead_worker_did_not_record_are_recorded_by_the_next_search(rig: Rig) -> None:
    rig.bench.times["conv2d/2"] = Failed(RUN_ERROR, "no")
    rig.search("conv2d", "dense", per_task=5)
    path = rig.directory.path / "records" / RECORD_FILE
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:30])
    rig.search("conv2d", "dense", per_task=6, resume=True)
    found = records(rig)
    assert len(found) == 9
    assert sorted(tile for tile, _ in found) == [1, 1, 2, 3, 3, 4, 4, 5, 5]


def test_a_trial_is_recorded_once_though_its_task_is_taken_up_twice(rig: Rig) -> None:
    rig.search("conv2d", per_task=5)
    folder = rig.directory.path / "records"
    (folder / RECORD_FILE).unlink()
    task = rig.tasks()["conv2d"]
    with rig.directory.store() as store:
        known = [Experience(trial, trace) for trial, trace in store.trials.with_traces(task.task)]
    run = TaskRun(task, rig.stored("conv2d"), search=FakeTaskSearch(rig.bench, "conv2d"))
    run.restore(known, rig.conditions)
    recorder = Recorder(rig.directory.store, folder, open_records, conditions=rig.conditions, options=MeasureOptions())
    recorder.catch_up(run, known[:3])
    new = recorder.record(
        run, Candidate(trace_of(9), "conv2d/9", "search", b""), Artifact(rig.scratch / "9.so", 0.1), Measured((5.0,), 1, RIGHT, 0.1)
    )
    recorder.catch_up(run, [*known, Experience(new, trace_of(9))])
    recorder.close()
    assert sorted(tile for tile, _ in records(rig)) == [1, 2, 3, 4, 9]
    assert len((folder / RECORD_FILE).read_bytes().splitlines()) == 5


def test_trials_without_times_are_never_recorded(rig: Rig) -> None:
    rig.search("conv2d", dry_run=4)
    rig.search("conv2d", per_task=3)
    (rig.directory.path / "records" / RECORD_FILE).unlink()
    rig.search("conv2d", per_task=4, resume=True)
    assert sorted(tile for tile, _ in records(rig)) == [1, 2, 3]


def test_records_that_are_complete_are_not_read(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    rig.search("conv2d", per_task=5)
    read: list[Path] = []
    monkeypatch.setattr("workbench.engines.relax.records.read_database", read.append)
    rig.search("conv2d", per_task=8, resume=True)
    assert read == []
    assert len(records(rig)) == 7


def a_file(folder: Path, stack: contextlib.ExitStack) -> None:
    folder.write_text("")


def linked_files(folder: Path, stack: contextlib.ExitStack) -> None:
    folder.mkdir()
    (folder / RECORD_FILE).symlink_to(folder / "elsewhere")


def held_by_another(folder: Path, stack: contextlib.ExitStack) -> None:
    folder.mkdir()
    descriptor = os.open(folder, os.O_RDONLY)
    stack.callback(os.close, descriptor)
    fcntl.flock(descriptor, fcntl.LOCK_EX)


@pytest.mark.parametrize("spoil", [a_file, linked_files, held_by_another])
def test_the_sessions_own_records_that_cannot_be_used_are_to_be_moved_away(rig: Rig, spoil: Callable[[Path, contextlib.ExitStack], None]) -> None:
    folder = rig.directory.path / "records"
    with contextlib.ExitStack() as stack:
        spoil(folder, stack)
        with pytest.raises(SessionError, match="session's own records cannot be used") as refused:
            rig.search("conv2d", per_task=5)
    assert "move it away: the next search writes it again" in refused.value.remedy
    assert "Give a folder" not in str(refused.value)
    folder.rename(folder.with_name("away"))
    rig.search("conv2d", per_task=5)
    assert len(records(rig)) == 4


def test_records_that_were_moved_away_are_written_again(rig: Rig) -> None:
    rig.search("conv2d", per_task=5)
    (rig.directory.path / "records").rename(rig.directory.path / "away")
    rig.search("conv2d", per_task=6, resume=True)
    assert sorted(tile for tile, _ in records(rig)) == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("trace", ["{", "[[], []]x", json.dumps([[], [["a\x01"]]]), "[NaN]"])
def test_a_trial_that_stock_tvm_could_not_read_stays_in_the_store_and_is_told_of(rig: Rig, trace: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = trace_of

    def strange(number: int) -> str:
        return trace if number == 2 else real(number)

    monkeypatch.setattr("tests.unit.search_fakes.trace_of", strange)
    task = rig.search("conv2d", per_task=4)["tasks"]["conv2d"]
    assert [trial.status for trial in rig.trials("conv2d")] == [OK] * 4
    assert task.first_errors[RECORD_ERROR].startswith("Trial 2: A record cannot be kept in the database")
    assert task.first_errors[RECORD_ERROR].endswith("The session keeps it.")
    assert [tile for tile, _ in records(rig)] == [1, 3]


def test_a_session_whose_progress_is_gone_is_taken_up_from_its_trials(rig: Rig) -> None:
    rig.bench.times["conv2d/1"] = 10.0
    rig.search("conv2d", per_task=4)
    with rig.directory.store() as store:
        store.trials.set_progress(replace(rig.stored("conv2d"), trials=0, best=None, best_us=None, baseline_us=None, final=None))
    task = rig.search("conv2d", per_task=5, resume=True)["tasks"]["conv2d"]
    assert (task.trials, task.best, task.best_us, task.baseline_us) == (5, 1, 10.0, 100.0)
