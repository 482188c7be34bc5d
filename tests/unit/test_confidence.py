"""Medians, their confidence, and verdicts that respect noise: values worked out by hand."""

from __future__ import annotations

import math

import pytest

from workbench.analysis.confidence import compare, is_enough, is_hopeless, spread

NOISY = (98.0, 99.0, 100.0, 101.0, 102.0)  # median 100, quartiles 99 and 101
HALF_WIDTH = 1.57 * 2.0 / math.sqrt(5)  # 1.404


def shifted(by: float) -> tuple[float, ...]:
    return tuple(value + by for value in NOISY)


def test_a_spread_has_the_median_the_quartiles_and_the_notch() -> None:
    assert spread(NOISY).median == 100.0
    assert spread(NOISY).iqr == 2.0
    assert spread(NOISY).half_width == pytest.approx(HALF_WIDTH)


def test_an_outlier_moves_none_of_them() -> None:
    assert spread((*NOISY[:4], 1e6)) == spread(NOISY)


@pytest.mark.parametrize(("values", "iqr"), [((7.0,), 0.0), ((6.0, 8.0), 1.0)])
def test_of_fewer_than_three_values_nobody_knows_the_confidence(values: tuple[float, ...], iqr: float) -> None:
    known = spread(values)
    assert (known.median, known.iqr, known.half_width) == (7.0, iqr, math.inf)


def test_equal_values_have_no_spread() -> None:
    known = spread((5.0,) * 7)
    assert (known.median, known.iqr, known.half_width) == (5.0, 0.0, 0.0)


# verdicts


def test_what_is_faster_by_more_than_the_noise_is_faster() -> None:
    noise = math.hypot(HALF_WIDTH, HALF_WIDTH)  # 1.986
    assert compare(NOISY, shifted(-2.0)).faster
    assert not compare(NOISY, shifted(-1.9)).faster
    assert -2.0 < -noise < -1.9


def test_a_verdict_gives_the_ratio_with_its_error() -> None:
    verdict = compare(shifted(100.0), NOISY)
    assert verdict.ratio == 2.0
    assert verdict.ratio_error == pytest.approx(2.0 * math.hypot(HALF_WIDTH / 200.0, HALF_WIDTH / 100.0))
    assert verdict.text == "2.00x +- 0.03 as fast: 200.0 to 100.0 us"


def test_what_differs_by_less_than_the_noise_is_no_different() -> None:
    for by in (-1.0, 0.0, 1.0):
        verdict = compare(NOISY, shifted(by))
        assert not verdict.faster
        assert verdict.text.startswith("no difference beyond the noise")


def test_what_is_slower_is_called_slower() -> None:
    verdict = compare(NOISY, shifted(5.0))
    assert (verdict.faster, verdict.text) == (False, "slower: 100.0 to 105.0 us")


def test_identical_samples_are_no_different() -> None:
    verdict = compare((5.0,) * 5, (5.0,) * 5)
    assert (verdict.faster, verdict.ratio, verdict.ratio_error) == (False, 1.0, 0.0)
    assert verdict.text == "no difference beyond the noise: 5.0 to 5.0 us"


def test_without_spread_any_difference_counts() -> None:
    assert compare((5.0,) * 5, (4.0,) * 5).faster
    assert compare((4.0,) * 5, (5.0,) * 5).text == "slower: 4.0 to 5.0 us"


@pytest.mark.parametrize(("before", "after"), [((3.0,), (1.0,)), ((3.0,), (1.0,) * 9), ((3.0, 3.0), (1.0,) * 9), ((3.0,) * 9, (1.0, 1.0))])
def test_a_sample_that_is_too_small_names_no_winner(before: tuple[float, ...], after: tuple[float, ...]) -> None:
    verdict = compare(before, after)
    assert (verdict.faster, verdict.ratio, verdict.ratio_error) == (False, 3.0, None)
    assert verdict.text == "3.00x as fast (3.0 to 1.0 us), measured too few times to know the noise"


@pytest.mark.parametrize(
    ("before", "after", "times"),
    [((100.0,), (1.0,), "once"), ((100.0,), (1.0,) * 9, "once"), ((100.0, 100.0), (0.5, 1.0, 1.5), "2 times")],
)
def test_what_is_clearly_faster_wins_though_the_slow_one_was_measured_few_times(
    before: tuple[float, ...], after: tuple[float, ...], times: str
) -> None:
    verdict = compare(before, after)
    assert (verdict.faster, verdict.ratio, verdict.ratio_error) == (True, 100.0, None)
    assert verdict.text == f"100.00x as fast: 100.0 to 1.0 us, the slow one measured {times}"


def test_it_is_not_clearly_faster_if_one_of_its_times_is_not() -> None:
    assert not compare((100.0, 100.0), (1.0, 1.0, 34.0)).faster
    assert not compare((100.0, 3.0), (1.0, 1.0, 1.0)).faster


def test_what_is_clearly_slower_and_measured_few_times_is_no_winner() -> None:
    assert not compare((1.0,) * 9, (100.0,)).faster


# a busy machine


def test_what_a_busy_machine_allows_to_say_is_the_least_gain_and_that_it_was_busy() -> None:
    before, after = (100.0, 110.0, 120.0, 900.0, 1000.0, 1100.0, 1200.0), (10.0,) * 7  # quartiles 115 and 1050: half-width 555
    verdict = compare(before, after)
    assert verdict.ratio == 90.0
    assert verdict.ratio_error == pytest.approx(90.0 * 1.57 * 935.0 / math.sqrt(7) / 900.0)
    assert verdict.text == "at least 11.00x as fast: 900.0 to 10.0 us, on a busy machine: its times vary by 104%"


def test_ranks_that_leave_no_doubt_name_a_winner_within_overlapping_intervals() -> None:
    before = (100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 300.0, 310.0, 320.0, 330.0, 340.0)  # median 105, quartiles 102.5 and 315
    after = (90.0,) * 10 + (400.0,)  # one spoilt round
    assert spread(before).half_width > 105.0 - 90.0
    assert compare(before, after).faster
    assert compare(after, before).text.startswith("slower: 90.0 to 105.0 us")


def test_ranks_that_chance_may_give_name_no_winner() -> None:
    before = (100.0, 101.0, 102.0, 103.0, 104.0, 105.0, 300.0, 310.0, 320.0, 330.0, 340.0)
    after = (90.0,) * 8 + (400.0,) * 3  # 88 of 121 pairs: 1.8 standard deviations
    assert compare(before, after).text.startswith("no difference beyond the noise: 105.0 to 90.0 us, on a busy machine")


# how often


@pytest.mark.parametrize(
    ("times", "best", "most", "enough"),
    [
        ((), None, 10, False),
        ((), 1.0, 10, False),
        ((160.0,), 100.0, 10, True),  # hopeless after one
        ((125.0,), 100.0, 10, False),  # 1.25 times the best is just not hopeless
        ((160.0, 124.0), 100.0, 10, False),  # the faster one counts
        ((120.0, 121.0), 100.0, 10, False),  # two are too few to say
        ((120.0, 121.0, 122.0), 100.0, 10, True),  # no contender
        ((104.0, 110.0, 130.0), 100.0, 10, False),  # perhaps one, and not known well
        ((100.0, 100.0, 100.0), 100.0, 10, True),  # known well
        ((90.0, 100.0, 110.0), None, 10, False),  # 1.57 * 10 / sqrt(3) is more than 1 %
        ((90.0, 100.0, 110.0), None, 3, True),  # the most
        ((100.0,), None, 1, True),
        ((100.0, 101.0), None, 2, True),
    ],
)
def test_a_candidate_is_measured_until_enough_is_known(times: tuple[float, ...], best: float | None, most: int, enough: bool) -> None:
    assert is_enough(times, best=best, most=most) is enough


def test_nothing_is_hopeless_before_there_is_a_best() -> None:
    assert not is_hopeless(1e9, best=None)
    assert is_hopeless(1.26, best=1.0)
    assert not is_hopeless(1.25, best=1.0)


def test_a_verdict_on_very_short_times_shows_their_digits() -> None:
    before, after = [0.042, 0.0421, 0.0419], [0.0107, 0.0107, 0.0107]
    assert compare(before, after).text.endswith("as fast: 0.042 to 0.011 us")
    assert compare(after[:1], before[:1]).text.startswith("0.25x as fast (0.011 to 0.042 us)")
