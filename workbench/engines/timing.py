"""How often kernels are timed: the more often the more hopeful they are; runs none itself."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from workbench.analysis.confidence import CLEARLY, is_enough, is_hopeless
from workbench.records.trial import MeasureOptions

SLOW_US = 5e4
"""A kernel that takes so long is timed run by run: a cold start is lost in it."""

_TIMES_A_CALL = 3
_PATIENCE = 4.0  # a slow kernel may take so many times what the options ask for
_TURNS_US = 2.5e5
_COLD = 2.0
_LEAST_TURNS = 3
_TIMING_SHARE = 0.3  # of a trial's timeout: then a slow kernel has been timed often enough
_QUICK_US = 1000.0
_CLOCK_US = 0.01


class Runner(Protocol):
    """A kernel that can be run on arguments that it has."""

    def once(self) -> float:
        """Microseconds of one call, which is exact enough for a slow kernel."""
        ...

    def evaluate(self, *, number: int, repeat: int) -> list[float]:
        """Microseconds of each of `repeat` times, the mean of `number` runs; TVM runs the kernel once more before, uncounted."""
        ...


@dataclass(frozen=True)
class Turns:
    """How several kernels are timed by turns.

    Attributes:
        times_us: A first time of each.
        numbers: How many runs are to be behind a time.
        rounds: How many times are to be taken: fewer of a slow one.
    """

    times_us: tuple[float, ...]
    numbers: tuple[int, ...]
    rounds: tuple[int, ...]


def times(runner: Runner, *, options: MeasureOptions, best_us: float | None, first_us: float) -> tuple[list[float], int]:
    """Measured times until they are enough, and the runs behind each.

    Args:
        runner: The candidate.
        options: How often.
        best_us: The best time so far.
        first_us: The time of its very first run, with cold caches: enough if it is many times the best.
    """
    tells = first_us > _QUICK_US and not options.cache_flush  # of a quick kernel it measures the cold start
    if tells and best_us is not None and is_hopeless(first_us, best=_COLD * best_us):
        return [first_us], 1
    if first_us > SLOW_US and not options.cache_flush:
        first, runs = first_us, 1  # a cold start is lost in it
    else:
        first, runs = _probe(runner, options, first_us)
    if is_hopeless(first, best=best_us):
        return [first], runs
    number = _number(first, options)
    taken = [first] if number == runs else []
    allowed_s = min(_TIMING_SHARE * options.timeout_s, _PATIENCE * options.repeat * options.min_repeat_ms / 1e3)
    deadline = time.perf_counter() + allowed_s
    while not is_enough(taken, best=best_us, most=options.repeat):
        affordable = int((deadline - time.perf_counter()) * 1e6 / (number * first))
        if taken and affordable < 1:
            break
        wanted = min(_TIMES_A_CALL, affordable, options.repeat - len(taken)) if taken else 1
        taken.extend(_evaluate(runner, options, number=number, repeat=wanted, expected_us=first))
    return taken, number


def planned(runners: Sequence[Runner], *, options: MeasureOptions, rounds: int) -> Turns:
    """How kernels are to be timed by turns in at most so many rounds; each is run for that."""
    times_us = []
    for runner in runners:
        first_us = runner.once()
        is_known = first_us > SLOW_US and not options.cache_flush
        times_us.append(first_us if is_known else _probe(runner, options, first_us)[0])
    numbers = [_number(time_us, options) for time_us in times_us]
    affordable = [int(_TURNS_US / (time_us * number)) for time_us, number in zip(times_us, numbers, strict=True)]
    least = [1 if turns < 1 and time_us > CLEARLY * min(times_us) else _LEAST_TURNS for turns, time_us in zip(affordable, times_us, strict=True)]
    most = tuple(min(max(turns, fewest), rounds) for turns, fewest in zip(affordable, least, strict=True))
    return Turns(tuple(times_us), tuple(numbers), most)


def by_turns(runners: Sequence[Runner], turns: Turns, *, options: MeasureOptions) -> list[list[float]]:
    """Microseconds of each kernel in each of its rounds."""
    probed = zip(turns.times_us, turns.numbers, strict=True)  # what one slow run took is a time too, if times are of one run
    taken: list[list[float]] = [[time_us] if number == 1 and time_us > SLOW_US and not options.cache_flush else [] for time_us, number in probed]
    for turn in range(max(turns.rounds)):
        order = range(len(runners)) if turn % 2 == 0 else reversed(range(len(runners)))
        for index in order:
            if len(taken[index]) < turns.rounds[index]:
                taken[index].extend(_evaluate(runners[index], options, number=turns.numbers[index], expected_us=turns.times_us[index]))
    return taken


def _probe(runner: Runner, options: MeasureOptions, first_us: float) -> tuple[float, int]:
    """A first time and its runs: one, or what a millisecond holds, since one run of a quick kernel measures the clock and the call too."""
    time_us = _evaluate(runner, options, expected_us=first_us)[0]
    runs = min(_number(time_us, options), math.ceil(_QUICK_US / max(time_us, _CLOCK_US)))
    return (time_us, 1) if runs == 1 else (_evaluate(runner, options, number=runs)[0], runs)


def _evaluate(runner: Runner, options: MeasureOptions, *, number: int = 1, repeat: int = 1, expected_us: float = 0.0) -> list[float]:
    """Microseconds of each of `repeat` times, without the uncounted run where it takes long."""
    if number == 1 and expected_us > SLOW_US and not options.cache_flush:
        return [runner.once() for _ in range(repeat)]
    return runner.evaluate(number=number, repeat=repeat)


def _number(time_us: float, options: MeasureOptions) -> int:
    """Runs behind one measured time."""
    if options.cache_flush:
        return 1
    if options.number is not None:
        return options.number
    return max(1, min(round(options.min_repeat_ms * 1e3 / max(time_us, _CLOCK_US)), 1_000_000))
