"""The app without a mouse: the whole way from a model to the code that won, by keys alone, with the focus in sight all the way."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.app_page import AppPage

pytestmark = pytest.mark.slow

Open = Callable[..., Any]
MOST_STOPS = 80
"""Of the Tab key between any two places of the app: who has a thousand rows is not to walk through them."""

FOCUS_IN_SIGHT = """(selector) => {
    const element = document.activeElement;
    const looks = [getComputedStyle(element), getComputedStyle(element, '::after')];
    const outlined = looks.some((look) => look.outlineStyle !== 'none' && parseFloat(look.outlineWidth) > 0);
    const bordered = looks.some((look) => look.borderTopStyle !== 'none' || look.boxShadow !== 'none');
    const marked = element.matches('.ag-cell-focus, .ag-header-cell') && bordered;
    return [element.matches(selector), !element.closest('.wb-part') || outlined || marked, element.outerHTML.slice(0, 200)];
}"""


def tab_to(app: AppPage, selector: str, *, back: bool = False) -> None:
    """Press Tab until something has the focus; where it stops on the way, it can be seen."""
    for _ in range(MOST_STOPS):
        app.page.keyboard.press("Shift+Tab" if back else "Tab")
        is_there, is_in_sight, element = app.page.evaluate(FOCUS_IN_SIGHT, selector)
        assert is_in_sight, f"the focus cannot be seen on {element}"
        if is_there:
            return
    raise AssertionError(f"{selector} is not reached from the keyboard; the last stop is {element}")


def focused_row(app: AppPage) -> str:
    return str(app.page.evaluate("document.activeElement.closest('.ag-row').getAttribute('row-id')"))


def test_the_whole_way_by_keys_alone(open_app: Open) -> None:
    app = open_app()
    press, write = app.page.keyboard.press, app.page.keyboard.type
    app.shell.locator(".wb-sign").first.focus()  # the way from JupyterLab's own controls into an output is JupyterLab's
    tab_to(app, ".wb-model")
    write("net.onnx")
    tab_to(app, ".wb-profile")
    press("Enter")
    app.wait_for_phase("profiled")
    app.page.locator(".wb-table .ag-row").first.wait_for()

    tab_to(app, ".wb-table .ag-header-cell")
    while app.page.evaluate("document.activeElement.getAttribute('col-id')") != "time_us":
        press("ArrowRight")
    press("Enter")
    app.page.locator('.wb-table .ag-header-cell[col-id="time_us"][aria-sort="descending"]').wait_for()
    press("ArrowDown")
    assert focused_row(app) == app.shown("row")[0]
    while app.box(int(focused_row(app))).is_disabled():
        press("ArrowDown")  # what the VM itself takes cannot be tuned
    hottest = focused_row(app)
    press("Space")
    app.wait_for_selected("1 task")
    press("Enter")
    app.page.locator(".wb-inspector").wait_for()
    app.wait_for_python("print(app.parts.graph.focus)", hottest)

    tab_to(app, '.wb-few[aria-label="Trials of each task"]', back=True)
    write("2000")
    tab_to(app, ".wb-tune")
    press("Space")
    app.wait_for_trials(2)
    tab_to(app, ".wb-stop")
    press("Space")
    app.wait_for_phase("ending", "tuned")

    tab_to(app, '.wb-inspector [role="tab"]')
    chosen = app.page.evaluate("document.activeElement.textContent")
    press("ArrowRight")
    app.page.wait_for_function(
        "(before) => document.activeElement.matches('.wb-inspector [role=tab][aria-selected=true]') && document.activeElement.textContent !== before",
        arg=chosen,
    )
