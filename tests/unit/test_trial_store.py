"""The trials in the store: read by cursor, never half, checked as they are read, and there in a session of the first format too."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import EnvironmentFault, SessionError
from workbench.records.trial import OK, RUN_ERROR, UNMEASURED, Check, MeasureOptions, Trial
from workbench.records.tuning import FASTER, FINISHED, SEARCHING, STOPPED, WAITING, Final, TaskProgress
from workbench.session import SessionDirectory
from workbench.store import FORMAT_VERSION, Store, schema

HANG_S = 20.0
FINAL = Final(2, 100.0, 0.5, 50.0, 0.25, 2, 11, FASTER, "2.00x +- 0.01 as fast")


def trial(number: int, task: str = "conv2d-1", **changes: Any) -> Trial:
    values: dict[str, Any] = {
        "task": task,
        "number": number,
        "status": OK,
        "error": "",
        "fingerprint": f"{number:x}",
        "origin": "search" if number else "baseline",
        "conditions": "here",
        "times_us": (100.0 - number, 101.0 - number),
        "runs": 7,
        "search_s": 0.01,
        "build_s": 0.2,
        "run_s": 0.3,
        "check": Check(1e-6, None, 0, 64, 1e-4, 1e-4) if number else None,
        "best_us": 100.5 - number,
        "measured_at": 1.7e9 + number,
        "decisions": ("tile 1 4 7 2", "unroll 64"),
        "options": MeasureOptions(repeat=5),
    }
    return Trial(**{**values, **changes})


def progress(trials: int, task: str = "conv2d-1", **changes: Any) -> TaskProgress:
    return replace(TaskProgress(task, "conv2d", 2, trials=trials), **changes)


def spoil(path: Path, statement: str, *values: Any) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection, connection:
        connection.execute(statement, values)


def fill(store: Store, count: int, task: str = "conv2d-1", *, first: int = 0) -> list[int]:
    return [store.trials.add(trial(number, task), f"trace {number}" if number else "", progress(number + 1, task)) for number in range(first, count)]


def readers(store: Store) -> list[Callable[[], Any]]:
    """All ways to read the trial number 1."""
    return [
        lambda: store.trials.since(0),
        store.trials.all,
        lambda: store.trials.of_task("conv2d-1"),
        lambda: store.trials.with_traces("conv2d-1"),
        lambda: store.trials.trial("conv2d-1", 1),
    ]


def edited(values: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """A record with another value at ``$.outer.inner``."""
    *outer, name = path.removeprefix("$.").split(".")
    place = values
    for key in outer:
        place = place[key]
    place[name] = value
    return values


# what was written comes back


def test_trials_come_back_as_they_were_written(session: SessionDirectory) -> None:
    odd = [
        trial(1, status=RUN_ERROR, error="a\nb\x00c\ud800" + "x" * 20_000, times_us=(), check=None, best_us=None),
        trial(2, status=UNMEASURED, times_us=(), decisions=()),
    ]
    with session.store() as store:
        for item in (trial(0), *odd):
            store.trials.add(item, "[1, 2]", progress(item.number))
        assert store.trials.of_task("conv2d-1") == [trial(0), *odd]
        assert store.trials.trial("conv2d-1", 1) == odd[0]
        assert store.trials.trace("conv2d-1", 0) == "[1, 2]"
        assert store.trials.with_traces("conv2d-1") == [(item, "[1, 2]") for item in (trial(0), *odd)]
        assert (store.trials.trial("conv2d-1", 3), store.trials.trace("conv2d-1", 3), store.trials.of_task("x")) == (None, None, [])


def test_progress_is_the_last_that_was_told_in_the_order_in_which_searches_began(session: SessionDirectory) -> None:
    done = progress(9, state=FINISHED, errors={RUN_ERROR: 2}, first_errors={RUN_ERROR: "text"}, final=FINAL, budget_seconds=1.5)
    with session.store() as store:
        assert store.trials.progress() == []
        assert store.trials.progress_of("conv2d-1") is None
        store.trials.set_progress(progress(0))
        fill(store, 1, "dense-2")
        store.trials.set_progress(done)
        assert store.trials.progress() == [done, progress(1, "dense-2")]
        assert store.trials.progress_of("conv2d-1") == done


def test_trials_are_read_by_cursor_across_tasks(session: SessionDirectory) -> None:
    with session.store() as store:
        cursors = [*fill(store, 3), *fill(store, 2, "dense-2")]
        assert cursors == sorted(set(cursors))
        found = store.trials.since(0)
        assert [(stored.cursor, stored.trial.task, stored.trial.number) for stored in found] == list(
            zip(cursors, ["conv2d-1"] * 3 + ["dense-2"] * 2, [0, 1, 2, 0, 1], strict=True)
        )
        assert [stored.cursor for stored in store.trials.since(cursors[1])] == cursors[2:]
        assert [stored.cursor for stored in store.trials.since(cursors[1], limit=2)] == cursors[2:4]
        assert store.trials.since(cursors[-1]) == []
        assert store.trials.all() == found
        assert store.trials.since(10**9) == []


def test_the_last_cursor_parts_earlier_trials_from_later_ones(session: SessionDirectory) -> None:
    with session.store() as store:
        assert (store.trials.last(), store.trials.all(until=0)) == (0, [])
        fill(store, 3)
        last = store.trials.last()
        fill(store, 2, "dense-2")
        assert [(stored.trial.task, stored.trial.number) for stored in store.trials.all(until=last)] == [("conv2d-1", number) for number in range(3)]
        assert [stored.trial.task for stored in store.trials.since(last)] == ["dense-2"] * 2
        assert store.trials.all(until=store.trials.last()) == store.trials.all()


def test_counts_leave_out_what_was_not_measured(session: SessionDirectory) -> None:
    with session.store() as store:
        assert (store.trials.count(), store.trials.count(["conv2d-1"]), store.trials.count_recordable()) == (0, 0, 0)
        fill(store, 3)
        store.trials.add(trial(3, status=RUN_ERROR, times_us=()), "trace", progress(4))
        store.trials.add(trial(4, status=UNMEASURED, times_us=()), "trace", progress(4))
        fill(store, 2, "dense-2")
        assert (store.trials.count(), store.trials.count(["conv2d-1"]), store.trials.count(["dense-2", "nowhere"])) == (6, 4, 2)
        assert store.trials.count([]) == 0
        assert store.trials.count_recordable() == 3  # not the baselines, nor what failed


def test_a_number_is_given_once_and_a_trial_that_is_refused_leaves_the_progress(session: SessionDirectory) -> None:
    with session.store() as store:
        fill(store, 2)
        with pytest.raises(SessionError):
            store.trials.add(trial(1), "", progress(99))
        with pytest.raises(ValueError, match="JSON"):
            store.trials.add(trial(2, times_us=(float("nan"),)), "", progress(99))
        assert store.trials.progress() == [progress(2)]
        assert len(store.trials.of_task("conv2d-1")) == 2


def test_trials_survive_a_new_profile(session: SessionDirectory, sessions: Any) -> None:
    new = sessions.profile(["matmul"])
    with session.store() as store:
        fill(store, 2)
        store.write_profile(new, sessions.hashes(new), {"profile_id": "2"})
        assert len(store.trials.since(0)) == 2


# damage


@pytest.mark.parametrize(
    "text",
    ["{", "null", "[]", "5", "{}", "", '{"task": 1}', '{"number": NaN}', "[" * 100_000, b"\xff\xfe", None],
)
def test_a_record_that_makes_no_sense_is_a_damaged_session(session: SessionDirectory, text: Any) -> None:
    with session.store() as store:
        fill(store, 3)
    if text is None:
        spoil(session.database, "UPDATE trials SET record = json_set(record, '$.times_us', 'x') WHERE number = 1")
    else:
        spoil(session.database, "UPDATE trials SET record = ? WHERE number = 1", text)
    with session.store() as store:
        for read in readers(store):
            with pytest.raises(SessionError, match="damaged") as caught:
                read()
            assert len(caught.value.message) < 500
        assert store.trials.trial("conv2d-1", 2) == trial(2)
        assert store.trials.progress() == [progress(3)]


SENSELESS = {
    "a time of 0": ("$.times_us", [0, 99.0]),
    "a time below 0": ("$.times_us", [99.0, -1e-9]),
    "ok without times": ("$.times_us", []),
    "a best of 0": ("$.best_us", 0),
    "more runs than 64 bits": ("$.runs", 2**63),
    "fewer runs than none": ("$.runs", -1),
    "a number beyond 64 bits": ("$.number", 2**64),
    "another number": ("$.number", 2),
    "a number below 0": ("$.number", -1),
    "another task": ("$.task", "dense-2"),
    "an unknown status": ("$.status", "fine"),
    "a status with escapes": ("$.status", "\x1b[31m" * 100),
    "elements beyond 64 bits": ("$.check.elements", 10**30),
    "a device below 0": ("$.options.device", -1),
    "repeats beyond 64 bits": ("$.options.repeat", 10**200),
}


@pytest.mark.parametrize("change", SENSELESS.values(), ids=SENSELESS)
def test_a_trial_that_no_search_can_have_written_is_a_damaged_session(session: SessionDirectory, change: tuple[str, Any]) -> None:
    path, value = change
    with session.store() as store:
        fill(store, 3)
        text = json.dumps(edited(trial(1).to_dict(), path, value))
    spoil(session.database, "UPDATE trials SET record = ? WHERE number = 1", text)
    with session.store() as store:
        for read in readers(store):
            with pytest.raises(SessionError, match="damaged") as caught:
                read()
            assert str(caught.value).isprintable()
            assert len(caught.value.message) < 500
        assert store.trials.trial("conv2d-1", 2) == trial(2)


@pytest.mark.parametrize(("column", "value"), [("number", 7), ("number", "x"), ("task", "dense-2"), ("task", b"conv2d-1")])
def test_a_trial_in_another_place_than_its_own_is_a_damaged_session(session: SessionDirectory, column: str, value: Any) -> None:
    with session.store() as store:
        fill(store, 2)
    spoil(session.database, f"UPDATE trials SET {column} = ? WHERE number = 1", value)  # noqa: S608 - names of columns
    with session.store() as store, pytest.raises(SessionError, match="damaged"):
        store.trials.all()


SENSELESS_PROGRESS = {
    "a state": ("$.state", "happy"),
    "a task": ("$.task", "dense-2"),
    "a time of 0": ("$.best_us", 0.0),
    "a final time": ("$.final.winner_us", -1.0),
    "a verdict": ("$.final.verdict", "best"),
    "trials": ("$.trials", 2**63),
    "a winner": ("$.final.winner", -1),
    "errors": ("$.errors.run_error", -1),
}


@pytest.mark.parametrize("change", SENSELESS_PROGRESS.values(), ids=SENSELESS_PROGRESS)
def test_progress_that_no_search_can_have_written_is_a_damaged_session(session: SessionDirectory, change: tuple[str, Any]) -> None:
    path, value = change
    done = progress(9, state=FINISHED, errors={RUN_ERROR: 2}, final=FINAL, best_us=50.0, space_size=10**40)
    with session.store() as store:
        store.trials.set_progress(done)
        assert store.trials.progress() == [done]
    spoil(session.database, "UPDATE searches SET record = ?", json.dumps(edited(done.to_dict(), path, value)))
    with session.store() as store:
        for read in (store.trials.progress, lambda: store.trials.progress_of("conv2d-1")):
            with pytest.raises(SessionError, match="damaged"):
                read()


@pytest.mark.parametrize("text", ["{", "", b"\xff"])
def test_counting_trials_of_a_damaged_session_says_so(session: SessionDirectory, text: Any) -> None:
    with session.store() as store:
        fill(store, 3)
    spoil(session.database, "UPDATE trials SET record = ? WHERE number = 1", text)
    with session.store() as store:
        for count in (store.trials.count, store.trials.count_recordable):
            with pytest.raises(SessionError, match="damaged"):
                count()


@pytest.mark.parametrize("text", ["{", "[]", '{"task": "conv2d-1"}', '{"task": "conv2d-1", "name": "c", "weight": "2"}'])
def test_progress_that_makes_no_sense_is_a_damaged_session(session: SessionDirectory, text: str) -> None:
    with session.store() as store:
        fill(store, 1)
    spoil(session.database, "UPDATE searches SET record = ?", text)
    with session.store() as store:
        with pytest.raises(SessionError, match="damaged"):
            store.trials.progress()
        with pytest.raises(SessionError, match="damaged"):
            store.trials.progress_of("conv2d-1")


# formats


def make_first_format(path: Path, sessions: Any) -> Path:
    """A session as the first format had it: the same tables but those of trials."""
    directory = sessions.write(path, sessions.profile(["conv2d", "dense"]))
    spoil(directory.database, "DROP TABLE trials")
    spoil(directory.database, "DROP TABLE searches")
    spoil(directory.database, "DROP TABLE documents")
    spoil(directory.database, "PRAGMA user_version = 1")
    return Path(directory.database)


def version_of(path: Path) -> int:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return int(connection.execute("PRAGMA user_version").fetchone()[0])


def test_a_session_of_the_first_format_is_brought_to_this_one_with_all_that_it_holds(tmp_path: Path, sessions: Any) -> None:
    path = make_first_format(tmp_path / "s", sessions)
    assert version_of(path) == 1
    with Store(path) as store:
        assert store.profile() == sessions.profile(["conv2d", "dense"])
        assert (store.trials.since(0), store.trials.progress(), store.trials.count()) == ([], [], 0)
        fill(store, 2)
    assert version_of(path) == FORMAT_VERSION
    with Store(path) as store:
        assert store.trials.of_task("conv2d-1") == [trial(0), trial(1)]


def test_a_session_of_the_second_format_gets_documents_and_keeps_its_trials(session: SessionDirectory) -> None:
    with session.store() as store:
        fill(store, 2)
    spoil(session.database, "DROP TABLE documents")
    spoil(session.database, "PRAGMA user_version = 2")
    with session.store() as store:
        store.write_document("graph", {"nodes": []})
        store.write_document("graph", {"nodes": [1]})
        assert store.document("graph") == {"nodes": [1]}
        assert store.document("comparison") is None
        assert store.trials.of_task("conv2d-1") == [trial(0), trial(1)]
    assert version_of(session.database) == FORMAT_VERSION


def test_a_document_that_is_no_object_is_damaged(session: SessionDirectory) -> None:
    spoil(session.database, "INSERT INTO documents VALUES ('graph', '[1]')")
    with session.store() as store, pytest.raises(SessionError, match="document graph is no object"):
        store.document("graph")


def test_two_that_open_a_session_of_the_first_format_at_once_both_get_it(tmp_path: Path, sessions: Any) -> None:
    path = make_first_format(tmp_path / "s", sessions)
    code = "import sys; from pathlib import Path; from workbench.store import Store\n"
    code += "with Store(Path(sys.argv[1])) as store: print(store.trials.count())"
    children = [subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [(child.communicate(timeout=HANG_S)[0], child.returncode) for child in children] == [("0\n", 0)] * 3


def test_a_migration_that_fails_leaves_the_session_as_it_was(tmp_path: Path, sessions: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = make_first_format(tmp_path / "s", sessions)
    monkeypatch.setitem(schema._ADDED_BY, FORMAT_VERSION, ("CREATE TABLE rows (x)",))  # noqa: SLF001 - a fault put in
    with pytest.raises(SessionError):
        Store(path)
    monkeypatch.undo()
    assert version_of(path) == 1
    with Store(path) as store:
        assert store.profile() is not None


def test_on_a_read_only_medium_a_session_of_the_first_format_reads_as_one_without_trials(small_medium: Any, sessions: Any) -> None:
    path = make_first_format(small_medium.path / "s", sessions)
    small_medium.make_read_only()
    with Store(path) as store:
        assert store.profile() == sessions.profile(["conv2d", "dense"])
        assert (store.trials.since(0), store.trials.progress(), store.trials.progress_of("x"), store.trials.of_task("x")) == ([], [], None, [])
        assert (store.trials.trial("x", 0), store.trials.trace("x", 0), store.trials.with_traces("x")) == (None, None, [])
        assert (store.trials.count(), store.trials.count(["x"]), store.trials.count_recordable(), store.document("x")) == (0, 0, 0, None)
        with pytest.raises(EnvironmentFault):
            store.trials.add(trial(0), "", progress(1))
        with pytest.raises(EnvironmentFault):
            store.trials.set_progress(progress(1))


def test_a_session_of_a_newer_format_is_refused_and_stays_as_it_is(session: SessionDirectory) -> None:
    spoil(session.database, f"PRAGMA user_version = {FORMAT_VERSION + 1}")
    with pytest.raises(SessionError, match="newer workbench") as caught:
        session.store()
    assert "Upgrade" in caught.value.remedy
    assert version_of(session.database) == FORMAT_VERSION + 1


# processes and disks

READER = """
import sys
from pathlib import Path
from workbench.store import Store
seen, cursor = [], 0
with Store(Path(sys.argv[1])) as store:
    print("ready", flush=True)
    while len(seen) < int(sys.argv[2]):
        found = store.trials.since(cursor, limit=7)
        for stored in found:
            seen.append(stored.trial.number)
            cursor = stored.cursor
        progress = store.trials.progress_of("conv2d-1")
        known = len(store.trials.of_task("conv2d-1"))
        assert (progress.trials if progress else 0) <= known, (progress.trials, known)  # stored together, and read one after the other
assert seen == list(range(len(seen))), seen
"""


def test_two_processes_read_every_trial_once_while_another_writes(session: SessionDirectory) -> None:
    count = 60
    command = [sys.executable, "-c", READER, str(session.database), str(count)]
    readers = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    try:
        for reader in readers:
            assert reader.stdout is not None
            assert reader.stdout.readline() == "ready\n"
        with session.store() as store:
            fill(store, count)
        assert [reader.wait(HANG_S) for reader in readers] == [0, 0]
    finally:
        for reader in readers:
            reader.kill()
            reader.communicate()


WRITER = """
import sys
from dataclasses import replace
from pathlib import Path
from workbench.store import Store
with Store(Path(sys.argv[1])) as store:
    trial, progress = store.trials.of_task("conv2d-1")[0], store.trials.progress_of("conv2d-1")
    for number in range(1, 100_000):
        store.trials.add(replace(trial, number=number), "trace", replace(progress, trials=number + 1))
        print(number, flush=True)
"""


def test_what_a_killed_writer_had_told_is_in_the_store(session: SessionDirectory) -> None:
    with session.store() as store:
        fill(store, 1)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, str(session.database)], stdout=subprocess.PIPE, text=True)
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(20)]
    writer.kill()
    rest = writer.stdout.read().split()
    writer.wait(HANG_S)
    writer.stdout.close()
    last = int(rest[-1]) if rest else told[-1]
    with session.store() as store:
        numbers = [item.number for item in store.trials.of_task("conv2d-1")]
        assert numbers == list(range(len(numbers)))
        assert last <= numbers[-1] <= last + 1
        assert store.trials.progress_of("conv2d-1") == progress(len(numbers))


def test_on_a_full_disk_a_trial_is_refused_and_the_others_can_be_read(small_medium: Any, sessions: Any) -> None:
    directory = sessions.write(small_medium.path / "s", sessions.profile(["conv2d"]))
    with directory.store() as store:
        fill(store, 3)
        small_medium.fill()
        with pytest.raises(EnvironmentFault):
            fill(store, 1000, first=3)
        kept = store.trials.of_task("conv2d-1")
        assert [item.number for item in kept] == list(range(len(kept)))


def test_a_search_whose_worker_is_gone_has_ended_and_says_why(session: SessionDirectory) -> None:
    with session.store() as store:
        for task, state in (("a", WAITING), ("b", SEARCHING), ("c", FINISHED)):
            store.trials.set_progress(progress(3, task, state=state, stopped_because="it is flat" if state == FINISHED else ""))
        store.end_search("killed")
        found = [(item.task, item.state, item.stopped_because, item.trials) for item in store.trials.progress()]
        assert found == [("a", STOPPED, "killed", 3), ("b", STOPPED, "killed", 3), ("c", FINISHED, "it is flat", 3)]
        assert store.manifest()["last_stop"] == {"command": "tune", "cause": "killed"}
        store.end_search("killed again")
        assert store.manifest()["last_stop"] == {"command": "tune", "cause": "killed"}


def test_the_end_of_a_search_whose_progress_is_damaged_keeps_nobody_from_the_rest(session: SessionDirectory) -> None:
    with session.store() as store:
        store.trials.set_progress(progress(3, state=SEARCHING))
        spoil(session.database, "UPDATE searches SET record = '{}'")
        store.end_search("killed")
        assert "last_stop" not in store.manifest()
