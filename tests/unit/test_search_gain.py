"""Which task gets the next trials, and when a task gets no better: pure functions, with values worked out by hand."""

from __future__ import annotations

import pytest

from workbench.search.gain import Prospect, expected_gain, is_flat, most_promising


def untouched(weight: int, time_us: float) -> Prospect:
    return Prospect(weight, time_us, [time_us])


def spend(trials: int, *tasks: tuple[int, float]) -> list[int]:
    """Give trials one by one to tasks of a weight and a time that never improve; returns how many each got."""
    histories = [[time_us] for _, time_us in tasks]
    for _ in range(trials):
        place = most_promising([Prospect(weight, time_us, history) for (weight, time_us), history in zip(tasks, histories, strict=True)])
        histories[place].append(tasks[place][1])
    return [len(history) - 1 for history in histories]


def test_while_nothing_is_known_the_hope_is_half_the_time_and_fades_with_the_trials() -> None:
    # 0.5 * 100 us, spread over 24 trials, times 24 / 24
    assert expected_gain(Prospect(1, 100.0, [])) == pytest.approx(50.0 / 24)
    # after 24 trials: 50 us / 48 * 24 / 48
    assert expected_gain(Prospect(1, 100.0, [100.0] * 24)) == pytest.approx(50.0 / 96)


def test_a_best_that_falls_is_expected_to_go_on_by_the_same_factor() -> None:
    # behind the untuned kernel: 1,000 us to 1,000 * 0.9^31 in 31 steps, so a tenth of what is left; the hope is 0.5 / 57 * 24 / 57
    falling = [5000.0] + [1000.0 * 0.9**number for number in range(32)]
    assert expected_gain(Prospect(1, falling[-1], falling)) == pytest.approx(0.1 * falling[-1])
    assert expected_gain(Prospect(3, falling[-1], falling)) == pytest.approx(0.3 * falling[-1])


def test_the_fall_from_the_untuned_kernel_is_not_expected_again() -> None:
    # of ResNet-50 on a CPU: a kernel that became 50 times as fast can save less now than an untouched one of the same time
    tuned = Prospect(5, 3000.0, [150_000.0, *[4000.0] * 8, *[3000.0] * 24])
    assert expected_gain(tuned) == pytest.approx(5 * 3000.0 * (1 - 0.75 ** (1 / 31)))
    assert most_promising([tuned, untouched(1, 70_000.0)]) == 1


def test_the_untuned_kernel_is_no_part_of_the_rate_where_the_first_candidates_fail() -> None:
    # three that failed or were slower leave the best where it was; then 4,000 us to 3,000 us in 31 steps
    late = [150_000.0] * 4 + [4000.0] * 8 + [3000.0] * 24
    assert expected_gain(Prospect(1, 3000.0, late)) == pytest.approx(3000.0 * (1 - 0.75 ** (1 / 31)))
    # nothing is faster than the default schedule of a GPU yet: the hope, 0.5 / 34 * 24 / 34
    assert expected_gain(Prospect(1, 100.0, [100.0] * 10)) == pytest.approx(100.0 * 0.5 / 34 * 24 / 34)
    # the first that is faster: no rate yet, and the hope for 11 trials
    assert expected_gain(Prospect(1, 60.0, [*[100.0] * 10, 60.0])) == pytest.approx(60.0 * 0.5 / 35 * 24 / 35)


def test_the_luck_of_two_trials_is_no_rate_of_one_half() -> None:
    # halved in one step, which counts as 15: 1 - 0.5^(1/15), 4.5 % instead of 50 %
    assert expected_gain(Prospect(1, 500.0, [9000.0, 1000.0, 500.0])) == pytest.approx(500.0 * (1 - 0.5 ** (1 / 15)))


def test_what_is_under_way_is_taken_to_do_what_is_expected_of_it() -> None:
    # the hope as it will be after 8 + 16 trials: 0.5 / 48 * 24 / 48
    assert expected_gain(Prospect(1, 100.0, [100.0] * 8, pending=16)) == pytest.approx(100.0 * 0.5 / 48 * 24 / 48)
    # a tenth of what is left after two more steps of a tenth
    falling = [5000.0] + [1000.0 * 0.9**number for number in range(32)]
    assert expected_gain(Prospect(1, falling[-1], falling, pending=2)) == pytest.approx(0.1 * 0.81 * falling[-1])


def test_a_task_whose_round_is_under_way_leaves_the_next_one_to_another_like_it() -> None:
    assert most_promising([Prospect(1, 100.0, [100.0], pending=16), untouched(1, 90.0)]) == 1
    assert most_promising([Prospect(1, 100.0, [100.0], pending=16), untouched(1, 30.0)]) == 0  # 25^2 / 41^2 of 100 is 37


def test_only_the_last_32_trials_count_as_the_last() -> None:
    history = [1_000_000.0, 500_000.0] + [10.0] * 32
    # nothing was saved lately: the hope, 0.5 * 10 / 58 * 24 / 58
    assert expected_gain(Prospect(1, 10.0, history)) == pytest.approx(5.0 / 58 * 24 / 58)


def test_a_kernel_that_is_called_16_times_beats_one_that_is_called_once() -> None:
    assert expected_gain(untouched(16, 10.0)) == pytest.approx(16 * expected_gain(untouched(1, 10.0)))
    assert most_promising([untouched(1, 100.0), untouched(16, 10.0)]) == 1
    assert most_promising([untouched(1, 161.0), untouched(16, 10.0)]) == 0


def test_the_first_of_equals_is_taken() -> None:
    assert most_promising([untouched(1, 10.0), untouched(1, 10.0), untouched(1, 10.0)]) == 0


def test_hot_kernels_get_the_trials() -> None:
    # Where the hopes are even, trials + 25 are as the square roots of the times: 10 : 1.
    hot, cold = spend(300, (1, 1000.0), (1, 10.0))
    assert (hot + 25) / (cold + 25) == pytest.approx(10.0, rel=0.05)


def test_no_kernel_starves() -> None:
    assert all(trials > 0 for trials in spend(2000, (16, 1000.0), (1, 100.0), (1, 10.0)))


def test_a_kernel_that_improves_gets_the_next_trials_from_one_that_does_not() -> None:
    improving = Prospect(1, 50.0, [100.0 - number for number in range(51)])  # 81 to 50 in 31 steps: 1.6 % of 50 us
    stuck = Prospect(1, 200.0, [200.0] * 51)  # 0.5 * 200 / 75 * 24 / 75
    assert most_promising([stuck, improving]) == 1


def test_without_times_there_is_no_gain_and_the_first_is_taken() -> None:
    assert expected_gain(Prospect(4, 0.0, [])) == 0.0
    assert most_promising([Prospect(1, 0.0, []), Prospect(4, 0.0, [])]) == 0


@pytest.mark.parametrize(
    ("history", "flat"),
    [
        ([], False),
        ([100.0] * 4, False),  # three trials behind the first: fewer than four
        ([100.0] * 5, True),
        ([100.0, 100.0, 100.0, 100.0, 99.0], False),  # exactly 1 %
        ([100.0, 100.0, 100.0, 100.0, 99.01], True),
        ([100.0, 50.0, 50.0, 50.0, 50.0], False),
        ([100.0, 50.0, 50.0, 50.0, 50.0, 50.0], True),
        ([100.0, 99.7, 99.4, 99.2, 99.0, 98.7], False),  # little by little: 99.7 to 98.7 is more than 1 %
    ],
)
def test_a_task_is_flat_when_its_last_trials_gained_less_than_the_share(history: list[float], flat: bool) -> None:
    assert is_flat(history, after=4, gain=0.01) is flat
