"""The monitor of a search, by mouse and keyboard: points that come while it is looked at, and what can be done with them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.charts import LATENCY, point_at
from tests.browser.lab import RUN_MS, run_in_kernel, wait_for_kernel

CELL = """
from tests.notebook_samples import profile_of
from tests.monitor_samples import FakeFeed, Recorded
from workbench.notebook import TuningMonitor
feed, asked = FakeFeed(profile_of({rows}, hostile={hostile})), Recorded()
feed.search({trials})
monitor = TuningMonitor(feed, asked, interval_s=0.1)
monitor.start()
monitor
"""
KERNEL = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"

Open = Callable[..., Any]


@pytest.fixture
def open_monitor(shared_notebook: Open) -> Open:
    def open_it(trials: int = 300, rows: int = 20, *, hostile: bool = False, **page: Any) -> Any:
        made = shared_notebook([CELL.format(trials=trials, rows=rows, hostile=hostile)], **page)
        wait_for_trials(made, trials)
        return made

    return open_it


def wait_for_trials(page: Any, count: int) -> None:
    page.wait_for_function(f"() => document.querySelector('.wb-monitor')?.dataset.wbEnd === '{count}'", timeout=RUN_MS)


def points(page: Any) -> int:
    """Points that the latency chart shows, failures included."""
    code = f"() => document.querySelector('{LATENCY}').data.filter((t) => t.type === 'scattergl').reduce((n, t) => n + t.x.length, 0)"
    return int(page.evaluate(code))


def kernel(page: Any, code: str) -> str:
    return run_in_kernel(page, code).strip()


def test_trials_appear_while_a_cell_of_the_notebook_runs(open_monitor: Open) -> None:
    page = open_monitor(300)
    assert points(page) == 300
    code = "import threading, time; threading.Timer(0.3, lambda: feed.search(64)).start(); time.sleep(8); print(monitor._stream._sent.end)"
    page.evaluate(f"(code) => {{ window.busy = {KERNEL}.requestExecute({{code}}); }}", code)
    wait_for_trials(page, 364)
    assert page.evaluate(f"() => {KERNEL}.status") == "busy"
    assert points(page) == 364
    page.evaluate("async () => { await window.busy.done; }")


def test_the_pointer_shows_a_trials_decisions_and_a_click_names_it_to_python(open_monitor: Open) -> None:
    page = open_monitor(200)
    page.locator(LATENCY).scroll_into_view_if_needed()
    x, y = point_at(page, 0, 4, until="tile 1 4 7 2")
    assert "unroll 64" in page.locator(".wb-monitor-tip").inner_text()
    page.mouse.click(x, y)
    shown = page.evaluate(f"() => document.querySelector('{LATENCY}').data[0].x[4]")
    wait_for_kernel(page, f"print(monitor.focus_trial == list(monitor._stream.place({int(shown)})))", "True")
    task, number = json.loads(kernel(page, "import json; print(json.dumps(monitor.focus_trial))"))
    assert kernel(page, f"print(feed.trial({task!r}, {number}).status)") == "ok"


def test_a_kernels_name_shows_its_trials_alone_and_back(open_monitor: Open) -> None:
    page = open_monitor(200)
    first = page.locator(".wb-monitor-table tbody tr .wb-monitor-name").first
    name = first.inner_text()
    first.click()
    page.wait_for_function(f"() => document.querySelector('{LATENCY}').layout.yaxis.title.text === 'time (us)'")
    assert page.locator(".wb-monitor tr.wb-picked .wb-monitor-name").inner_text() == name
    wait_for_kernel(page, "print(monitor.task == feed.tasks[0].task)", "True")
    page.get_by_role("button", name="All tasks").click()
    page.wait_for_function(f"() => document.querySelector('{LATENCY}').layout.yaxis.title.text !== 'time (us)'")


def test_buttons_ticks_and_budgets_reach_the_search_and_what_it_refuses_is_shown(open_monitor: Open) -> None:
    page = open_monitor(200)
    page.get_by_role("button", name="Pause").click()
    wait_for_kernel(page, "print([r.kind for r in asked.requests])", "['pause']")
    kernel(page, "feed.state = 'paused'")
    page.get_by_role("button", name="Resume").click()
    row = page.locator(".wb-monitor-table tbody tr").nth(1)
    row.locator("input[type=checkbox]").click()
    wait_for_kernel(page, "print(asked.requests[-1].kind, asked.requests[-1].task == feed.tasks[1].task)", "drop True")
    field = page.locator(".wb-monitor-table tbody tr").nth(0).locator(".wb-monitor-budget")
    field.fill("1,024")
    field.press("Enter")
    wait_for_kernel(page, "print(asked.requests[-1].kind, asked.requests[-1].trials)", "budget 1024")
    field.fill("many")
    field.press("Enter")
    assert field.get_attribute("aria-invalid") == "true"
    assert "whole number" in str(field.get_attribute("title"))
    page.get_by_role("button", name="Stop").click()
    page.get_by_text("The search is just ending. Start it again with --resume.").wait_for()
    assert kernel(page, "print(len(asked.requests))") == "5"


def test_failures_are_told_by_class_with_their_text_which_is_never_html(open_monitor: Open) -> None:
    page = open_monitor(300, hostile=True)
    failures = page.locator(".wb-monitor-failures details")
    assert failures.count() == 3
    failures.first.locator("summary").click()
    assert "Traceback (most recent call last):" in failures.first.locator("pre").inner_text()
    page.locator(LATENCY).scroll_into_view_if_needed()
    point_at(page, 0, 4, until="<img src=x")
    assert page.evaluate("() => document.body.dataset.hacked") is None
    assert page.locator(".wb-monitor img").count() == 0


def test_two_monitors_of_a_page_ask_for_plotly_once(notebook: Open) -> None:
    counting = """
from workbench.notebook.monitor import monitor as module
sent = []
module.TuningMonitor._send_plotly = lambda self, send=module.TuningMonitor._send_plotly: (sent.append(1), send(self))[1]
"""
    page = notebook([counting + CELL.format(trials=50, rows=10, hostile=False), "second = TuningMonitor(feed); second.start(); second"])
    page.wait_for_function("() => document.querySelectorAll('.wb-monitor[data-wb-end=\"50\"]').length === 2", timeout=RUN_MS)
    assert kernel(page, "print(len(sent))") == "1"
    assert page.evaluate("() => [typeof window.Plotly, typeof window.moduleName]") == ["undefined", "undefined"]


LOSSY = """
from workbench.notebook.part import Part
lost = []
def take(self, content, buffers=None, take=Part.take_message):
    if content["kind"] in ("ready", "plotly") and content["kind"] not in lost:
        lost.append(content["kind"])
    else:
        take(self, content, buffers)
Part.take_message = take
"""


NOTE_ERRORS = """
window.said = '';
const note = () => (window.said += [...document.querySelectorAll('.wb-error:not([hidden])')].map((box) => box.innerText).join());
new MutationObserver(note).observe(document, { attributes: true, childList: true, subtree: true, attributeFilter: ['hidden'] });
"""


def test_a_page_that_is_loaded_again_finds_everything_again_though_its_first_messages_get_lost(notebook: Open) -> None:
    page = notebook([CELL.format(trials=200, rows=20, hostile=False)])
    wait_for_trials(page, 200)
    page.evaluate("async () => { await window.jupyterapp.commands.execute('docmanager:save'); }")
    kernel(page, "feed.search(10)" + LOSSY)
    page.add_init_script(NOTE_ERRORS)
    page.reload()
    wait_for_trials(page, 210)
    assert points(page) == 210
    wait_for_kernel(page, "print(sorted(lost))", "['plotly', 'ready']")
    assert "The notebook's kernel has not answered this view yet." in page.evaluate("() => window.said")
    assert page.locator(".wb-error:visible").count() == 0, "and now it has"


def test_a_part_of_a_long_search_is_shown_in_full_when_it_is_looked_at(open_monitor: Open) -> None:
    page = open_monitor(20_000)
    assert points(page) < 5000
    measured = f"document.querySelector('{LATENCY}').data.filter((trace) => trace.name === 'measured')"
    window = f"() => {measured}.flatMap((trace) => [...trace.x]).filter((x) => x >= 5000 && x < 5200).length"
    before = page.evaluate(window)
    page.evaluate(
        f"""async () => {{
            const plot = document.querySelector('{LATENCY}');
            plot.emit('plotly_relayout', {{ 'xaxis.range[0]': 5000, 'xaxis.range[1]': 5200 }});
        }}"""
    )
    page.wait_for_function(f"(before) => ({window})() > before", arg=before, timeout=RUN_MS)
    whole = kernel(page, "print(sum(p.status == 'ok' for p in feed.points[4999:5199]))")
    assert page.evaluate(window) == int(whole)


def test_a_page_that_cannot_keep_up_takes_one_snapshot_instead_of_what_it_missed(open_monitor: Open) -> None:
    page = open_monitor(100)
    page.evaluate(
        """async () => {
            const plotly = await window.__tvmWorkbenchPlotly;
            const { redraw } = plotly;
            window.drawings = 0;
            const held = new Promise((resolve) => (window.goOn = resolve));
            plotly.redraw = async (...values) => {
                window.drawings += 1;
                await held;
                return redraw(...values);
            };
            window.mend = () => (plotly.redraw = redraw);
        }"""
    )
    for updates in range(1, 31):
        kernel(page, "feed.search(4)")
        page.locator(".wb-monitor .wb-bar", has_text=f"{100 + 4 * updates} trials").first.wait_for()
    page.evaluate("() => window.goOn()")
    wait_for_trials(page, 220)
    assert points(page) == 220
    assert 0 < page.evaluate("() => (window.mend(), window.drawings)") < 20, "two charts, of at most ten of the thirty updates"


def test_the_theme_of_the_page_is_that_of_the_charts(open_monitor: Open) -> None:
    page = open_monitor(100, theme="dark")
    colour = f"() => document.querySelector('{LATENCY}')._fullLayout.font.color"
    dark = page.evaluate(colour)
    page.evaluate("() => window.jupyterapp.commands.execute('apputils:change-theme', {theme: 'JupyterLab Light'})")
    page.wait_for_function(f"(dark) => ({colour})() !== dark", arg=dark)


def test_an_error_of_the_session_is_shown_and_the_monitor_goes_on(open_monitor: Open) -> None:
    page = open_monitor(100)
    kernel(page, "from workbench.errors import SessionError; feed.fault = SessionError('The disk is gone.', 'Bring it back.')")
    page.get_by_text("The disk is gone. Bring it back.").wait_for()
    kernel(page, "feed.fault = None; feed.search(5)")
    wait_for_trials(page, 105)


def test_the_charts_come_in_notebook_7_too(new_page: Open, server: Any, guard: Any) -> None:
    page = new_page()
    page.goto(f"{server.url}/notebooks/{server.write([CELL.format(trials=60, rows=10, hostile=False)])}")
    page.get_by_title("Python 3 | Idle").or_(page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]')).first.wait_for(timeout=RUN_MS)
    guard.errors.clear()  # Notebook's own, of settings that it does not find; what comes from here on is ours
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()
    wait_for_trials(page, 60)
    assert points(page) == 60
