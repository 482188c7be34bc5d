"""Which decisions matter: planted effects are found, noise is not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

from workbench.analysis.knob_effects import SKETCH, KnobTrial, Value, effects_text, knob_effects
from workbench.records.knob import KnobEffects

VALUES: dict[str, list[Value]] = {
    "tile conv/i, factor 2 of 2": [1, 2, 4, 8, 16, 32, 64, 128],
    "tile conv/j, factor 2 of 2": [1, 2, 4, 8],
    "unroll conv": [0, 16, 64, 512],
    "compute at pad": ["root", "inline", "loop 2"],
}
PERMUTATIONS = 399


def trials(count: int, time: Callable[[Mapping[str, Value]], float], *, seed: int = 0, noise: float = 0.2, sketch: str = "a") -> list[KnobTrial]:
    """Trials with random decisions, a time that depends on them, and noise."""
    random = np.random.default_rng(seed)
    found = []
    for _ in range(count):
        values = {name: options[int(random.integers(len(options)))] for name, options in VALUES.items()}
        found.append(KnobTrial(time(values) * float(np.exp(noise * random.standard_normal())), sketch, values))
    return found


def effects(found: list[KnobTrial]) -> KnobEffects:
    return knob_effects("task", found, permutations=PERMUTATIONS)


def mattering(found: list[KnobTrial]) -> list[str]:
    return [effect.knob for effect in effects(found).effects if effect.matters]


def test_a_planted_knob_is_found_with_its_direction_and_no_other_is() -> None:
    found = effects(trials(200, lambda values: 300.0 if values["unroll conv"] == 512 else 100.0))
    first = found.effects[0]
    assert [effect.knob for effect in found.effects if effect.matters] == ["unroll conv"]
    assert first.levels[-1].value == "512"
    assert first.levels[-1].relative_time > 1.5
    assert first.share > 0.5
    assert first.ratio is not None
    assert first.ratio_low is not None
    assert first.ratio_high is not None
    assert first.ratio_low < 3.0 < first.ratio_high * 1.2
    assert first.ratio_low > 2.0


def test_a_knob_with_many_values_is_found_in_ranges_of_them() -> None:
    found = effects(trials(200, lambda values: 100.0 * float(values["tile conv/i, factor 2 of 2"]) ** 0.5))
    first = found.effects[0]
    assert (first.knob, first.matters) == ("tile conv/i, factor 2 of 2", True)
    assert len(first.levels) <= 6
    assert first.levels[0].value.startswith("1")
    assert first.levels[-1].value.endswith("128")
    assert sum(level.trials for level in first.levels) == 200


def test_two_planted_knobs_are_both_found_the_stronger_one_first() -> None:
    found = mattering(
        trials(
            300, lambda values: (400.0 if values["compute at pad"] == "root" else 100.0) * (1.6 if values["tile conv/j, factor 2 of 2"] == 1 else 1.0)
        )
    )
    assert found == ["compute at pad", "tile conv/j, factor 2 of 2"]


def test_noise_has_no_effects() -> None:
    false_alarms = sum(bool(mattering(trials(80, lambda values: 100.0, seed=seed))) for seed in range(20))
    assert false_alarms <= 4  # each has a chance of 5 %: more than four of twenty in one of 390 machines


def test_the_sketch_is_a_knob_and_hides_no_other() -> None:
    slow = trials(60, lambda values: 1000.0 if values["unroll conv"] == 0 else 600.0, seed=1, sketch="slow")
    fast = trials(60, lambda values: 100.0 if values["unroll conv"] == 0 else 60.0, seed=2, sketch="fast")
    assert set(mattering(slow + fast)) == {SKETCH, "unroll conv"}


def test_a_knob_that_only_one_sketch_has_is_judged_by_its_trials_alone() -> None:
    with_knob = trials(60, lambda values: 300.0 if values["unroll conv"] == 0 else 100.0, seed=3, sketch="a")
    without = [KnobTrial(trial.time_us, "b", {"tile other": 1}) for trial in trials(40, lambda values: 100.0, seed=4)]
    found = {effect.knob: effect for effect in effects(with_knob + without).effects}
    assert found["unroll conv"].trials == 60
    assert found["unroll conv"].matters
    assert "tile other" not in found  # it has one value


@pytest.mark.parametrize("count", [0, 1, 7])
def test_few_trials_tell_nothing_and_it_is_said(count: int) -> None:
    found = effects(trials(count, lambda values: 100.0))
    assert found.effects == ()
    assert "too few" in found.note
    assert found.note in effects_text(found)


def test_trials_that_never_differ_are_no_error() -> None:
    same = [KnobTrial(100.0, "a", {"unroll": 1}) for _ in range(20)]
    assert effects(same).effects == ()
    assert "No knob has two values" in effects(same).note
    equal_times = [KnobTrial(100.0, "a", {"unroll": number % 2}) for number in range(20)]
    assert [effect.share for effect in effects(equal_times).effects] == [0.0]
    assert mattering(equal_times) == []


def test_equal_trials_give_equal_answers() -> None:
    found = trials(50, lambda values: float(values["unroll conv"]) + 100.0)
    assert effects(found) == effects(found)


def test_the_table_names_what_matters_and_the_method() -> None:
    text = effects_text(effects(trials(200, lambda values: 300.0 if values["unroll conv"] == 512 else 100.0)))
    marked = [line for line in text.splitlines() if line.startswith("matters")]
    assert len(marked) == 1
    assert "unroll conv" in marked[0]
    assert "512: " in marked[0]
    assert "permutations" in text
    assert effects(trials(30, lambda values: 100.0)).to_dict()["task"] == "task"
