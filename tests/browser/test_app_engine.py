"""The choice of the engine in the app, by keyboard, on a machine where no old Python is named."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.browser.app_page import AppPage

CELL = """
import os
from workbench.notebook import Workbench
os.environ.pop("WORKBENCH_RELAY_PYTHON", None)
app = Workbench()
app
"""

Open = Callable[..., Any]


def test_an_old_tvm_is_chosen_by_keyboard_and_what_it_needs_is_said_in_the_app(shared_notebook: Open) -> None:
    page = shared_notebook([CELL])
    app = AppPage(page)
    app.shell.wait_for()
    engine, python = app.shell.get_by_label("Engine", exact=True), app.shell.get_by_label("Python with the old TVM")
    assert python.is_hidden()
    app.shell.locator("summary", has_text="More").first.focus()
    page.keyboard.press("Enter")
    engine.focus()
    page.keyboard.press("End")
    problem = app.shell.locator(".wb-problem")
    problem.get_by_text("needs a Python with an old TVM").wait_for()
    assert "make venv-relay" in app.shell.locator(".wb-remedy").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.type("/no/such/python")
    page.keyboard.press("Enter")
    problem.get_by_text("/no/such/python is no program").wait_for()
    app.shell.get_by_label("Model", exact=True).fill("squeezenet")
    app.button("Profile").click()
    app.wait_for_phase("failed")
    problem.get_by_text("/no/such/python is no program").wait_for()
    engine.select_option("relax")
    problem.wait_for(state="hidden")
    assert python.is_hidden()
    assert page.locator(".jp-RenderedText").count() == 0, "no cell has a traceback"
