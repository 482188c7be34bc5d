"""Which trial each task gets, and why: what is planted in a store is named and never chosen."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.unit.apply_fakes import PRESENT, WINNER, fingerprint_of, give_winner, here, winning_progress
from tests.unit.search_fakes import WRONG, trace_of
from workbench.applying.choice import NEVER_SEARCHED, Choice, choose, is_untouched
from workbench.records.conditions import KnownConditions
from workbench.records.profile import Profile
from workbench.records.trial import MeasureOptions
from workbench.records.tuning import FAILED, NOT_FASTER, Final
from workbench.session import SessionDirectory

FINAL = Final(WINNER, 100.0, 1.0, 50.0, 1.0, WINNER, 11, "faster", "2.00x as fast")


def profile_of(directory: SessionDirectory) -> Profile:
    with directory.store() as store:
        profile = store.profile()
    assert profile is not None
    return profile


def chosen(directory: SessionDirectory, kernel: str = "conv2d") -> Choice:
    with directory.store() as store:
        choices = choose(profile_of(directory), store.trials, here)
    return next(choice for choice in choices if choice.task.name == kernel)


def test_the_winner_of_the_last_measurement_is_chosen_for_its_task_alone(session: SessionDirectory) -> None:
    give_winner(session, "conv2d")
    found = chosen(session)
    assert found.schedule is not None
    assert (found.schedule.trace, found.schedule.fingerprint) == (trace_of(WINNER), fingerprint_of("conv2d"))
    assert (found.trial, found.time_us) == (WINNER, 50.0)
    assert found.why == "trial 3: 2.00x +- 0.02 as fast: 100.0 to 50.0 us"
    assert chosen(session, "dense") == Choice(chosen(session, "dense").task, None, NEVER_SEARCHED)


def test_the_same_store_gives_the_same_choice(session: SessionDirectory) -> None:
    give_winner(session, "conv2d")
    give_winner(session, "softmax")
    assert chosen(session) == chosen(session) == chosen(SessionDirectory.open(session.path))


def test_a_session_without_any_search_is_told_from_one_whose_search_found_nothing(session: SessionDirectory) -> None:
    with session.store() as store:
        assert is_untouched(choose(profile_of(session), store.trials, here))
    give_winner(session, "dense", progress={"final": None})
    with session.store() as store:
        assert not is_untouched(choose(profile_of(session), store.trials, here))


@pytest.mark.parametrize(
    ("trial", "progress", "trace", "why"),
    [
        ({"conditions": "elsewhere"}, {}, None, "other conditions"),
        ({}, {"conditions": "elsewhere"}, None, "other conditions"),
        ({"conditions": "elsewhere"}, {"conditions": "elsewhere"}, None, "other conditions"),
        ({"status": "wrong_result"}, {}, None, "wrong"),
        ({"check": WRONG}, {}, None, "wrong"),
        ({"check": None}, {}, None, "never compared"),
        ({"status": "build_error"}, {}, None, "recorded as build_error"),
        ({"times_us": ()}, {}, None, "damaged record"),
        ({}, {}, "", "no recorded schedule"),
        ({}, {}, "[[", "no JSON"),
        ({}, {}, "[" * 100_000, "no JSON"),
        ({}, {}, "{}", "no trace"),
        ({"fingerprint": "../../x"}, {}, None, "fingerprint of trial 3 is none"),
        ({}, {"final": replace(FINAL, winner=4)}, None, "trial 4, the winner, is not in the session"),
        ({}, {"final": replace(FINAL, winner_us=100.0)}, None, "not faster: trial 3 is named the winner, but took 100.0 us"),
        ({}, {"final": replace(FINAL, winner_us=0.0)}, None, "damaged record"),
        ({}, {"final": replace(FINAL, verdict=NOT_FASTER, winner=0, why="no difference")}, None, "not faster: no difference"),
        ({}, {"final": replace(FINAL, winner=0)}, None, "not faster"),
        ({}, {"final": None, "state": FAILED, "stopped_because": "it exploded"}, None, "no winner was named: it exploded"),
        ({}, {"final": None, "first_errors": {"final": "the baseline crashed"}}, None, "no winner was named: the baseline crashed"),
    ],
)
def test_what_is_planted_is_named_and_not_chosen(
    session: SessionDirectory, trial: dict[str, Any], progress: dict[str, Any], trace: str | None, why: str
) -> None:
    give_winner(session, "conv2d", trace=trace, progress=progress, **trial)
    give_winner(session, "dense")
    found = chosen(session)
    assert found.schedule is None
    assert why in found.why
    assert found.why.isprintable()
    assert chosen(session, "dense").schedule is not None


@pytest.mark.parametrize("table", ["trials", "searches"])
def test_a_damaged_record_costs_its_task_alone(session: SessionDirectory, table: str) -> None:
    give_winner(session, "conv2d")
    give_winner(session, "dense")
    task = chosen(session).task.task
    with session.store() as store:
        store._sql.execute(f"UPDATE {table} SET record = '{{}}' WHERE task = ?", (task,))  # noqa: S608, SLF001 - damage is what is tested
    assert chosen(session).why.startswith("damaged record")
    assert chosen(session, "dense").schedule is not None


def test_the_conditions_are_those_of_the_trials_own_options(session: SessionDirectory) -> None:
    cold = MeasureOptions(cache_flush=True, device=1)
    give_winner(session, "conv2d", options=cold)
    asked: list[MeasureOptions] = []

    def noted(options: MeasureOptions) -> KnownConditions:
        asked.append(options)
        return here(options)

    with session.store() as store:
        choose(profile_of(session), store.trials, noted)
    assert asked == [cold]


def test_conditions_that_the_session_has_noted_are_told(session: SessionDirectory) -> None:
    elsewhere = replace(PRESENT, threads=8, devices=("another\x1b[31m processor",))
    give_winner(session, "conv2d", conditions=elsewhere.digest)
    known = KnownConditions(PRESENT, {elsewhere.digest: elsewhere})
    with session.store() as store:
        why = choose(profile_of(session), store.trials, lambda _: known)[0].why
    assert why.startswith("other conditions: trial 3 was measured with 8 threads instead of 2")
    assert "a processor" in why
    assert why.isprintable()


def test_a_kernel_that_cannot_be_tuned_says_why(tmp_path: Path, session: SessionDirectory) -> None:
    del tmp_path
    profile = profile_of(session)
    dynamic = replace(profile, tasks=(replace(profile.tasks[0], untunable="dynamic shape"), *profile.tasks[1:]))
    with session.store() as store:
        assert choose(dynamic, store.trials, here)[0].why == "cannot be tuned: dynamic shape"


def test_what_a_search_said_is_shown_without_control_characters(session: SessionDirectory) -> None:
    give_winner(session, "conv2d", progress={"final": replace(FINAL, why="\x1b[31m\nfast")})
    assert "\\x1b[31m\\nfast" in chosen(session).why
    assert winning_progress(chosen(session).task).final is not None
