"""The report in Chromium, from a file: without a request, without a complaint, readable in light, dark and print."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.monitor_samples import HOSTILE, FakeFeed, session_of
from tests.notebook_samples import profile_of
from workbench.api.report import write_report
from workbench.records.comparison import FASTER, RECORD, Comparison, KernelComparison, Timing, Verification
from workbench.report import WinnerText
from workbench.session import COMPARISON

Show = Callable[..., Any]


@pytest.fixture
def report(tmp_path: Path) -> Path:
    """A report about a search of 2,000 trials, with names that are HTML and a winner's source."""
    feed = FakeFeed(profile_of(60, hostile=True))
    feed.search(2000)
    directory = session_of(feed, tmp_path / "session")
    with directory.store() as store:
        store.write_document(COMPARISON, comparison_of(feed).to_dict())
    texts = [WinnerText(feed.tasks[0].task, {"schedule": f"sch.tile(4)  # {HOSTILE}\n" * 50, "source": "define void @main()\n" * 200})]
    return write_report(directory, tmp_path / "report.html", version="1.2.3", texts=texts)


def comparison_of(feed: FakeFeed) -> Comparison:
    """What applying gave: the winner of the first task is used, that of the second one was taken back."""
    first, second = feed.tasks[:2]
    times: dict[str, Any] = {"baseline_us": 1000.0, "tuned_us": 200.0, "ratio": 5.0, "ratio_error": 0.1, "verdict": FASTER, "text": f"5x {HOSTILE}"}
    used = KernelComparison(**times, kernel=first.name, task=first.task, name=first.name, weight=9, used=RECORD, trial=3, considered=3, why="it won")
    why = f"slower in the model: trial 2: {HOSTILE}"
    back = KernelComparison(kernel=second.name, task=second.task, name=second.name, weight=9, considered=2, why=why)
    total = Timing(baseline_us=60_000.0, tuned_us=40_000.0, ratio=1.5, ratio_error=0.1, verdict=FASTER, text="1.50x +- 0.10 as fast")
    right = Verification(verified=True, seeds=(0, 1, 2), max_abs_err=1e-6, max_rel_err=1e-5, onnxruntime="largest difference 1e-06")
    notes = (f"The whole: {HOSTILE}",)
    return Comparison("net", "relax", "cpu", total, (used, back), right, applied=True, applied_at=1.7e9, rounds=12, profile_id="1", notes=notes)


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
    assert page.get_by_text("1.50x +- 0.10 as fast").is_visible()
    assert page.get_by_text("slower in the model: trial 2").first.is_visible()
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
    folded = page.locator("details pre")
    assert folded.count() >= 4  # two texts of a winner, and the first errors
    assert folded.evaluate_all("(texts) => texts.every((text) => text.checkVisibility())")
    page.emulate_media(media="screen")
    assert not folded.evaluate_all("(texts) => texts.some((text) => text.checkVisibility())")
    page.emulate_media(media="print")
    assert len(page.pdf(format="A4")) > 10_000
