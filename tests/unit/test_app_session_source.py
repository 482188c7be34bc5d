"""What the app's inspector gets from its session, whose worker is a stand-in."""

from __future__ import annotations

import asyncio

import workbench
from tests.unit.app_worker import StandIn, wait_until
from workbench.notebook.app.session_source import SessionSource
from workbench.records.command import CANCELLED, Command
from workbench.session import SessionDirectory


def rerun_of(session: SessionDirectory) -> Command | None:
    with session.store() as store:
        return store.last_command("rerun")


def test_a_rerun_that_nobody_waits_for_any_more_is_ended(session: SessionDirectory) -> None:
    with StandIn(session) as worker, workbench.open(session.path) as opened:
        worker.answers.clear()

        async def give_up() -> None:
            asked = asyncio.create_task(SessionSource(opened).rerun("conv2d", 0))
            await asyncio.to_thread(wait_until, lambda: rerun_of(session) is not None)
            asked.cancel()

        asyncio.run(give_up())
        found = rerun_of(session)
        assert found is not None
        assert found.state == CANCELLED


def test_the_record_of_a_trial_is_the_session_s(session: SessionDirectory) -> None:
    with workbench.open(session.path) as opened, StandIn(session) as worker:
        worker.measure("conv2d-1", "conv2d", 3, 50.0)
        source = SessionSource(opened)
        found = asyncio.run(source.trial("conv2d-1", 3))
        assert found is not None
        assert found.times_us == (50.0,)
        assert asyncio.run(source.trial("conv2d-1", 4)) is None
