"""Medians, spreads and verdicts of two models that were timed by turns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from workbench.analysis.confidence import compare, spread
from workbench.engines.apply_protocol import Round
from workbench.records.comparison import FASTER, NO_DIFFERENCE, SLOWER, UNCHANGED, Timing

TOO_SLOW = 1.05
"""A kernel goes back to its baseline if it takes more than so many times as long in the model, beyond the noise, in two batches of rounds."""

_LEAST_US = 1e-3  # below it, a time is what the cost of the instrument left


def timing(before: Sequence[float], after: Sequence[float], *, changed: bool) -> Timing:
    """Compare times in microseconds, one a round; without any, nothing was measured.

    Args:
        before: Of the untuned one.
        after: Of the one with schedules.
        changed: False if both are the same code, so that a difference is noise.
    """
    if not before or not after:
        return Timing()
    first, second = ([max(time_us, _LEAST_US) for time_us in times] for times in (before, after))
    verdict, old, new = compare(first, second), spread(first), spread(second)
    word = FASTER if verdict.faster else SLOWER if verdict.slower else NO_DIFFERENCE
    text = verdict.text if changed else f"the same code: {old.median:,.1f} and {new.median:,.1f} us"
    return Timing(
        baseline_us=old.median,
        baseline_us_iqr=old.iqr,
        tuned_us=new.median,
        tuned_us_iqr=new.iqr,
        ratio=verdict.ratio,
        ratio_error=verdict.ratio_error,
        verdict=word if changed else UNCHANGED,
        text=text,
    )


def is_too_slow(found: Timing) -> bool:
    """True if the tuned one is slower beyond the noise and by more than a little."""
    return found.verdict == SLOWER and found.ratio is not None and found.ratio < 1.0 / TOO_SLOW


def total_timing(rounds: Sequence[Round], *, changed: bool) -> Timing:
    """The whole models."""
    return timing([found.total_us[0] for found in rounds], [found.total_us[1] for found in rounds], changed=changed)


def rows_timing(rounds: Sequence[Round], rows: Iterable[int], *, changed: bool) -> Timing:
    """One call of a kernel, on average over the rows that call it."""
    chosen = tuple(rows)
    if not chosen:
        return Timing()
    before, after = ([sum(found.calls_us[which][row] for row in chosen) / len(chosen) for found in rounds] for which in (0, 1))
    return timing(before, after, changed=changed)
