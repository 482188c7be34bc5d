"""Which decisions of a schedule matter: main effects on the logarithm of the time, with the chance that they are none.

For each knob the trials are grouped by its value, and the share of the variance between the groups (eta squared) is compared with that under
permutations of the times within each sketch. The chance is that of the largest standardised share of all knobs (Westfall and Young's max-T, 1993),
so that a task of many knobs does not find one by looking often enough.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.records.knob import KnobEffect, KnobEffects, KnobLevel

LEAST_TRIALS = 8
SKETCH = "sketch"

_METHOD = (
    "Main effects on log time within each sketch: eta squared less what chance gives, {count} permutations, p of the largest of all knobs; "
    "ratios with 95 % bootstrap intervals."
)
_CONFOUNDED = "A search does not try values evenly: of knobs that it moved together, each shows the effect of all."
_SIGNIFICANT = 0.05
_PERMUTATIONS = 999
_RESAMPLES = 500
_LEAST_OF_A_SKETCH = 4
_LEAST_OF_A_LEVEL = 3
_MOST_LEVELS = 6
_OTHERS = "others"

Array = np.ndarray[Any, np.dtype[np.float64]]
Value = str | int | float


@dataclass(frozen=True)
class KnobTrial:
    """One measured trial.

    Attributes:
        time_us: Its time, above 0.
        sketch: Which sketch its schedule is of: knobs of different sketches have different meanings.
        values: Value of each knob by name; numbers are of a scale where doubling counts.
    """

    time_us: float
    sketch: str
    values: Mapping[str, Value]


@dataclass(frozen=True)
class _Grouped:
    """A knob with its trials grouped by value.

    Attributes:
        knob: Its name.
        labels: What the groups are.
        places: Trials that have it.
        groups: Group of each of these trials.
    """

    knob: str
    labels: tuple[str, ...]
    places: np.ndarray[Any, np.dtype[np.int64]]
    groups: np.ndarray[Any, np.dtype[np.int64]]


def knob_effects(task: str, trials: Sequence[KnobTrial], *, seed: int = 0, permutations: int = _PERMUTATIONS) -> KnobEffects:
    """The effect of each knob, the largest share first.

    Args:
        task: What the trials are of.
        trials: Measured trials.
        seed: Equal seeds give equal answers.
        permutations: How many.
    """
    counts = Counter(trial.sketch for trial in trials)
    method = _METHOD.format(count=permutations)
    if len(trials) < LEAST_TRIALS:
        return KnobEffects(task, len(trials), len(counts), method, f"{len(trials)} trials are too few: {LEAST_TRIALS} are the least.", ())
    random = np.random.default_rng(seed)
    times = np.log(np.array([trial.time_us for trial in trials], dtype=np.float64))
    sketches = [trial.sketch for trial in trials]
    within = _residuals(times, sketches)
    inner = [place for place, sketch in enumerate(sketches) if counts[sketch] >= _LEAST_OF_A_SKETCH]
    names = dict.fromkeys(name for place in inner for name in trials[place].values)
    knobs = [grouped for name in names if (grouped := _grouped(name, [(place, trials[place].values.get(name)) for place in inner])) is not None]
    of_sketch = _grouped(SKETCH, list(enumerate(_sketch_names(sketches))))
    shuffled = _permuted(within, sketches, random, permutations)
    cases = [(knob, within, shuffled) for knob in knobs]
    if of_sketch is not None:
        cases.append((of_sketch, times - times.mean(), _permuted(times - times.mean(), [""] * len(trials), random, permutations)))
    effects = _tested(cases, random)
    note = _CONFOUNDED if effects else "No knob has two values among these trials."
    return KnobEffects(task, len(trials), len(counts), method, note, tuple(sorted(effects, key=lambda effect: (-effect.share, effect.p_value))))


def effects_text(effects: KnobEffects) -> str:
    """The effects as a table in plain text."""
    count = f"{effects.trials} measured trials of {effects.sketches} sketch{'' if effects.sketches == 1 else 'es'}."
    lines = [count, effects.method, *([effects.note] if effects.note else []), ""]
    if not effects.effects:
        return "\n".join([*lines[:-1], ""])
    width = max(len(effect.knob) for effect in effects.effects)
    lines.append(f"{'':8}{'knob':<{width}}  {'share':>6}  {'p':>6}  {'slowest/fastest':>22}  relative time by value (trials)")
    for effect in effects.effects:
        ratio = "" if effect.ratio is None else f"{effect.ratio:.2f} ({effect.ratio_low:.2f} to {effect.ratio_high:.2f})"
        levels = ", ".join(f"{level.value}: {level.relative_time:.2f} ({level.trials})" for level in effect.levels)
        mark = "matters " if effect.matters else "        "
        lines.append(f"{mark}{effect.knob:<{width}}  {100 * effect.share:4.0f} %  {effect.p_value:6.3f}  {ratio:>22}  {levels}")
    return "\n".join([*lines, ""])


def _residuals(times: Array, sketches: Sequence[str]) -> Array:
    """Times less the mean of their sketch."""
    result = times.copy()
    for places in _places(sketches):
        result[places] -= times[places].mean()
    return result


def _permuted(times: Array, strata: Sequence[str], random: np.random.Generator, count: int) -> Array:
    """Permutations of the times within each stratum, one a row."""
    rows = np.tile(times, (count, 1))
    for places in _places(strata):
        rows[:, places] = random.permuted(rows[:, places], axis=1)
    return rows


def _places(names: Sequence[str]) -> list[list[int]]:
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        found.setdefault(name, []).append(place)
    return list(found.values())


def _sketch_names(sketches: Sequence[str]) -> list[str]:
    """Short names of sketches, in order of their first trial."""
    order = {sketch: place for place, sketch in enumerate(dict.fromkeys(sketches))}
    return [str(order[sketch] + 1) for sketch in sketches]


def _grouped(name: str, values: Sequence[tuple[int, Value | None]]) -> _Grouped | None:
    """Trials by value of one knob; None if they all have the same one."""
    present = [(place, value) for place, value in values if value is not None]
    labels = _labels([value for _, value in present])
    order = {label: place for place, label in enumerate(dict.fromkeys(labels))}
    if len(order) < 2:
        return None
    places = np.array([place for place, _ in present], dtype=np.int64)
    return _Grouped(name, tuple(order), places, np.array([order[label] for label in labels], dtype=np.int64))


def _labels(values: Sequence[Value]) -> list[str]:
    """The group of each value: itself, or where there are many, its power of two or ``others``."""
    if len(set(values)) <= _MOST_LEVELS:
        return [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    if all(isinstance(value, int | float) for value in values):
        return _binned([float(value) for value in values])
    kept = {value for value, _ in Counter(values).most_common(_MOST_LEVELS - 1)}
    return [str(value) if value in kept else _OTHERS for value in values]


def _binned(values: Sequence[float]) -> list[str]:
    """Ranges of about as many trials each."""
    edges = sorted(set(np.quantile(values, np.linspace(0, 1, _MOST_LEVELS + 1)[1:-1], method="higher").tolist()))
    found = np.searchsorted(edges, values, side="left")
    members: dict[int, list[float]] = {}
    for group, value in zip(found.tolist(), values, strict=True):
        members.setdefault(group, []).append(value)
    names = {group: _range(min(inside), max(inside)) for group, inside in members.items()}
    return [names[group] for group in found.tolist()]


def _range(low: float, high: float) -> str:
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


def _tested(cases: Sequence[tuple[_Grouped, Array, Array]], random: np.random.Generator) -> list[KnobEffect]:
    """The effect of each knob, with the chance that the largest of all would be as large if none mattered."""
    shares, means, deviations, nulls = [], [], [], []
    for knob, times, permuted in cases:
        null = _eta_squared(knob, permuted)
        shares.append(float(_eta_squared(knob, times[None, :])[0]))
        means.append(float(null.mean()))
        deviations.append(max(float(null.std()), 1e-12))
        nulls.append((null - means[-1]) / deviations[-1])
    if not cases:
        return []
    largest = np.max(np.stack(nulls), axis=0)
    effects = []
    for (knob, times, _), share, mean, deviation in zip(cases, shares, means, deviations, strict=True):
        exceeded = int((largest >= (share - mean) / deviation - 1e-9).sum())
        p_value = (1 + exceeded) / (1 + len(largest))
        effects.append(_effect(knob, times, share=max((share - mean) / (1 - mean), 0.0) if mean < 1 else 0.0, p_value=p_value, random=random))
    return effects


def _eta_squared(knob: _Grouped, times: Array) -> Array:
    """Share of the variance between the groups, for each row of times."""
    chosen = times[:, knob.places]
    chosen = chosen - chosen.mean(axis=1, keepdims=True)
    member = (knob.groups[:, None] == np.arange(len(knob.labels))[None, :]).astype(np.float64)
    between = ((chosen @ member) ** 2 / member.sum(axis=0)).sum(axis=1)
    total = (chosen**2).sum(axis=1)
    shares: Array = np.divide(between, total, out=np.zeros_like(between), where=total > 0)
    return shares


def _effect(knob: _Grouped, times: Array, *, share: float, p_value: float, random: np.random.Generator) -> KnobEffect:
    groups = [times[knob.places[knob.groups == group]] for group in range(len(knob.labels))]
    levels = [KnobLevel(label, len(group), math.exp(float(group.mean()))) for label, group in zip(knob.labels, groups, strict=True)]
    ratio, low, high = _ratio([group for group in groups if len(group) >= _LEAST_OF_A_LEVEL], random)
    return KnobEffect(
        knob=knob.knob,
        share=share,
        p_value=p_value,
        matters=p_value < _SIGNIFICANT,
        ratio=ratio,
        ratio_low=low,
        ratio_high=high,
        trials=len(knob.places),
        levels=tuple(sorted(levels, key=lambda level: level.relative_time)),
    )


def _ratio(groups: Sequence[Array], random: np.random.Generator) -> tuple[float | None, float | None, float | None]:
    """Geometric mean of the slowest group divided by that of the fastest, with its bootstrap interval."""
    if len(groups) < 2:
        return None, None, None
    fastest, slowest = min(groups, key=lambda group: float(group.mean())), max(groups, key=lambda group: float(group.mean()))
    resampled = [group[random.integers(len(group), size=(_RESAMPLES, len(group)))].mean(axis=1) for group in (slowest, fastest)]
    low, high = np.exp(np.quantile(resampled[0] - resampled[1], [0.025, 0.975])).tolist()
    return math.exp(float(slowest.mean() - fastest.mean())), low, high
