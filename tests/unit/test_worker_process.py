"""The front's side of a worker, with a stand-in that holds the lock and answers through the store."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from workbench.errors import EnvironmentFault, Interrupted, WorkerDied
from workbench.kernel import Pending, WorkerProcess
from workbench.records.command import CANCELLED, Command, Event, Failure
from workbench.session import SessionDirectory
from workbench.store import Store

HANG_S = 60


@contextmanager
def serving(directory: SessionDirectory, answer: Callable[[Store, Command], None], *, commands: int = 1) -> Iterator[None]:
    """A worker that answers some commands."""
    ready = threading.Event()

    def serve() -> None:
        left = commands
        with directory.lock() as mine, directory.store() as store:
            assert mine
            ready.set()
            while left:
                command = store.take_command()
                if command is not None:
                    answer(store, command)
                    left -= 1

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    assert ready.wait(HANG_S)
    yield
    thread.join(HANG_S)
    assert not thread.is_alive()


def test_a_front_is_told_the_events_of_its_own_command_alone(session: SessionDirectory) -> None:
    def answer(store: Store, command: Command) -> None:
        for number, phase in ((command.command - 1, "theirs"), (command.command, "mine"), (command.command + 1, "theirs too")):
            store.add_event("progress", {"command": number, "phase": phase, "share": 0.0})
        store.add_event("progress", {})
        store.finish_command(command.command, result={"x": 1})

    told: list[Event] = []
    with serving(session, answer):
        assert WorkerProcess(session, threads=1).run("profile", {}, on_event=told.append) == {"x": 1}
    assert [event.data["phase"] for event in told] == ["mine"]


def test_a_command_that_a_new_worker_left_is_given_again(session: SessionDirectory) -> None:
    given: list[int] = []

    def answer(store: Store, command: Command) -> None:
        given.append(command.command)
        if len(given) > 1:
            store.finish_command(command.command, result={"rows": command.arguments["rows"]})
            return
        store._sql.execute("UPDATE commands SET state = 'pending' WHERE command = ?", (command.command,))  # noqa: SLF001 - as if it was not taken
        store.abandon_commands(first=command.command + 1)

    worker = WorkerProcess(session, threads=1)
    with serving(session, answer, commands=2):
        assert worker.run("outputs", {"rows": [0]}) == {"rows": [0]}
    assert len(given) == 2
    assert worker.commands == set(given)


@pytest.mark.parametrize("error", [KeyboardInterrupt(), EnvironmentFault("There is no memory.")], ids=["ctrl-c", "fault"])
def test_a_command_that_cannot_be_begun_is_not_left_for_another_worker(
    session: SessionDirectory, error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(worker: WorkerProcess, number: int) -> None:
        raise error

    monkeypatch.setattr(WorkerProcess, "_start", fail)
    worker = WorkerProcess(session, threads=1)
    with pytest.raises(type(error)):
        worker.begin("tune", {})
    (number,) = worker.commands
    with session.store() as store:
        assert store.command(number).state == CANCELLED
        assert store.take_command() is None


def test_what_the_worker_answers_reaches_the_caller_as_it_was_raised(session: SessionDirectory) -> None:
    def fail(store: Store, command: Command) -> None:
        store.finish_command(command.command, failure=Failure("WorkerDied", "It is gone.", "Mend it.", "all of the log"))

    with serving(session, fail), pytest.raises(WorkerDied, match=r"It is gone\. Mend it\.") as caught:
        WorkerProcess(session, threads=1).run("profile", {})
    assert caught.value.__notes__ == ["all of the log"]
    with serving(session, lambda store, command: store.finish_command(command.command, cancelled=True)), pytest.raises(Interrupted):
        WorkerProcess(session, threads=1).run("profile", {})


def test_no_worker_is_started_for_what_another_fronts_worker_has_answered_and_ended(
    session: SessionDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer_and_end(directory: SessionDirectory) -> bool:
        with directory.store() as store:
            command = store.take_command()
            if command is not None:
                store.finish_command(command.command, result={"x": 1})
        return False

    def fail(worker: WorkerProcess, number: int) -> None:
        raise AssertionError(f"a worker for command {number}, which is answered")

    monkeypatch.setattr(SessionDirectory, "is_served", answer_and_end)
    monkeypatch.setattr(WorkerProcess, "_start", fail)
    assert WorkerProcess(session, threads=1).run("profile", {}) == {"x": 1}


def test_a_front_is_told_once_what_its_command_waits_for(session: SessionDirectory) -> None:
    told: list[Event] = []
    worker = WorkerProcess(session, threads=1)
    with session.lock() as mine, session.store() as store:
        assert mine
        other = store.add_command("tune", {})
        store.take_command()
        pending = worker.begin("tune", {})
        assert worker.waits_behind(pending) == "tune"
        for _ in range(20):
            assert worker.poll(pending, on_event=told.append) is None
            assert worker.poll(pending) is None
        assert [(event.kind, event.data) for event in told] == [("waiting", {"command": pending.number, "behind": "tune"})]
        store.finish_command(other, result={})
        assert worker.waits_behind(pending) == ""
        for _ in range(3):
            worker.poll(pending, on_event=told.append)
        assert [event.data["behind"] for event in told] == ["tune", ""]
        store.take_command()
        store.add_event("progress", {"command": pending.number, "phase": "load", "share": 0.0})
        worker.poll(pending, on_event=told.append)
        store.finish_command(pending.number, result={"x": 1})
        assert worker.poll(pending, on_event=told.append) == {"x": 1}
    assert [event.kind for event in told] == ["waiting", "waiting", "progress"]


def test_what_a_dead_worker_left_running_is_waited_for_by_nobody(session: SessionDirectory) -> None:
    worker = WorkerProcess(session, threads=1)
    with session.store() as store:
        store.add_command("tune", {})
        store.take_command()
        pending = Pending("tune", {}, number=store.add_command("tune", {}))
    assert worker.waits_behind(pending) == ""
