"""When a worker ends: with the pipe of its front, or when nobody has attended its session for long enough."""

from __future__ import annotations

import threading
from dataclasses import dataclass

import pytest

from workbench.session import SessionDirectory
from workbench.worker.presence import LeasedFronts, PipedFront


@dataclass
class Clock:
    """A clock that stands still."""

    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def fronts(session: SessionDirectory, clock: Clock) -> LeasedFronts:
    return LeasedFronts(session, lease_s=100.0, alone_s=10.0, attended_s=50.0, clock=clock)


def test_a_piped_worker_ends_with_its_front_and_after_a_while_without_work() -> None:
    gone = threading.Event()
    front = PipedFront(gone)
    assert not front.is_gone()
    assert not front.is_time_to_end(599.0)
    assert front.is_time_to_end(601.0)
    gone.set()
    assert front.is_gone()
    assert front.is_time_to_end(0.0)


def test_a_session_is_attended_by_each_front_until_the_last_one_has_gone(session: SessionDirectory) -> None:
    assert not session.is_attended()
    one, two = session.attend(), session.attend()
    assert session.is_attended()
    one.close()
    assert session.is_attended()
    two.close()
    assert not session.is_attended()


def test_a_search_is_wanted_as_long_as_a_front_is_there_however_long_that_is(session: SessionDirectory, fronts: LeasedFronts, clock: Clock) -> None:
    with session.attend():
        clock.now += 1e6
        assert not fronts.is_gone()
    clock.now += 99.0
    assert not fronts.is_gone()
    clock.now += 2.0
    assert fronts.is_gone()
    assert "nobody looked at it" in fronts.why_gone()


def test_a_front_that_comes_back_renews_the_lease(session: SessionDirectory, fronts: LeasedFronts, clock: Clock) -> None:
    clock.now += 90.0
    with session.attend():
        clock.now += 1.0
        assert not fronts.is_gone()
    clock.now += 99.0
    assert not fronts.is_gone()


def test_an_idle_worker_waits_some_seconds_for_a_front_and_longer_for_one_that_is_there(
    session: SessionDirectory, fronts: LeasedFronts, clock: Clock
) -> None:
    with session.attend():
        clock.now += 1000.0
        assert not fronts.is_time_to_end(49.0)
        assert fronts.is_time_to_end(51.0)
        assert not fronts.is_time_to_end(1.0)
    clock.now += 9.0
    assert not fronts.is_time_to_end(1000.0), "a worker that was idle before its front went waits all the same"
    clock.now += 2.0
    assert fronts.is_time_to_end(1000.0)
    assert not fronts.is_time_to_end(5.0), "it has just worked"


def test_a_front_that_leaves_in_order_ends_an_idle_worker_at_once_unless_another_is_there(
    session: SessionDirectory, fronts: LeasedFronts, clock: Clock
) -> None:
    other = session.attend()
    fronts.dismiss()
    assert not fronts.is_time_to_end(1.0)
    other.close()
    clock.now += 1.0
    assert not fronts.is_time_to_end(1.0), "the other one is waited for"
    fronts.dismiss()
    assert fronts.is_time_to_end(0.0)
