"""The worker's service: every command that it takes is answered, whatever becomes of the work, and whoever wrote it."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Callable
from typing import Any

import pytest

from workbench.errors import EnvironmentFault
from workbench.records.command import DONE, FAILED, Command
from workbench.session import SessionDirectory
from workbench.worker.context import Job, JobContext
from workbench.worker.service import Service


class UntilNothingWaits:
    """A front that is there as long as there is something to do."""

    def is_gone(self) -> bool:
        return False

    def why_gone(self) -> str:
        return ""

    def is_time_to_end(self, idle_s: float) -> bool:
        return True

    def wait(self, seconds: float) -> None:
        raise AssertionError("there is nothing to wait for")


@pytest.fixture
def session(tmp_path: Any, sessions: Any) -> SessionDirectory:
    directory: SessionDirectory = sessions.write(tmp_path, sessions.profile(["conv2d"]))
    return directory


def serve(session: SessionDirectory, work: Callable[[JobContext, dict[str, Any]], dict[str, Any]]) -> None:
    jobs: dict[str, Job] = {"work": work}
    Service(session, first=1, presence=UntilNothingWaits()).run(lambda: jobs)


def commands(session: SessionDirectory) -> list[Command]:
    with session.store() as store:
        last = store.last_command("work", "pause")
        return [] if last is None else [store.command(number) for number in range(1, last.command + 1)]


def test_a_command_that_work_took_and_could_not_answer_is_answered_when_it_has_failed(session: SessionDirectory) -> None:
    def work(context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        taken = context.store.take_command(("pause",))
        if taken is None:
            return {"done": True}
        raise EnvironmentFault("The disk is full.")  # by a write that found no room; the next one may

    with session.store() as store:
        for kind in ("work", "pause", "work"):
            store.add_command(kind, {})
    serve(session, work)
    first, pause, second = commands(session)
    assert (first.state, pause.state, second.state) == (FAILED, FAILED, DONE)
    assert pause.failure is not None
    assert pause.failure.message == "The work that this command was for has failed."
    assert first.failure is not None
    assert first.failure.message == "The disk is full."


@pytest.mark.parametrize("arguments", ["[1]", "no JSON", "7", "[" * 100_000, '{"x": NaN}', b"\xff\xfe"])
def test_a_command_that_cannot_be_read_is_refused_and_the_next_one_is_done(session: SessionDirectory, arguments: str | bytes) -> None:
    with session.store() as store:
        for _ in range(2):
            store.add_command("work", {})
    with contextlib.closing(sqlite3.connect(session.database, isolation_level=None)) as connection:
        connection.execute("UPDATE commands SET arguments = ? WHERE command = 1", (arguments,))
    serve(session, lambda context, arguments: {"number": context.command})
    strange, good = commands(session)
    assert (strange.state, strange.arguments, good.state, good.result) == (FAILED, {}, DONE, {"number": 2})
    assert strange.failure is not None
    assert strange.failure.message.startswith("The command cannot be read: ")


def test_a_command_that_no_worker_knows_is_refused_in_words(session: SessionDirectory) -> None:
    with session.store() as store:
        for kind in ("dance\n<b>", "work"):
            store.add_command(kind, {})
    serve(session, lambda context, arguments: {})
    strange, good = commands(session)
    assert good.state == DONE
    assert strange.failure is not None
    assert (strange.failure.kind, strange.failure.message) == ("SessionError", r"The worker of this session knows no command dance\n<b>.")
