"""The app by mouse where a click changes what was asked for: budgets of single tasks, what is refused, and Cancel."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.app_page import LONG_MS, AppPage

pytestmark = pytest.mark.slow

Open = Callable[..., Any]
BUDGETS = "print([(item.trials, item.seconds) for item in app.model.state.selection.tasks])"
SEARCHED = """
request, progress = app.model.state.request, {item.task: item.trials for item in app.model.state.progress}
print([(item.trials, item.seconds, progress[item.task]) for item in request.tasks])
"""


def test_budgets_refusals_and_cancel_by_mouse(open_app: Open) -> None:
    app = open_app()
    cancel_the_first_model(app)
    app.profile("net.onnx")
    ticked = [app.shown("row")[place] for place, ops in enumerate(app.shown("ops")) if place == 0 or "matmul" in ops]
    for row in ticked:
        app.box(int(row)).click()
    app.wait_for_selected("2 tasks")
    cancel_another_model(app)
    give_budgets(app)
    app.tune(5)
    app.wait_for_phase("tuned")
    app.wait_for_python(SEARCHED, "[(3, 60.0, 3), (None, None, 5)]")
    cancel_applying(app)


def cancel_the_first_model(app: AppPage) -> None:
    """Before there is anything: nothing is opened, and that is said."""
    app.shell.get_by_label("Model", exact=True).fill("squeezenet")
    app.button("Profile").click()
    app.button("Cancel").click()
    app.wait_for_phase("empty")
    assert "squeezenet was not opened" in app.next_step()
    assert app.shell.locator(".wb-problem").is_hidden(), "the user wanted it"


def cancel_another_model(app: AppPage) -> None:
    """While its worker is at it: what was shown is shown again, ticks included."""
    model = app.shell.get_by_label("Model", exact=True)
    model.fill("squeezenet")
    app.button("Profile").click()
    app.shell.locator(".wb-steps li", has_text="lowering").wait_for(timeout=LONG_MS)
    app.button("Cancel").click()
    app.wait_for_phase("profiled")
    assert "squeezenet was not opened" in app.next_step()
    assert app.selected().startswith("2 tasks")
    assert app.shell.locator(".wb-problem").is_hidden()
    app.page.locator(".wb-table .ag-row").first.wait_for()


def give_budgets(app: AppPage) -> None:
    """Type budgets, good and bad; what is refused is said where it was typed, changes nothing, and keeps a search from beginning."""
    app.button("Budgets").click()
    lines = app.shell.locator(".wb-budgets tbody tr")
    trials, seconds = (lines.nth(0).locator("input").nth(place) for place in range(2))
    refused = app.shell.locator(".wb-budgets .wb-refused")
    trials.fill("3")
    seconds.click()
    app.wait_for_python(BUDGETS, "[(3, None), (None, None)]")
    app.page.keyboard.type("60")
    trials.click()
    app.wait_for_python(BUDGETS, "[(3, 60.0), (None, None)]")

    for wrong in ("0", "2.5", "e"):
        trials.fill("3")
        seconds.click()
        refused.wait_for(state="hidden")
        trials.click()
        app.page.keyboard.press("Control+a")
        app.page.keyboard.type(wrong)
        seconds.click()
        refused.get_by_text("a whole number of at least 1").wait_for()
    app.button("Tune").click()
    app.page.wait_for_function("() => document.activeElement.matches('.wb-budgets [aria-invalid=\"true\"]')")
    assert app.phase() == "profiled"
    trials.fill("9999999999999")
    seconds.click()
    problem = app.shell.locator(".wb-problem")
    problem.get_by_text("9999999999999 is no number of trials").wait_for()
    assert refused.is_hidden()
    app.wait_for_python(BUDGETS, "[(3, 60.0), (None, None)]")
    app.shell.get_by_role("button", name="Dismiss the problem").click()
    problem.wait_for(state="hidden")
    app.page.wait_for_function("() => document.querySelector('.wb-budgets input').value === '3'")  # what holds


def cancel_applying(app: AppPage) -> None:
    """In the middle of it: nothing is applied, that is said, and the next time it goes through."""
    app.button("Apply").click()
    app.button("Cancel").click()
    app.wait_for_phase("tuned")
    assert "Applying was cancelled" in app.next_step()
    assert app.shell.locator(".wb-problem").is_hidden()
    app.button("Apply").click()
    app.wait_for_phase("applied")
    app.page.locator(".wb-comparison table").wait_for()
    assert "cancelled" not in app.next_step()
