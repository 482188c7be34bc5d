"""The store: round trips, what a new profile does to the selection, events, and the life of commands."""

from __future__ import annotations

import contextlib
import sqlite3
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from workbench.errors import Interrupted, SessionError
from workbench.records.command import ABANDONED, CANCELLED, DONE, FAILED, PENDING, RUNNING, Failure
from workbench.records.selection import SelectedTask, Selection
from workbench.session import SessionDirectory


def selection_of(*tasks: str, rows: tuple[int, ...] = ()) -> Selection:
    return Selection("net", "cpu", tuple(SelectedTask(task, task.rpartition("-")[0]) for task in tasks), rows, "by hand")


def spoil(directory: SessionDirectory, statement: str, *values: Any) -> None:
    """Change the database behind the store's back."""
    with contextlib.closing(sqlite3.connect(directory.database)) as connection, connection:
        connection.execute(statement, values)


# what was written comes back


def test_a_profile_comes_back_as_it_was_written(session: SessionDirectory, sessions: Any) -> None:
    with session.store() as store:
        assert store.profile() == sessions.profile(["conv2d", "dense", "conv2d", "softmax"])
        assert store.request() == sessions.request


def test_a_profile_without_times_comes_back_too(tmp_path: Path, sessions: Any) -> None:
    profile = sessions.profile(["conv2d"])
    unmeasured = replace(
        profile, unmeasured="no CUDA device here", total_us=None, rows_us=None, rows=tuple(replace(r, time_us=None) for r in profile.rows)
    )
    with sessions.write(tmp_path / "s", unmeasured).store() as store:
        assert store.profile() == unmeasured


def test_links_tie_rows_to_kernels_hashes_and_tasks(session: SessionDirectory) -> None:
    with contextlib.closing(sqlite3.connect(session.database)) as connection:
        links = connection.execute("SELECT row, kernel, structural_hash FROM links ORDER BY row").fetchall()
    assert links == [(index, name, f"hash of {name}") for index, name in enumerate(["conv2d", "dense", "conv2d", "softmax"])]


def test_manifest_entries_are_set_one_by_one(session: SessionDirectory) -> None:
    with session.store() as store:
        store.update_manifest({"state": "busy", "more": {"list": [1, None, "ü\ud800"]}})
        manifest = store.manifest()
    assert manifest["state"] == "busy"
    assert manifest["more"] == {"list": [1, None, "ü\ud800"]}
    assert manifest["profile_id"] == "1"


def test_a_selection_comes_back_and_the_last_one_counts(session: SessionDirectory) -> None:
    with session.store() as store:
        assert store.selection() is None
        store.write_selection(selection_of("a-1", rows=(0,)))
        store.write_selection(selection_of("b-2", "c-3", rows=(1, 2)))
        assert store.selection() == selection_of("b-2", "c-3", rows=(1, 2))


# a new profile


def test_a_profile_that_cannot_be_written_leaves_the_old_one_whole(session: SessionDirectory, sessions: Any) -> None:
    new = sessions.profile(["matmul"])
    with session.store() as store:
        with pytest.raises(KeyError):
            store.write_profile(new, {}, {"profile_id": "2"})
        assert store.profile() == sessions.profile(["conv2d", "dense", "conv2d", "softmax"])
        assert store.manifest()["profile_id"] == "1"


def test_documents_of_a_profile_come_with_it_or_not_at_all(session: SessionDirectory, sessions: Any) -> None:
    new = sessions.profile(["matmul"])
    with session.store() as store:
        store.write_profile(new, sessions.hashes(new), {"profile_id": "2"}, documents={"graph": {"of": "2"}})
        with pytest.raises(KeyError):
            store.write_profile(new, {}, {"profile_id": "3"}, documents={"graph": {"of": "3"}})
        number = store.add_command("profile", {})
        store.cancel_command(number)
        with pytest.raises(Interrupted):
            store.write_profile(new, sessions.hashes(new), {"profile_id": "4"}, documents={"graph": {"of": "4"}}, command=number)
        assert store.document("graph") == {"of": "2"}


def test_a_selection_stays_with_a_new_profile_that_has_its_tasks_and_ticks_their_new_rows(session: SessionDirectory, sessions: Any) -> None:
    new = sessions.profile(["dense", "conv2d", "dense", "conv2d"])
    task = next(task for task in new.tasks if task.name == "conv2d")
    with session.store() as store:
        store.write_selection(selection_of(task.task, rows=(0, 2)))
        store.write_profile(new, sessions.hashes(new), {"profile_id": "2"})
        kept = store.selection()
        assert kept == replace(selection_of(task.task, rows=(1, 3)), rule="by hand; made before the present profile", notes=new.notes)
        store.write_profile(new, sessions.hashes(new), {"profile_id": "3"})
        assert store.selection() == kept


def test_a_selection_that_is_kept_follows_the_order_of_the_new_profile(session: SessionDirectory, sessions: Any) -> None:
    new = sessions.profile(["dense", "conv2d"])
    conv2d, dense = sorted((task for task in new.tasks), key=lambda task: task.name)
    with session.store() as store:
        store.write_selection(selection_of(conv2d.task, dense.task, rows=(0, 1)))
        store.write_profile(new, sessions.hashes(new), {"profile_id": "2"})
        selection = store.selection()
    assert selection is not None
    assert [item.task for item in selection.tasks] == [task.task for task in new.tasks] == [dense.task, conv2d.task]


def test_a_selection_goes_when_one_of_its_tasks_is_gone(session: SessionDirectory, sessions: Any) -> None:
    new = sessions.profile(["conv2d"])
    with session.store() as store:
        old = store.profile()
        assert old is not None
        store.write_selection(selection_of(*(task.task for task in old.tasks)))
        store.write_profile(new, sessions.hashes(new), {"profile_id": "2"})
        assert store.selection() is None


def test_a_damaged_selection_does_not_stand_in_the_way_of_a_new_profile(session: SessionDirectory, sessions: Any) -> None:
    spoil(session, "INSERT INTO selection VALUES (1, ?)", '{"rule": 5}')
    new = sessions.profile(["conv2d"])
    with session.store() as store:
        with pytest.raises(SessionError):
            store.selection()
        store.write_profile(new, sessions.hashes(new), {"profile_id": "2"})
        assert store.selection() is None
        assert store.profile() == new


# events and commands


def test_events_are_read_by_cursor(session: SessionDirectory) -> None:
    with session.store() as writer, session.store() as reader:
        assert reader.last_event() == 0
        first = writer.add_event("progress", {"phase": "import"})
        second = writer.add_event("state", {"share": 0.5})
        assert [(event.event, event.kind, event.data) for event in reader.events_since(0)] == [
            (first, "progress", {"phase": "import"}),
            (second, "state", {"share": 0.5}),
        ]
        assert [event.event for event in reader.events_since(0, limit=1)] == [first]
        assert [event.event for event in reader.events_since(first)] == [second]
        assert reader.events_since(second) == []
        assert reader.last_event() == second


def test_forgetting_progress_keeps_other_events_and_never_gives_a_number_again(session: SessionDirectory) -> None:
    with session.store() as store:
        state, progress = store.add_event("state", {}), store.add_event("progress", {})
        store.forget_progress()
        assert [event.event for event in store.events_since(0)] == [state]
        assert store.add_event("progress", {}) > progress


def test_commands_are_taken_once_in_the_order_they_came(session: SessionDirectory) -> None:
    with session.store() as front, session.store() as worker:
        assert worker.take_command() is None
        first, second = front.add_command("profile", {"a": 1}), front.add_command("outputs", {"rows": [0]})
        assert front.command(first).state == PENDING
        assert front.open_commands() == (first, second)
        taken = worker.take_command()
        assert taken is not None
        assert (taken.command, taken.kind, taken.arguments, taken.state) == (first, "profile", {"a": 1}, RUNNING)
        other = worker.take_command()
        assert other is not None
        assert other.command == second
        assert worker.take_command() is None
        worker.finish_command(first, result={"x": 1})
        worker.finish_command(second, failure=Failure("ModelError", "m", "r", "d"))
        assert (front.command(first).state, front.command(first).result) == (DONE, {"x": 1})
        assert (front.command(second).state, front.command(second).failure) == (FAILED, Failure("ModelError", "m", "r", "d"))
        assert front.open_commands() == ()


def test_a_command_waits_for_what_runs_as_long_as_both_are_so(session: SessionDirectory) -> None:
    with session.store() as store:
        first, second, third = (store.add_command(kind, {}) for kind in ("tune", "tune", "stop"))
        assert store.running_beside(second) is None
        store.take_command()
        store.take_command(["stop"])
        running = store.running_beside(second)
        assert running is not None
        assert (running.command, running.kind) == (first, "tune")
        assert store.running_beside(first) is None
        store.finish_command(third, result={})
        store.take_command()
        assert store.running_beside(second) is None
        assert store.running_beside(10**9) is None


def test_a_pending_command_that_is_cancelled_ends_at_once_and_is_never_taken(session: SessionDirectory) -> None:
    with session.store() as store:
        number = store.add_command("profile", {})
        store.cancel_command(number)
        assert store.command(number).state == CANCELLED
        assert store.take_command() is None


def test_a_running_command_that_is_cancelled_goes_on_until_its_worker_ends_it(session: SessionDirectory) -> None:
    with session.store() as store:
        number = store.add_command("profile", {})
        store.take_command()
        store.cancel_command(number)
        assert (store.command(number).state, store.command(number).cancelled) == (RUNNING, True)
        store.finish_command(number, cancelled=True)
        assert store.command(number).state == CANCELLED


def test_a_profile_whose_command_was_cancelled_replaces_nothing(session: SessionDirectory, sessions: Any) -> None:
    new = sessions.profile(["matmul"])
    with session.store() as store:
        old, number = store.profile(), store.add_command("profile", {})
        store.take_command()
        store.cancel_command(number)
        with pytest.raises(Interrupted):
            store.write_profile(new, sessions.hashes(new), {"profile_id": "2"}, command=number)
        assert store.profile() == old


def test_the_first_answer_of_a_command_counts(session: SessionDirectory) -> None:
    with session.store() as store:
        number = store.add_command("profile", {})
        store.finish_command(number, result={"x": 1})
        store.finish_command(number, cancelled=True)
        assert (store.command(number).state, store.command(number).result) == (DONE, {"x": 1})


def test_a_worker_that_takes_over_ends_what_ran_and_leaves_what_waited_before_its_front_came(session: SessionDirectory) -> None:
    with session.store() as store:
        running, planted, own, later = (store.add_command("profile", {}) for _ in range(4))
        store.take_command()
        store.abandon_commands(first=own)
        failure = store.command(running).failure
        assert failure is not None
        assert failure.kind == "WorkerDied"
        assert store.command(planted).state == ABANDONED
        assert store.open_commands() == (own, later)
        taken = store.take_command()
        assert taken is not None
        assert taken.command == own
        store.finish_command(planted, result={})
        assert store.command(planted).state == ABANDONED


def test_what_the_worker_says_of_itself_is_the_last_and_goes_with_it(session: SessionDirectory) -> None:
    with session.store() as store:
        assert store.worker() is None
        store.set_worker(1, "starting")
        store.set_worker(2, "ready")
        state = store.worker()
        assert state is not None
        assert (state.pid, state.phase) == (2, "ready")
        store.clear_worker()
        assert store.worker() is None


def test_a_profile_is_read_and_written_with_statements_that_do_not_grow_with_its_rows(tmp_path: Path, sessions: Any) -> None:
    counts = []
    for rows in (100, 1000):
        profile = sessions.profile([f"kernel{index}" for index in range(rows)])
        with sessions.write(tmp_path / str(rows), profile).store() as store:
            statements: list[str] = []
            store._sql.set_trace_callback(statements.append)  # noqa: SLF001 - SQLite itself counts best
            store.profile()
            counts.append(len(statements))
    assert counts[0] == counts[1]
