"""Ticking rows: what becomes of tasks, budgets and promises."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.conftest import make_profile
from workbench.errors import InputError, SelectionError
from workbench.notebook.app import ticks
from workbench.records.profile import Kernel, TensorShape
from workbench.records.tuning import TaskProgress

PROFILE = make_profile(["conv2d", "dense", "conv2d", "softmax"])
BY_NAME = {task.name: task.task for task in PROFILE.tasks}


def test_ticking_one_row_ticks_all_rows_of_its_task() -> None:
    selection = ticks.tick_rows(PROFILE, None, [2])
    assert selection.rows == (0, 2)
    assert [item.name for item in selection.tasks] == ["conv2d"]
    assert selection.rule == ticks.BY_HAND


def test_unticking_one_row_unticks_its_task_and_leaves_the_others() -> None:
    both = ticks.tick_rows(PROFILE, None, [0, 1])
    assert both.rows == (0, 1, 2)
    left = ticks.tick_rows(PROFILE, both, [1, 2])
    assert left.rows == (1,)


def test_the_same_rows_again_change_nothing_but_the_rule() -> None:
    selection = ticks.tick_rows(PROFILE, None, [0])
    assert ticks.tick_rows(PROFILE, selection, [0, 2]) == selection


def test_a_task_that_stays_keeps_its_budgets() -> None:
    selection = ticks.with_budget(ticks.tick_rows(PROFILE, None, [1]), BY_NAME["dense"], trials=10, seconds=2.5)
    more = ticks.tick_rows(PROFILE, selection, [1, 3])
    assert {item.name: (item.trials, item.seconds) for item in more.tasks} == {"dense": (10, 2.5), "softmax": (None, None)}


def test_unticking_everything_leaves_an_empty_selection() -> None:
    empty = ticks.tick_rows(PROFILE, ticks.tick_rows(PROFILE, None, [0]), [])
    assert (empty.tasks, empty.rows) == ((), ())
    assert ticks.share_of(PROFILE, empty) == 0.0
    assert ticks.forecasts(PROFILE, empty) == ()


def test_rows_that_cannot_be_tuned_and_rows_that_do_not_exist_are_passed_over() -> None:
    tensor = TensorShape((1,), "float32")
    names = ["conv2d", "dense"]
    kernels = [Kernel(name, f"hash of {name}", (name,), (tensor,), (tensor,), 1, 1, "dynamic shape" if name == "dense" else "") for name in names]
    profile = make_profile(names, kernels=kernels)
    assert ticks.tick_rows(profile, None, [0, 1, 2, 99]).rows == (0,)


@pytest.mark.parametrize("value", [0, -1, 1.5, "10", True, 10**12])
def test_a_budget_of_trials_is_a_positive_whole_number_or_nothing(value: Any) -> None:
    selection = ticks.tick_rows(PROFILE, None, [1])
    with pytest.raises(InputError, match="trials"):
        ticks.with_budget(selection, BY_NAME["dense"], trials=value, seconds=None)


@pytest.mark.parametrize("value", [0, -1.0, float("nan"), float("inf"), "1", True])
def test_a_budget_of_time_is_a_positive_number_or_nothing(value: Any) -> None:
    selection = ticks.tick_rows(PROFILE, None, [1])
    with pytest.raises(InputError, match="seconds"):
        ticks.with_budget(selection, BY_NAME["dense"], trials=None, seconds=value)


def test_a_budget_needs_a_tick() -> None:
    with pytest.raises(SelectionError, match="not ticked"):
        ticks.with_budget(ticks.tick_rows(PROFILE, None, [0]), BY_NAME["dense"], trials=1, seconds=None)


def test_without_times_nothing_is_promised() -> None:
    unmeasured = make_profile(["conv2d", "dense"], measurement=_unmeasured())
    selection = ticks.tick_rows(unmeasured, None, [0])
    assert ticks.forecasts(unmeasured, selection) == ()
    assert ticks.share_of(unmeasured, selection) == pytest.approx(0.5), "then shares are of the FLOP"


def _unmeasured() -> Any:
    from workbench.records.profile import Measurement  # noqa: PLC0415 - one use

    return Measurement((), None, (), None, 0.0, 1, "there is no GPU")


def test_the_trials_that_are_suggested_lead_on_from_those_that_were_measured() -> None:
    selection = ticks.tick_rows(PROFILE, None, [0, 1])
    assert ticks.suggested_trials((), selection) == 64
    searched = [TaskProgress(BY_NAME["dense"], "dense", 1, trials=64), TaskProgress(BY_NAME["softmax"], "softmax", 1, trials=500)]
    assert ticks.suggested_trials(searched, selection) == 128, "those of tasks that are not ticked do not count"
