"""Colours and marks: told apart by people who see no red or no green, on light and on dark pages, and by their shapes alone in print."""

from __future__ import annotations

from typing import Any

from workbench.records.trial import BUILD_ERROR, BUILD_TIMEOUT, DEVICE_LOST, REJECTED, RUN_ERROR, RUN_TIMEOUT, WRONG_RESULT

# The colours of Okabe and Ito (2008) without yellow, which a light page swallows, and with a blue that a dark page does not.
BLUE = "#2f86c6"
ORANGE = "#e69f00"
GREEN = "#009e73"
VERMILION = "#d55e00"
PURPLE = "#cc79a7"
SKY = "#56b4e9"
GREY = "#8c8c8c"
BROWN = "#9c755f"

TASK_COLOURS = (BLUE, ORANGE, GREEN, PURPLE, SKY, VERMILION, BROWN)
"""Colours of tasks by their code; the eighth task has that of the first."""

FAILURE_MARKS = {
    BUILD_ERROR: ("square", ORANGE),
    BUILD_TIMEOUT: ("square-open", ORANGE),
    RUN_ERROR: ("triangle-up", VERMILION),
    RUN_TIMEOUT: ("triangle-up-open", VERMILION),
    WRONG_RESULT: ("x", PURPLE),
    REJECTED: ("circle-open", GREY),
    DEVICE_LOST: ("diamond", BROWN),
}
"""Symbol and colour of each class of failure."""


def task_colour(code: int) -> str:
    """Colour of a task."""
    return TASK_COLOURS[code % len(TASK_COLOURS)]


def template(*, dark: bool) -> dict[str, Any]:
    """What of a figure depends on the page: a template of plotly. The background is the page's own."""
    text, grid, line = ("#d8d8d8", "#3a3a3a", "#7a7a7a") if dark else ("#2a2a2a", "#e4e4e4", "#a0a0a0")
    colours = {"gridcolor": grid, "linecolor": line, "zerolinecolor": grid, "tickcolor": line}
    # Labels that plotly would hide because they reach over the edge: looking for them takes a fifth of the time of a drawing.
    axis = {**colours, "automargin": True, "showline": True, "ticks": "outside", "ticklabeloverflow": "allow"}
    return {
        "layout": {
            "paper_bgcolor": "rgba(0,0,0,0)",
            "plot_bgcolor": "rgba(0,0,0,0)",
            "font": {"color": text, "size": 12},
            "colorway": list(TASK_COLOURS),
            "xaxis": axis,
            "yaxis": axis,
            "legend": {"bgcolor": "rgba(0,0,0,0)"},
            "modebar": {"bgcolor": "rgba(0,0,0,0)", "color": line, "activecolor": text},
        }
    }
