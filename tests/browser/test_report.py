"""The report in Chromium, from a file: without a request, without a complaint, readable in light, dark and print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.monitor_samples import HOSTILE, FakeFeed, session_of
from tests.notebook_samples import profile_of
from workbench.api.report import write_report
from workbench.report import WinnerText

Show = Callable[..., Any]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A report about a search of 2,000 trials, with names that are HTML and a winner's source."""
    feed = FakeFeed(profile_of(60, hostile=True))
    feed.search(2000)
    directory = session_of(feed, tmp_path / "session")
    texts = [WinnerText(feed.tasks[0].task, {"schedule": f"sch.tile(4)  # {HOSTILE}\n" * 50, "source": "define void @main()\n" * 200})]
    return write_report(directory, tmp_path / "report.html", version="1.2.3", texts=texts)


@pytest.fixture
def show(browser: Any, report: Path) -> Show:
    """Opens the report and gives the page, what it asked for, and what it complained of."""

    def open_it(*, scheme: str = "light", size: tuple[int, int] = (1200, 900)) -> tuple[Any, list[str], list[str]]:
        page = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme).new_page()
        asked: list[str] = []
        complaints: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(report.as_uri())
        return page, asked, complaints

    return open_it


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_opens_from_a_file_without_a_request_or_a_complaint(show: Show, report: Path, scheme: str) -> None:
    page, asked, complaints = show(scheme=scheme)
    assert [url for url in asked if not url.startswith("data:")] == [report.as_uri()]
    assert complaints == []
    assert page.locator("section").count() == 8
    assert page.locator("svg.chart").count() >= 8
    assert page.locator("img, script").count() == 0
    background = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
    assert (background == "rgb(255, 255, 255)") == (scheme == "light")


def test_nothing_is_wider_than_the_page_also_on_a_narrow_one(show: Show) -> None:
    for width in (1200, 420):
        page, _, _ = show(size=(width, 800))
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width


def test_the_charts_lie_within_their_frames(show: Show) -> None:
    page, _, _ = show()
    outside = page.evaluate(
        """() => [...document.querySelectorAll('svg.chart')].filter((chart) => {
            const { width, height } = chart.viewBox.baseVal;
            const box = chart.getBBox();
            return box.x < -1 || box.y < -1 || box.x + box.width > width + 1 || box.y + box.height > height + 1;
        }).map((chart) => chart.querySelector('title').textContent)"""
    )
    assert outside == []


def test_it_prints_on_paper_in_light_colours(show: Show) -> None:
    page, _, _ = show(scheme="dark")
    page.emulate_media(media="print")
    assert page.evaluate("() => getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.locator("nav").is_hidden()
    assert len(page.pdf(format="A4")) > 10_000
