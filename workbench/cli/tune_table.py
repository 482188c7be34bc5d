"""Owns the table of a search that has ended: before and after by kernel, verdicts, totals and failures; it measures and decides nothing."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType

from workbench.analysis.forecast import model_forecast_us
from workbench.cli import formats
from workbench.cli.grid import Column, Grid, Line, Sentence
from workbench.cli.profile_table import remark_sentences
from workbench.cli.tune_figures import first_line, gain
from workbench.cli.tune_words import duration, short_errors
from workbench.escaping import plain
from workbench.records.profile import Profile
from workbench.records.trial import WRONG_RESULT
from workbench.records.tuning import FAILED, FASTER, NOTE, DryRun, TaskProgress
from workbench.report.figures_text import plural

_REMEDY = "widen the terminal, or use --json"

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
_DRY_COLUMNS = (
    Column("Task", priority=0, least=12),
    Column("Weight", priority=6, right=True),
    Column("Candidates", priority=3, right=True),
    Column("Built", priority=1, right=True),
    Column("Checked", priority=2, right=True, style="green"),
    Column("Rejected", priority=4, right=True),
    Column("Errors", priority=5, least=10, style="red"),
    Column("Space", priority=7, right=True),
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
    dry = [(task, task.dry_run) for task in tasks if task.dry_run is not None]
    if dry:
        grid = Grid(_DRY_COLUMNS, tuple(_dry_line(task, counts) for task, counts in dry), remedy=_REMEDY)
        sentences = [("bold", words) for words in _dry_totals(result, [counts for _, counts in dry])]
    else:
        grid = Grid(_COLUMNS, tuple(_line(task) for task in tasks), remedy=_REMEDY)
        sentences = [("bold", words) for words in _totals(result, tasks, of_task.values(), profile)]
    sentences += [("", words) for words in _sources(result)]
    sentences += [("yellow", words) for words in dict.fromkeys(task.first_errors[NOTE] for task in tasks if NOTE in task.first_errors)]
    sentences += [("red", words) for words in _failures([(task, counts.failures) for task, counts in dry] or [(task, task.errors) for task in tasks])]
    return Group(grid, *(Sentence(words, style=style) for style, words in sentences), *remark_sentences(profile))


def _dry_line(task: TaskProgress, counts: DryRun) -> Line:
    return Line(
        cells=(
            task.name,
            str(task.weight),
            f"{counts.candidates:,}",
            f"{counts.built:,}",
            f"{counts.checked:,}",
            f"{counts.rejected:,}",
            short_errors(counts.failures),
            formats.space(task.space_size, task.space),
            task.stopped_because,
        ),
        style="red" if task.state == FAILED else "",
    )


def _dry_totals(result: Mapping[str, Any], dry: list[DryRun]) -> list[str]:
    """What became of all candidates, what was none, and what it cost."""
    candidates, built, checked = (sum(getattr(counts, name) for counts in dry) for name in ("candidates", "built", "checked"))
    unchecked, rejected = sum(counts.unchecked for counts in dry), sum(counts.rejected for counts in dry)
    failed = sum(sum(counts.failures.values()) for counts in dry)
    parts = [f"{built:,} built", f"{checked:,} checked and right"]
    parts += [f"{number:,} {words}" for number, words in ((unchecked, "built and not checked"), (failed, "failed")) if number]
    totals = [f"{plural(candidates, 'candidate')}, none measured: {', '.join(parts)}"]
    if rejected:
        totals.append(f"{plural(rejected, 'draw')} of decisions rejected: they gave no valid schedule, and so no candidate")
    return [*totals, f"{duration(result['seconds'])}: {result['stopped_because'] or 'not ended'}"]


def _sources(result: Mapping[str, Any]) -> list[str]:
    """What each source of a transfer gave."""
    return [line for source in result.get("transfer") or () for line in (_source(source), *map(_workload, source.get("workloads") or ()))]


def _source(source: Mapping[str, Any]) -> str:
    if source.get("why"):
        return f"from {plain(source['source'], 120)}: not used: {plain(source['why'], 200)}"
    return (
        f"from {plain(source['source'], 120)}: {plural(source['schedules'], 'schedule')} taken; {source['for_target']:,} of "
        f"{plural(source['records'], 'record')} for this target, {plural(source['bad_lines'], 'line')} that cannot be used"
    )


def _workload(workload: Mapping[str, Any]) -> str:
    """What became of one workload of an auto_scheduler log."""
    name = f"  {plain(workload['workload'], 60)}: "
    if not workload["tasks"]:
        return f"{name}not used: {plain(workload['why'], 200)}"
    return name + "; ".join(map(_translated, workload["tasks"]))


def _translated(task: Mapping[str, Any]) -> str:
    parts = [f"{task['translated']} of the fastest {plural(task['tried'], 'record')} translated to {plain(task['name'], 60)}"]
    parts.append(f"{task['right']} of {task['measured']} measured right")
    if task["best_us"] is not None:
        parts.append(f"the fastest takes {formats.microseconds(task['best_us'])} us, in the log {formats.microseconds(task['best_claimed_us'])} us")
    parts += [f"{number} not translatable: {plain(reason, 120)}" for reason, number in task["untranslatable"].items()]
    return ", ".join(parts)


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
    if task.best_us is None:
        return task.elsewhere or "not measured"
    return "no verdict: the best was not measured again"


def _totals(result: Mapping[str, Any], tasks: list[TaskProgress], searched: Collection[TaskProgress], profile: Profile) -> list[str]:
    """What the tuned kernels take together before and after, what that makes of the model, and what it cost."""
    totals = []
    timed = [(task.weight, before_us, now_us) for task in tasks for before_us, now_us in [task.before_and_now_us] if before_us and now_us]
    if timed:
        before_us = sum(weight * before for weight, before, _ in timed)
        now_us = sum(weight * now for weight, _, now in timed)
        calls = plural(sum(weight for weight, _, _ in timed), "call")
        totals.append(f"{calls} of these kernels: {_change(before_us, now_us)}")
        forecast_us = model_forecast_us(profile, searched)
        if profile.total_us is not None and forecast_us:
            known = " with what was found for other tasks before" if forecast_us != model_forecast_us(profile, tasks) else ""
            totals.append(f"forecast of the whole model{known}: {_change(profile.total_us, forecast_us)}")
    trials = sum(task.trials for task in tasks)
    totals.append(f"{plural(trials, 'trial')} of these tasks, {duration(result['seconds'])}: {result['stopped_because'] or 'not ended'}")
    return totals


def _change(before_us: float, now_us: float) -> str:
    return f"{formats.microseconds(before_us)} to {formats.microseconds(now_us)} us ({before_us / now_us:.2f}x)"


def _failures(failed: Sequence[tuple[TaskProgress, Mapping[str, int]]]) -> list[str]:
    """A line for each class of failures with its first text; one for each task with wrong results; one for each task that failed itself."""
    counts: dict[str, int] = {}
    first: dict[str, tuple[str, str]] = {}
    for task, errors in failed:
        for name, number in errors.items():
            counts[name] = counts.get(name, 0) + number
            first.setdefault(name, (task.name, task.first_errors.get(name, "")))
    lines = [
        f"{counts[name]:,} {name}, the first in {first[name][0]}: {first_line(first[name][1])}"
        for name in sorted(counts, key=lambda name: -counts[name])
        if name != WRONG_RESULT
    ]
    lines += [
        f"{errors[WRONG_RESULT]:,} wrong_result in {task.name}: {first_line(task.first_errors.get(WRONG_RESULT, ''))}"
        for task, errors in failed
        if errors.get(WRONG_RESULT)
    ]
    return lines + [f"{task.name} failed: {task.stopped_because}" for task, _ in failed if task.state == FAILED]
