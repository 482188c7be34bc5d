"""The charts of a monitor in a page: where their points are, and the pointer on them."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import TimeoutError as PageTimeoutError

from tests.browser.lab import RUN_MS

LATENCY = ".wb-monitor-main .js-plotly-plot"
POINTINGS = 6


def place_of(page: Any, trace: int, point: int) -> tuple[float, float]:
    """Where a point of the latency chart is on the page."""
    x, y = page.evaluate(
        f"""([trace, point]) => {{
            const plot = document.querySelector('{LATENCY}');
            const {{ xaxis, yaxis, _size: size }} = plot._fullLayout;
            const axis = plot.data[trace].yaxis === 'y2' ? plot._fullLayout.yaxis2 : yaxis;
            const box = plot.getBoundingClientRect();
            return [box.left + xaxis._offset + xaxis.d2p(plot.data[trace].x[point]), box.top + axis._offset + axis.d2p(plot.data[trace].y[point])];
        }}""",
        [trace, point],
    )
    return float(x), float(y)


def point_at(page: Any, trace: int, point: int, *, until: str) -> tuple[float, float]:
    """Move the pointer onto a point until its tip has a text: a page that is just being laid out moves it away from under the pointer."""
    tip = page.locator(".wb-monitor-tip").get_by_text(until)
    for _ in range(POINTINGS):
        x, y = place_of(page, trace, point)
        page.mouse.move(x - 40, y)
        page.mouse.move(x, y)
        try:
            tip.wait_for(timeout=RUN_MS // POINTINGS)
        except PageTimeoutError:
            continue
        return x, y
    tip.wait_for(timeout=RUN_MS)
    return place_of(page, trace, point)
