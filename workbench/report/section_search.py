"""How the search went: the forecast over its time, each task's trials, what failed, and why each task ended."""

from __future__ import annotations

from collections import Counter

from workbench.charts.forecast import forecast, old_course
from workbench.charts.latency import latency
from workbench.charts.palette import FAILURE_MARKS
from workbench.records.tuning import TaskProgress
from workbench.report.content import ReportContent
from workbench.report.drawing import failure_key, forecast_drawing, latency_drawing
from workbench.report.figures_text import microseconds, milliseconds, plural, times
from workbench.report.markup import Markup, block, joined, tag

_MOST_CURVES = 30
_MOST_LISTED = 20


def search_section(content: ReportContent) -> Markup | None:
    """Curves and how each task ended; None if nothing was searched."""
    searched = _hottest_first(content)
    if not searched:
        return None
    course = forecast(content.columns, content.profile)
    parts: list[Markup | None] = [
        tag("p", _words(content)),
        tag("figure", forecast_drawing(course), tag("figcaption", "Forecast of the whole model; the dashed line is the untuned model."))
        if len(course.model_us) > 1
        else None,
        _legend(content),
        tag("div", *(_curve(content, task) for task in searched[:_MOST_CURVES]), class_="curves"),
        tag("p", f"{plural(len(searched) - _MOST_CURVES, 'task')} more in the table.") if len(searched) > _MOST_CURVES else None,
        _table(searched),
    ]
    return joined(parts)


def old_search_section(content: ReportContent) -> Markup | None:
    """How the latency of the whole model fell in a search of old TVM, and what that listed beside the rows; None if nothing is known."""
    curve, unmatched = content.old_search.curve, content.old_search.unmatched
    course = old_course(curve)
    parts: list[Markup | None] = []
    if len(course.model_us):
        fell = f"from {milliseconds(float(course.model_us[0]))} to {milliseconds(float(course.model_us.min()))}"
        words = f"{plural(curve[-1].trials, 'trial')} in {curve[-1].elapsed_s:,.0f} s: {fell}."
        caption = "Latency of the whole model as the old tuner estimated it, from its best trials of each task."
        parts += [tag("p", words), tag("figure", forecast_drawing(course), tag("figcaption", caption))]
    if unmatched:
        shown = [tag("li", f"{task.tuner}: {task}") for task in unmatched[:_MOST_LISTED]]
        shown += [tag("li", f"and {len(unmatched) - _MOST_LISTED:,} more")] if len(unmatched) > _MOST_LISTED else []
        parts += [tag("p", f"{plural(len(unmatched), 'task')} that it listed can be no row here, or several:"), tag("ul", *shown)]
    return joined(parts) if parts else None


def failures(content: ReportContent) -> Markup | None:
    """Failures by class with the first full text of each; None if nothing failed."""
    counts: Counter[str] = Counter()
    first: dict[str, tuple[str, str]] = {}
    for task in _hottest_first(content):
        counts.update(task.errors)
        for name, error in task.first_errors.items():
            first.setdefault(name, (task.name, error))
    names = sorted({*counts, *first}, key=lambda name: -counts[name])
    if not names:
        return None
    intro = "A candidate that fails costs one trial and never wins. The first full text of each class:"
    return joined([tag("p", intro), *(_failure(name, counts[name], first.get(name)) for name in names)])


def _failure(name: str, number: int, first: tuple[str, str] | None) -> Markup:
    title = f"{name.replace('_', ' ')}: {number:,}" if number else name.replace("_", " ")
    if first is None:
        return tag("p", title)
    task, error = first
    return tag("details", tag("summary", title, tag("span", f" first in {task}", class_="muted")), tag("pre", block(error)))


def _hottest_first(content: ReportContent) -> list[TaskProgress]:
    times_us = {task.task: task.time_us or 0.0 for task in content.profile.tasks}
    return sorted(content.tasks, key=lambda task: -times_us.get(task.task, 0.0))


def _words(content: ReportContent) -> str:
    counted = sum(task.trials for task in content.tasks)
    failed = sum(number for task in content.tasks for number in task.errors.values())
    seconds = sum(task.seconds for task in content.tasks)
    stop = content.manifest.get("last_stop")
    cause = f" It ended because: {stop.get('cause')}." if isinstance(stop, dict) and stop.get("command") == "tune" and stop.get("cause") else ""
    return f"{plural(counted, 'trial')} on {plural(len(content.tasks), 'task')} in {seconds:,.0f} s, of which {failed:,} failed.{cause}"


def _legend(content: ReportContent) -> Markup:
    marks = (
        ("dot measured", "a trial"),
        ("line best", "best so far"),
        ("line untuned", "untuned"),
        ("dot elsewhere", "measured under other conditions"),
    )
    failed = [name for name in FAILURE_MARKS if name in content.columns.statuses]
    return tag(
        "p",
        *(tag("span", tag("i", class_=kind), name, class_="key") for kind, name in marks),
        *(tag("span", failure_key(name), name.replace("_", " "), class_="key") for name in failed),
        "Times on a log scale.",
        class_="legend",
    )


def _curve(content: ReportContent, task: TaskProgress) -> Markup:
    before, now = task.before_and_now_us
    caption = joined([tag("strong", task.name), f" {microseconds(before)} to {microseconds(now)} us ({times(before, now)})"])
    return tag("figure", latency_drawing(latency(content.columns, task.task), title=f"Trials of {task.name}"), tag("figcaption", caption))


def _table(tasks: list[TaskProgress]) -> Markup:
    rows = [
        tag(
            "tr",
            tag("th", task.name, scope="row"),
            tag("td", f"{task.trials:,}", class_="number"),
            tag("td", f"{sum(task.errors.values()):,}", class_="number"),
            tag("td", f"{task.seconds:,.0f}", class_="number"),
            tag("td", task.state),
            tag("td", task.stopped_because),
        )
        for task in tasks
    ]
    names = (("Kernel", ""), ("Trials", "number"), ("Failed", "number"), ("Seconds", "number"), ("State", ""), ("Why it ended", ""))
    head = tag("tr", *(tag("th", name, scope="col", class_=kind or None) for name, kind in names))
    return tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide")
