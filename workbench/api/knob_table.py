"""Measured trials as what the analysis of knobs reads: times, sketches, and the value of each knob by name."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from workbench.analysis.knob_effects import KnobTrial, Value
from workbench.records.knob import Knob
from workbench.records.trial import Trial
from workbench.tuning_database.sampled import Sampled, sampled

MOST_SKETCHES = 12
"""Each sketch has to be replayed once for the names of its loops."""

Traced = tuple[Trial, str]


def sketches_of(trials: Sequence[Traced]) -> dict[str, int]:
    """The sketches with the most trials, each with the number of a trial that can stand for it."""
    found = [(read.sketch, trial.number) for trial, trace in trials if (read := sampled(trace)) is not None]
    counts = Counter(sketch for sketch, _ in found)
    number_of = dict(reversed(found))
    return {sketch: number_of[sketch] for sketch, _ in counts.most_common(MOST_SKETCHES)}


def knob_table(trials: Sequence[Traced], names: Mapping[str, Sequence[Knob]]) -> list[KnobTrial]:
    """The trials of those sketches whose knobs have names.

    Args:
        trials: Measured trials with their traces.
        names: The knobs of each sketch.
    """
    by_place = {sketch: {knob.instruction: knob for knob in knobs if knob.sampled} for sketch, knobs in names.items()}
    table = []
    for trial, trace in trials:
        read = sampled(trace)
        if read is not None and read.sketch in by_place and trial.time_us is not None and trial.time_us > 0:
            table.append(KnobTrial(trial.time_us, read.sketch, _values(read, by_place[read.sketch])))
    return table


def _values(read: Sampled, knobs: Mapping[int, Knob]) -> dict[str, Value]:
    """Values by the knob's name; a tiling is a knob for each of its factors."""
    values: dict[str, Value] = {}
    for place, value in read.values.items():
        name = knobs[place].knob if place in knobs else f"decision {place}"
        if isinstance(value, tuple):
            values.update({f"{name}, factor {index} of {len(value)}": factor for index, factor in enumerate(value, 1)})
        else:
            values[name] = value
    return values
