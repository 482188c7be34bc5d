"""Charts as SVG: the chart data that the live view shows, drawn for paper; colours are the page's, told apart by shape and label too."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from workbench.charts.bars import KernelTime
from workbench.charts.columns import Floats
from workbench.charts.forecast import Forecast
from workbench.charts.latency import Latency, reduced
from workbench.charts.palette import FAILURE_MARKS
from workbench.report.markup import Markup, joined, tag
from workbench.report.scales import Scale, linear, logarithmic, number

_MOST_POINTS = 400
_ROW = 9.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 52.0, 10.0, 18.0, 34.0
_MARKS = {
    "square": "M{x} {y}m-3-3h6v6h-6z",
    "triangle-up": "M{x} {y}m0-4l3.6 6.4h-7.2z",
    "x": "M{x} {y}m-3-3l6 6m0-6l-6 6",
    "circle-open": "M{x} {y}m-3 0a3 3 0 1 0 6 0a3 3 0 1 0-6 0",
    "diamond": "M{x} {y}m0-4l4 4l-4 4l-4-4z",
}


@dataclass(frozen=True)
class _Plane:
    """Both axes of a chart."""

    across: Scale
    up: Scale

    def at(self, x: float, y: float) -> str:
        """A place as a path has it."""
        return f"{self.across.place(x):.1f} {self.up.place(y):.1f}"


def latency_drawing(data: Latency, *, title: str, width: int = 340, height: int = 200) -> Markup:
    """The trials of one task: points, best so far, baseline, and a row of marks for each class of failure."""
    shown = reduced(data, most=_MOST_POINTS)
    rows = [name for name in FAILURE_MARKS if name in shown.failures]
    bottom = height - _BOTTOM - len(rows) * _ROW
    ends = [line.end for line in shown.best]
    xs = np.concatenate([shown.measured.x, shown.elsewhere.x, *(points.x for points in shown.failures.values()), np.array(ends), np.zeros(1)])
    times = [*shown.measured.y.tolist(), *shown.elsewhere.y.tolist(), *([shown.baseline] if shown.baseline else [])]
    plane = _Plane(linear(xs.tolist(), _LEFT, width - _RIGHT), logarithmic(times, bottom, _TOP))
    parts = [
        _frame(plane, width=width, height=height, x_title="trial", y_title="us"),
        _points(plane, shown.elsewhere.x, shown.elsewhere.y, kind="elsewhere"),
        _points(plane, shown.measured.x, shown.measured.y, kind="measured"),
        _level(plane, shown.baseline, kind="untuned") if shown.baseline else None,
        *(_steps(plane, line.x, line.y, end=line.end, kind="best") for line in shown.best),
        *(_failures(name, shown.failures[name].x, plane.across, bottom + (place + 0.5) * _ROW) for place, name in enumerate(rows)),
    ]
    return _svg(parts, width=width, height=height, title=title)


def failure_key(name: str) -> Markup:
    """The mark of a class of failure, for a legend."""
    return _svg([_failures(name, np.array([6.0]), Scale(0.0, 12.0, 0.0, 12.0), 6.0)], width=12, height=12, title=name.replace("_", " "))


def forecast_drawing(data: Forecast, *, width: int = 1060, height: int = 230) -> Markup:
    """The forecast of the whole model over the time of search."""
    milliseconds = data.model_us / 1e3
    across = linear([0.0, max(data.end_s, 1.0)], _LEFT, width - _RIGHT, from_zero=True)
    plane = _Plane(across, linear(milliseconds.tolist(), height - _BOTTOM, _TOP, from_zero=True))
    parts = [
        _frame(plane, width=width, height=height, x_title="search time (s)", y_title="ms"),
        _level(plane, data.total_us / 1e3, kind="untuned") if data.total_us else None,
        _steps(plane, data.elapsed_s, milliseconds, end=data.end_s, kind="forecast"),
    ]
    return _svg(parts, width=width, height=height, title="Forecast of the whole model over the time of search")


def before_after_drawing(kernels: Sequence[KernelTime], *, width: int = 1060) -> Markup:
    """Each kernel's time in one run of the model, before above after."""
    label, row = 210.0, 30.0
    across = linear([kernel.before_us for kernel in kernels], label, width - 96.0, from_zero=True)
    parts: list[Markup | None] = []
    for place, kernel in enumerate(kernels):
        top = 6.0 + place * row
        now = across.place(kernel.after_us) - across.start
        figures = f"{kernel.before_us / 1e3:,.3f} to {kernel.after_us / 1e3:,.3f} ms"
        gain = f"{kernel.before_us / kernel.after_us:.2f}x" if kernel.after_us > 0 else ""
        parts += [
            tag("text", _short(kernel.name, 30), x=label - 8, y=top + 15, text_anchor="end"),
            tag(
                "rect",
                tag("title", f"{kernel.name}, untuned: {figures}"),
                x=label,
                y=top,
                width=max(across.place(kernel.before_us) - label, 0.5),
                height=9,
                class_="before",
            ),
            tag("rect", tag("title", f"{kernel.name}, now: {figures}"), x=label, y=top + 11, width=max(now, 0.5), height=9, class_="after"),
            tag("text", gain, x=across.place(kernel.before_us) + 6, y=top + 15, class_="gain"),
        ]
    return _svg(parts, width=width, height=int(12 + row * len(kernels)), title="Each kernel's time in one run of the model, untuned and now")


def share_drawing(kernels: Sequence[KernelTime], *, rest_us: float, width: int = 1060) -> Markup:
    """What one run of the model is made of, before and now: a bar each, of the same scale."""
    left = 70.0
    befores, afters = [kernel.before_us for kernel in kernels], [kernel.after_us for kernel in kernels]
    whole = max(sum(befores), sum(afters)) + rest_us
    parts: list[Markup | None] = []
    for top, name, times in ((6.0, "untuned", befores), (40.0, "now", afters)):
        parts.append(tag("text", name, x=left - 8, y=top + 17, text_anchor="end"))
        x = left
        for place, (kernel, time_us) in enumerate([*zip(kernels, times, strict=True), (None, rest_us)]):
            wide = time_us / whole * (width - left - 8) if whole else 0.0
            said = f"{'everything else' if kernel is None else kernel.name}: {time_us / 1e3:,.3f} ms"
            colour = "rest" if kernel is None else f"series{place % 7}"
            parts.append(tag("rect", tag("title", said), x=x, y=top, width=max(wide, 0.0), height=26, class_=f"share {colour}"))
            if kernel is not None and wide > 70:
                parts.append(tag("text", _short(kernel.name, int(wide / 7)), x=x + 4, y=top + 17, class_="inside"))
            x += wide
    return _svg(parts, width=width, height=74, title="What one run of the model is made of, untuned and now")


def _frame(plane: _Plane, *, width: int, height: int, x_title: str, y_title: str) -> Markup:
    """Axes, grid and numbers."""
    across, up, below = plane.across, plane.up, height - _BOTTOM
    places = [up.place(tick) for tick in up.ticks(4)]
    grid = "".join(f"M{across.start:.1f} {y:.1f}H{across.end:.1f}" for y in places)
    beside = [
        tag("text", number(tick), x=across.start - 5, y=round(y + 3.5, 1), text_anchor="end") for tick, y in zip(up.ticks(4), places, strict=True)
    ]
    under = [tag("text", number(tick), x=round(across.place(tick), 1), y=below + 14, text_anchor="middle") for tick in across.ticks(6)]
    titles = [
        tag("text", x_title, x=(across.start + across.end) / 2, y=height - 5, text_anchor="middle", class_="axis"),
        tag("text", y_title, x=across.start - 5, y=_TOP - 8, text_anchor="end", class_="axis"),
    ]
    axes = f"M{across.start:.1f} {_TOP:.1f}V{below:.1f}H{width - _RIGHT:.1f}"
    return joined([tag("path", d=grid, class_="grid"), tag("path", d=axes, class_="frame"), *beside, *under, *titles])


def _points(plane: _Plane, x: Floats, y: Floats, *, kind: str) -> Markup | None:
    """All points as one path of dots: a hundred bytes less for each."""
    if not len(x):
        return None
    return tag("path", d="".join(f"M{plane.at(a, b)}h0" for a, b in zip(x.tolist(), y.tolist(), strict=True)), class_=f"dots {kind}")


def _steps(plane: _Plane, x: Floats, y: Floats, *, end: float, kind: str) -> Markup | None:
    """A line that goes on until a new value comes, and with the last one to the end."""
    if not len(x):
        return None
    across, up = plane.across.place, plane.up.place
    steps = "".join(f"H{across(a):.1f}V{up(b):.1f}" for a, b in zip(x[1:].tolist(), y[1:].tolist(), strict=True))
    return tag("path", d=f"M{plane.at(float(x[0]), float(y[0]))}{steps}H{across(max(end, float(x[-1]))):.1f}", class_=f"line {kind}")


def _level(plane: _Plane, value: float, *, kind: str) -> Markup:
    """A line across the chart."""
    return tag("path", d=f"M{plane.across.start:.1f} {plane.up.place(value):.1f}H{plane.across.end:.1f}", class_=f"line {kind}")


def _failures(name: str, x: Floats, across: Scale, y: float) -> Markup:
    symbol = FAILURE_MARKS[name][0]
    mark = _MARKS[symbol if symbol in _MARKS else symbol.removesuffix("-open")]
    marks = "".join(mark.format(x=f"{across.place(value):.1f}", y=f"{y:.1f}") for value in x.tolist())
    return tag("path", tag("title", name.replace("_", " ")), d=marks, class_=f"mark {name.replace('_', '-')}")


def _svg(parts: Iterable[Markup | None], *, width: int, height: int, title: str) -> Markup:
    return tag("svg", tag("title", title), *parts, viewBox=f"0 0 {width} {height}", width=width, height=height, role="img", class_="chart")


def _short(name: str, most: int) -> str:
    return name if len(name) <= most else f"{name[: max(most - 1, 0)]}…"
