"""The app in JupyterLab, clicked through: the whole job on a real model, and what a page that comes back finds."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.browser.app_page import HOSTILE, LONG_MS, AppPage
from tests.browser.charts import LATENCY, point_at
from tests.browser.lab import Server, ask_page, open_in_lab, run_all, run_in_kernel

pytestmark = pytest.mark.slow

Open = Callable[..., Any]
TASKS = 3
TRIALS = 24
MORE_THAN_WE_WAIT_FOR = 2000


A_SEARCHED_ROW = """
searched = {item.task for item in app.model.state.progress if item.trials > 1}
print(*next((task.rows[0], task.name) for task in app.session.profile().tasks if task.task in searched))
"""


WHERE_ALL_LOOK = """
row, task = app.parts.table.focus, app.parts.inspector.task
print(app.parts.graph.focus == row, app.session.profile().record.rows[row].task == task, app.parts.monitor.task in ("", task))
"""


def test_the_whole_job_on_squeezenet_by_mouse(open_app: Open, server: Server, folder: Path, tmp_path: Path) -> None:
    app = open_app(size=(1500, 1000))
    page = app.page
    assert app.phase() == "empty"
    assert "Choose a model" in app.next_step()
    app.profile("squeezenet")
    assert app.button("Tune").is_disabled()

    sort_and_filter(app)
    app.tick_from_the_top(TASKS)
    app.wait_for_python("print(app.parts.graph.ticked == app.parts.table.ticked != [])", "True")
    table_and_graph_look_at_one_row(app)

    app.tune(MORE_THAN_WE_WAIT_FOR)
    app.wait_for_trials(TASKS + 2)  # a baseline each, and a candidate
    app.button("Pause").click()
    app.wait_for_phase("paused")
    app.wait_for_python("print(app.model.state.phase, app.model.state.doing == '')", "paused True")  # the trial under way has been finished
    paused = measured(app)
    inspect_and_diff(app)
    assert measured(app) == paused, "a search that pauses measures nothing"
    app.button("Resume").click()
    app.wait_for_phase("tuning")
    app.wait_for_trials(paused + 2)

    reload_page(app, server, f"{folder.name}/app.ipynb")
    app.wait_for_selected(f"{TASKS} tasks")
    app.wait_for_trials(max(paused + 3, TRIALS))
    app.button("Stop").click()
    app.wait_for_phase("tuned")
    trials = list(csv.DictReader(app.export("trials", tmp_path / "trials.csv").splitlines()))
    assert len(trials) >= TRIALS
    app.wait_for_trials(len(trials))
    click_a_trial(app)

    selection = json.loads(app.export("selection", tmp_path / "selection.json"))
    assert len(selection["tasks"]) == TASKS
    app.page.get_by_role("button", name="Untick all").click()
    app.wait_for_selected("nothing")
    app.shell.locator('input[type="file"][accept]').set_input_files(tmp_path / "selection.json")
    app.wait_for_selected(f"{TASKS} tasks")

    app.button("Apply").click()
    app.wait_for_phase("applied")
    comparison = page.locator(".wb-comparison")
    comparison.locator("table").wait_for()
    assert "verified" in comparison.inner_text()
    assert json.loads(app.export("comparison", tmp_path / "comparison.json"))["verified"] is True


def sort_and_filter(app: AppPage) -> None:
    """The hottest first, then only what a word finds, then all again."""
    rows = len(app.shown("row"))
    heading = app.page.locator('.wb-table .ag-header-cell[col-id="time_us"]')
    heading.click()
    app.page.locator('.wb-table .ag-header-cell[col-id="time_us"][aria-sort="descending"]').wait_for()
    times = [float(text.replace(",", "")) for text in app.shown("time_us") if text != "\u2013"]
    assert len(times) > TASKS
    assert times == sorted(times, reverse=True)
    search = app.page.get_by_label("Search all columns")
    search.fill("max_pool2d")
    app.page.wait_for_function("() => document.querySelectorAll('.wb-table .ag-row:not(.ag-row-pinned)').length === 3")
    assert all("max_pool2d" in text for text in app.shown("ops"))
    search.fill("")
    app.page.wait_for_function("(rows) => document.querySelectorAll('.wb-table .ag-row:not(.ag-row-pinned)').length === rows", arg=rows)


def table_and_graph_look_at_one_row(app: AppPage) -> None:
    """A row that is clicked is looked at in the graph, and a box of the graph in the table."""
    [first, second, *_] = [int(text) for text in app.shown("row")]
    app.cell(first, "node_name").click()
    app.wait_for_python("print(app.parts.graph.focus)", str(first))
    app.page.locator(".wb-inspector").wait_for()
    app.cell(second, "node_name").click()
    app.wait_for_python("print(app.parts.graph.focus)", str(second))
    app.page.locator(".wb-graph-window").focus()
    app.page.keyboard.press("End")
    app.page.keyboard.press("ArrowUp")
    looked_at = app.page.locator(".wb-table .ag-row.wb-focused").first
    app.page.wait_for_function(
        "(before) => document.querySelector('.wb-table .ag-row.wb-focused')?.getAttribute('row-id') !== before", arg=str(second)
    )
    app.wait_for_python("print(app.parts.graph.focus)", str(looked_at.get_attribute("row-id")))


def inspect_and_diff(app: AppPage) -> None:
    """Read the untuned form of a kernel that was searched in several views, and set two trials side by side."""
    row, name = run_in_kernel(app.page, A_SEARCHED_ROW).split()
    app.page.get_by_label("Search all columns").fill(name)
    app.cell(int(row), "node_name").click()
    app.page.get_by_label("Search all columns").fill("")
    inspector = app.page.locator(".wb-inspector")
    inspector.get_by_role("button", name="Untuned").first.click()
    for tab, word in (("Schedule", "apply_trace"), ("TIR", "T.prim_func"), ("Source", "target triple")):
        inspector.get_by_role("tab", name=tab, exact=True).click()
        inspector.locator(".cm-content", has_text=word).first.wait_for(timeout=LONG_MS)
    inspector.get_by_role("tab", name="Diff", exact=True).click()
    inspector.get_by_label("Trial: number of the trial").fill("1")
    app.page.keyboard.press("Enter")
    inspector.locator(".cm-mergeView, .wb-failure, .wb-absent").first.wait_for(timeout=LONG_MS)
    assert inspector.locator(".wb-side").count() == 2, inspector.inner_text()


def click_a_trial(app: AppPage) -> None:
    """The trial that is clicked in the chart is the one that the inspector shows, and a kernel that is named is looked at everywhere."""
    app.page.locator(LATENCY).scroll_into_view_if_needed()
    x, y = point_at(app.page, 0, 0, until="#")
    app.page.mouse.click(x, y)
    app.wait_for_python("print(app.parts.monitor.focus_trial == [app.parts.inspector.task, app.parts.inspector.trial])", "True")
    app.wait_for_python(WHERE_ALL_LOOK, "True True True")
    looked_at = run_in_kernel(app.page, "print(app.parts.inspector.task)").strip()
    app.page.locator(f'.wb-monitor tr:not([data-task="{looked_at}"]) .wb-monitor-name:visible').first.click()
    app.wait_for_python(f"print(app.parts.monitor.task not in ('', {looked_at!r}))", "True")
    app.wait_for_python(WHERE_ALL_LOOK, "True True True")
    app.page.locator(".wb-table .ag-row.wb-focused").first.wait_for()
    app.page.locator(".wb-monitor").get_by_role("button", name="All tasks").click()


def measured(app: AppPage) -> int:
    """Trials that the session holds."""
    return int(run_in_kernel(app.page, "print(sum(task.trials for task in app.model.state.progress))"))


def reload_page(app: AppPage, server: Server, name: str) -> None:
    """Save the notebook and load its page again."""
    app.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    app.page.reload()
    open_in_lab(app.page, server, name)
    app.shell.wait_for(timeout=LONG_MS)


def test_a_kernel_that_restarts_finds_the_search_that_runs_and_names_are_text(open_app: Open) -> None:
    app = open_app()
    app.profile("net.onnx")
    app.box(0).click()
    app.wait_for_selected("1 task")
    app.cell(0, "node_name").click()
    app.page.locator(".wb-graph").get_by_text(HOSTILE).first.wait_for()
    app.tune(2000)
    app.wait_for_trials(2)

    run_restarted(app.page)
    app.wait_for_phase("tuning")
    app.wait_for_selected("1 task")
    app.wait_for_trials(3)
    named = run_in_kernel(app.page, "print(app.model.state.model)").strip()
    assert app.shell.get_by_label("Model", exact=True).input_value() == named, "and not what its session's folder is called"
    app.button("Stop").click()
    app.wait_for_phase("tuned", "stopped")
    assert app.page.evaluate("document.body.dataset.hacked") is None, "names are text everywhere"


def run_restarted(page: Any) -> None:
    """Restart the notebook's kernel and run its cells again."""
    ask_page(page, "() => window.jupyterapp.shell.currentWidget.sessionContext.session.kernel.restart()")
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'", timeout=LONG_MS)
    run_all(page)
    page.locator(".wb-shell").first.wait_for(timeout=LONG_MS)


def test_the_theme_reaches_all_parts(open_app: Open) -> None:
    app = open_app()
    app.profile("net.onnx")
    button = app.shell.locator(".wb-sign").first
    button.click()
    button.click()
    app.page.wait_for_function("() => [...document.querySelectorAll('.wb-part')].every((part) => part.dataset.wbTheme === 'dark')")
