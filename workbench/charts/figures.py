"""Figures as plotly understands them, made of chart data: plain dictionaries whose numbers are NumPy arrays.

plotly itself is not imported: a figure is data, and its own classes would only check what a test checks once.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from workbench.charts.columns import Floats
from workbench.charts.forecast import Forecast, Pace
from workbench.charts.latency import BestLine, Latency, Points
from workbench.charts.palette import BLUE, FAILURE_MARKS, GREEN, GREY, TASK_COLOURS, VERMILION, task_colour

Figure = dict[str, Any]

MEASURED = "measured"
ELSEWHERE = "other conditions"

_ROW = 0.065
_GAP = 0.03
_FEW_DECADES = 200.0
_MARGIN = {"l": 60, "r": 16, "t": 8, "b": 44}


def latency_figure(data: Latency, *, classes: Iterable[str], names: Mapping[int, str]) -> Figure:
    """The latency of each trial on a log scale, the best so far, the baseline, and below them a row of marks for each class of failure.

    Args:
        data: What to show.
        classes: Classes of failure that get a row, also those that no trial of `data` has.
        names: Names of the tasks by their codes.
    """
    rows = tuple(name for name in FAILURE_MARKS if name in set(classes))
    relative = data.task is None
    bottom = len(rows) * _ROW + (_GAP if rows else 0.0)
    traces = [
        *(_scatter(MEASURED, points, {"size": 5, "opacity": 0.75, "color": colour}) for colour, points in _by_colour(data)),
        _scatter(ELSEWHERE, data.elsewhere, {"size": 6, "opacity": 0.6, "symbol": "circle-open", "color": GREY}),
        *(_failures(name, data.failures.get(name), place) for place, name in enumerate(rows)),
        *(_best_line(line, names, relative=relative) for line in data.best),
    ]
    layout: Figure = {
        "xaxis": {"title": {"text": "trial of the session" if relative else "trial"}, "anchor": "y2" if rows else "y", "rangemode": "nonnegative"},
        "yaxis": {"type": "log", "domain": [bottom, 1.0], "title": {"text": "time / untuned time" if relative else "time (us)"}, **_log_ticks(data)},
        "shapes": [],
        "annotations": [],
        "margin": _MARGIN,
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": 1.02, "yanchor": "bottom", "x": 0},
        "showlegend": not relative,  # the colours of tasks stand beside their names
    }
    if rows:
        layout["yaxis2"] = {
            "domain": [0.0, len(rows) * _ROW],
            "range": [-0.5, len(rows) - 0.5],
            "tickvals": list(range(len(rows))),
            "ticktext": [name.replace("_", " ") for name in rows],
            "tickfont": {"size": 10},
            "fixedrange": True,
            "showgrid": False,
            "zeroline": False,
        }
    if data.baseline is not None and data.baseline > 0:
        _mark_baseline(layout, data.baseline, "untuned" if relative else f"untuned {data.baseline:,.1f} us")
    return {"data": traces, "layout": layout}


def latency_increment(data: Latency, *, classes: Iterable[str]) -> dict[int, dict[str, Floats]]:
    """What new trials append to the traces of `latency_figure`, by the place of the trace; the best lines are told apart."""
    rows = tuple(name for name in FAILURE_MARKS if name in set(classes))
    parts = [*(points for _, points in _by_colour(data)), data.elsewhere]
    added = {place: {"x": points.x, "y": points.y} for place, points in enumerate(parts) if len(points)}
    for row, name in enumerate(rows):
        found = data.failures.get(name)
        if found is not None and len(found):
            added[len(parts) + row] = {"x": found.x, "y": np.full(len(found), float(row))}
    return added


def first_best_line(data: Latency, *, classes: Iterable[str]) -> int:
    """Place of the first best line among the traces of `latency_figure`; the others follow it."""
    return len(_by_colour(data)) + 1 + sum(name in FAILURE_MARKS for name in set(classes))


def forecast_figure(data: Forecast, speed: Pace) -> Figure:
    """The forecast of the whole model over the time of search, with the trials a second below."""
    layout: Figure = {
        "xaxis": {"title": {"text": "search time (s)"}, "anchor": "y2", "rangemode": "tozero"},
        "yaxis": {"domain": [0.36, 1.0], "title": {"text": "model (ms)"}, "rangemode": "tozero"},
        "yaxis2": {"domain": [0.0, 0.24], "title": {"text": "trials/s"}, "rangemode": "tozero", "nticks": 3},
        "shapes": [],
        "annotations": [],
        "margin": _MARGIN,
        "showlegend": False,
    }
    if data.total_us is not None:
        _mark_baseline(layout, data.total_us / 1e3, f"untuned {data.total_us / 1e3:,.2f} ms", log=False)
    elif len(data.model_us):
        corner = {"xref": "paper", "yref": "paper", "x": 1, "y": 1, "xanchor": "right", "yanchor": "top"}
        layout["annotations"].append({"text": "as the old tuner estimated it", "showarrow": False, "font": {"color": GREY, "size": 11}, **corner})
    return {"data": forecast_traces(data, speed), "layout": layout}


def forecast_traces(data: Forecast, speed: Pace) -> list[dict[str, Any]]:
    """The two traces of `forecast_figure`."""
    steps = _steps(data.elapsed_s, data.model_us / 1e3, data.end_s)
    line = {"type": "scatter", "mode": "lines", "name": "forecast of the model", "line": {"shape": "hv", "width": 2, "color": GREEN}, **steps}
    style = {"line": {"shape": "hv", "width": 1, "color": BLUE}, "fill": "tozeroy"}
    return [line, {"type": "scatter", "mode": "lines", "name": "trials a second", "yaxis": "y2", **style, **pace_steps(speed)}]


def pace_steps(speed: Pace) -> dict[str, Floats]:
    """Trials a second as an outline that holds its value from the beginning to the end of each stretch of time."""
    begins = speed.elapsed_s - speed.width_s / 2
    return _steps(begins, speed.per_s, float(begins[-1]) + speed.width_s if len(begins) else 0.0)


def _log_ticks(data: Latency) -> dict[str, Any]:
    """Ticks at 1, 2 and 5 where that is not too many, in numbers that a reader knows."""
    times = data.measured.y
    few = len(times) > 0 and float(times.max()) < _FEW_DECADES * float(times.min())
    return {"tickformat": ",~g", **({"dtick": "D2"} if few else {})}


def _mark_baseline(layout: Figure, value: float, text: str, *, log: bool = True) -> None:
    layout["shapes"].append(
        {"type": "line", "xref": "paper", "x0": 0, "x1": 1, "y0": value, "y1": value, "line": {"dash": "dash", "width": 1.5, "color": GREY}}
    )
    place = {"xref": "paper", "x": 1, "xanchor": "right", "y": math.log10(value) if log else value, "yanchor": "bottom"}
    layout["annotations"].append({"text": text, "showarrow": False, "font": {"color": GREY, "size": 11}, **place})


def _scatter(name: str, points: Points, marker: dict[str, Any]) -> dict[str, Any]:
    return {"type": "scattergl", "mode": "markers", "name": name, "x": points.x, "y": points.y, "marker": marker, "hoverinfo": "none"}


def _failures(name: str, points: Points | None, place: int) -> dict[str, Any]:
    symbol, colour = FAILURE_MARKS[name]
    x = np.zeros(0) if points is None else points.x
    marks = Points(x, np.full(len(x), float(place)), np.zeros(len(x), dtype=np.int64))
    return {**_scatter(name.replace("_", " "), marks, {"symbol": symbol, "color": colour, "size": 7}), "yaxis": "y2", "showlegend": False}


def _best_line(line: BestLine, names: Mapping[int, str], *, relative: bool) -> dict[str, Any]:
    colour, name = (task_colour(line.task), names.get(line.task, "?")) if relative else (VERMILION, "best so far")
    style = {"shape": "hv", "width": 2, "color": colour}
    shown = html.escape(name, quote=False)  # plotly takes names for a little HTML
    return {"type": "scatter", "mode": "lines", "name": shown, "line": style, "hoverinfo": "skip", **_steps(line.x, line.y, line.end)}


def _steps(x: Floats, y: Floats, end: float) -> dict[str, Floats]:
    """A line that holds its last value until `end`."""
    return {"x": np.append(x, end), "y": np.append(y, y[-1])} if len(x) else {"x": x, "y": y}


def _by_colour(data: Latency) -> list[tuple[str, Points]]:
    """One colour for a task's own chart; of all tasks, the points of each colour as a trace: plotly is slow with a colour for each point."""
    if data.task is not None:
        return [(BLUE, data.measured)]
    code = data.measured.task % len(TASK_COLOURS)
    return [(colour, data.measured.at(np.flatnonzero(code == place))) for place, colour in enumerate(TASK_COLOURS)]
