"""What was tuned and why, and the profile that it was chosen from."""

from __future__ import annotations

from collections.abc import Mapping

from workbench.records.match import RowMatch
from workbench.records.profile import Row
from workbench.report.content import ReportContent
from workbench.report.figures_text import NONE, microseconds, milliseconds, percent, plural
from workbench.report.markup import Markup, joined, tag
from workbench.selection import covered_share

_MOST_ROWS = 60
_MOST_ORIGINS = 6


def selection_section(content: ReportContent) -> Markup:
    """The ticked tasks, the rule that chose them, their share of the time, and what could not be tuned."""
    profile, selection = content.profile, content.selection
    untunable = [task for task in profile.tasks if task.untunable]
    left_out = [tag("li", tag("strong", task.name), f" {percent(task.time_percent)}: {task.untunable}") for task in untunable]
    told = joined([tag("p", f"{plural(len(untunable), 'task')} cannot be tuned:"), tag("ul", *left_out)]) if untunable else None
    if selection is None or not selection.tasks:
        return joined([tag("p", "Nothing is selected."), told])
    share = covered_share(profile, selection)
    by_task = {task.task: task for task in profile.tasks}
    rows = []
    for item in selection.tasks:
        task = by_task.get(item.task)
        rows.append(
            tag(
                "tr",
                tag("th", item.name, scope="row"),
                tag("td", percent(None if task is None else task.time_percent), class_="number"),
                tag("td", NONE if task is None else str(task.weight), class_="number"),
                tag("td", "" if task is None else ", ".join(task.shapes)),
                tag("td", "" if task is None else _origins(content, task.rows)),
            )
        )
    head = tag("tr", *(tag("th", name, scope="col") for name in ("Kernel", "Share", "Calls", "Shapes", "Operators of the model")))
    covered = "" if share is None else f", which take {share * 100:.0f} % of the time"
    intro = f"{plural(len(selection.tasks), 'task')} of {len(profile.tasks)}{covered}; chosen by the rule: {selection.rule}."
    return joined([tag("p", intro), tag("div", tag("table", tag("thead", head), tag("tbody", *rows)), class_="wide"), told])


def profile_table(content: ReportContent) -> Markup:
    """The hottest rows."""
    profile = content.profile
    rows = sorted(profile.rows, key=lambda row: -(row.time_us or 0.0))
    shown, hidden = rows[:_MOST_ROWS], rows[_MOST_ROWS:]
    spread = "" if profile.total_us_iqr is None else f" (distance between the quartiles {milliseconds(profile.total_us_iqr)})"
    intro = (
        f"End to end {milliseconds(profile.total_us)}{spread}, sum of the rows {milliseconds(profile.rows_us)}; "
        f"medians of {plural(profile.repeats, 'round')} on {plural(profile.threads, 'thread')}."
    )
    columns = ["Row", "Kernel", "Operators", "Time (us)", "Spread (us)", "Share", "GFLOP/s", "Output", "From"]
    columns += ["Match"] if content.matches else []
    numeric = {"Row", "Time (us)", "Spread (us)", "Share", "GFLOP/s"}
    head = tag("tr", *(tag("th", name, scope="col", class_="number" if name in numeric else None) for name in columns))
    more = f"{plural(len(hidden), 'row')} more take {milliseconds(sum(row.time_us or 0.0 for row in hidden))} together." if hidden else None
    return joined(
        [
            tag("p", f"Not measured: {profile.unmeasured}." if profile.unmeasured else intro),
            tag("div", tag("table", tag("thead", head), tag("tbody", *(_row(row, content.matches) for row in shown))), class_="wide"),
            tag("p", more) if more else None,
        ]
    )


def _row(row: Row, matches: Mapping[int, RowMatch]) -> Markup:
    flags = [f"{name} {number:,}" for name, number in (("NaN", row.nan_count), ("Inf", row.inf_count)) if number]
    origins = [str(origin) for origin in row.origins[:_MOST_ORIGINS]] + (["..."] if len(row.origins) > _MOST_ORIGINS else [])
    return tag(
        "tr",
        tag("td", str(row.row), class_="number"),
        tag("th", row.node_name, tag("span", f" {' '.join(flags)}", class_="bad") if flags else None, scope="row"),
        tag("td", ", ".join(row.ops)),
        tag("td", microseconds(row.time_us), class_="number"),
        tag("td", microseconds(row.time_us_iqr), class_="number"),
        tag("td", percent(row.time_percent), class_="number"),
        tag("td", NONE if row.gflops is None else f"{row.gflops:,.1f}", class_="number"),
        tag("td", row.shape),
        tag("td", "; ".join(origins)),
        tag("td", _match(matches.get(row.row))) if matches else None,
    )


def _match(match: RowMatch | None) -> str:
    """How surely a row is tied to the program, and why."""
    return NONE if match is None else f"{100 * match.confidence:.0f} %: {match.words}"


def _origins(content: ReportContent, rows: tuple[int, ...]) -> str:
    """The operators behind the first rows of a task."""
    known = {row.row: row for row in content.profile.rows}
    names = list(dict.fromkeys(str(origin) for row in rows for origin in (known[row].origins if row in known else ())))
    return "; ".join(names[:_MOST_ORIGINS]) + (f"; and {len(names) - _MOST_ORIGINS} more" if len(names) > _MOST_ORIGINS else "")
