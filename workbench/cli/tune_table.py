"""Owns the table of a search that has ended: before and after by kernel, verdicts, totals and failures; it measures and decides nothing."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from rich.console import Group, RenderableType

from workbench.cli import formats
from workbench.cli.grid import Column, Grid, Line, Sentence
from workbench.cli.profile_table import remark_sentences
from workbench.cli.tune_figures import first_line, gain, model_forecast_us
from workbench.cli.tune_words import duration
from workbench.records.profile import Profile
from workbench.records.trial import WRONG_RESULT
from workbench.records.tuning import FAILED, FASTER, TaskProgress

_COLUMNS = (
    Column("Task", priority=0, least=12),
    Column("Weight", priority=5, right=True),
    Column("Baseline(us)", priority=3, right=True),
    Column("Best(us)", priority=1, right=True),
    Column("Gain", priority=4, right=True, style="green"),
    Column("Trials", priority=7, right=True),
    Column("Errors", priority=6, right=True, style="red"),
    Column("Verdict", priority=2, least=20),
    Column("Stopped because", priority=8, least=24),
)


def tune_table(result: Mapping[str, Any], progress: Iterable[TaskProgress], profile: Profile) -> RenderableType:
    """What came out of a search.

    Args:
        result: The search as in ``tune --json``.
        progress: How far each task of the session is.
        profile: The profile that was searched.
    """
    of_task = {task.task: task for task in progress}
    tasks = [of_task[item["task"]] for item in result["tasks"] if item["task"] in of_task]
    lines = tuple(_line(task) for task in tasks)
    sentences = [("bold", words) for words in _totals(result, tasks, profile)]
    sentences += [("red", words) for words in _failures(tasks)]
    return Group(
        Grid(_COLUMNS, lines, remedy="widen the terminal, or use --json"),
        *(Sentence(words, style=style) for style, words in sentences),
        *remark_sentences(profile),
    )


def _line(task: TaskProgress) -> Line:
    before_us, now_us = task.before_and_now_us
    faster = gain(task)
    return Line(
        cells=(
            task.name,
            str(task.weight),
            formats.microseconds(before_us),
            formats.microseconds(now_us),
            "-" if faster is None else f"{faster:.2f}x",
            str(task.trials),
            str(sum(task.errors.values())) if task.errors else "",
            _verdict(task),
            task.stopped_because,
        ),
        style="red" if task.state == FAILED else "",
    )


def _verdict(task: TaskProgress) -> str:
    """The last measurement's verdict without the figures that stand beside it."""
    if task.final is not None:
        words = task.final.why.partition(": ")[0]
        return words.removesuffix(" as fast") if task.final.verdict == FASTER else f"keeps the baseline: {words}"
    if task.state == FAILED:
        return "failed"
    return "no verdict: the best was not measured again" if task.best_us is not None else "not measured"


def _totals(result: Mapping[str, Any], tasks: list[TaskProgress], profile: Profile) -> list[str]:
    """What the tuned kernels take together before and after, what that makes of the model, and what it cost."""
    totals = []
    timed = [(task.weight, before_us, now_us) for task in tasks for before_us, now_us in [task.before_and_now_us] if before_us and now_us]
    if timed:
        before_us = sum(weight * before for weight, before, _ in timed)
        now_us = sum(weight * now for weight, _, now in timed)
        calls = sum(weight for weight, _, _ in timed)
        totals.append(f"{calls:,} call{'' if calls == 1 else 's'} of these kernels: {_change(before_us, now_us)}")
        forecast_us = model_forecast_us(profile, tasks)
        if profile.total_us is not None and forecast_us:
            totals.append(f"forecast of the whole model: {_change(profile.total_us, forecast_us)}")
    trials = sum(task.trials for task in tasks)
    totals.append(f"{trials:,} trials of these tasks, {duration(result['seconds'])}: {result['stopped_because']}")
    return totals


def _change(before_us: float, now_us: float) -> str:
    return f"{formats.microseconds(before_us)} to {formats.microseconds(now_us)} us ({before_us / now_us:.2f}x)"


def _failures(tasks: list[TaskProgress]) -> list[str]:
    """A line for each class of failures with its first text; one for each task with wrong results; one for each task that failed itself."""
    counts: dict[str, int] = {}
    first: dict[str, tuple[str, str]] = {}
    for task in tasks:
        for name, number in task.errors.items():
            counts[name] = counts.get(name, 0) + number
            first.setdefault(name, (task.name, task.first_errors.get(name, "")))
    lines = [
        f"{counts[name]:,} {name}, the first in {first[name][0]}: {first_line(first[name][1])}"
        for name in sorted(counts, key=lambda name: -counts[name])
        if name != WRONG_RESULT
    ]
    lines += [
        f"{task.errors[WRONG_RESULT]:,} wrong_result in {task.name}: {first_line(task.first_errors.get(WRONG_RESULT, ''))}"
        for task in tasks
        if task.errors.get(WRONG_RESULT)
    ]
    return lines + [f"{task.name} failed: {task.stopped_because}" for task in tasks if task.state == FAILED]
