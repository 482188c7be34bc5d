"""The app, clicked through on a small real model: in JupyterLab, in Notebook, and as a Voila page."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.app_page import CELL, HOSTILE, LONG_MS, AppPage, write_model
from tests.browser.lab import Guard, Server, open_in_lab, run_all, run_in_kernel

pytestmark = pytest.mark.slow

Open = Callable[..., Any]


@pytest.fixture
def folder(server: Server, tmp_path: Path) -> Iterator[Path]:
    """A folder of its own below the server's, with a model in it: notebooks keep their sessions beside them."""
    made = server.folder / tmp_path.name
    made.mkdir()
    write_model(made / "net.onnx")
    yield made
    end_workers(made)


def end_workers(folder: Path) -> None:
    """Searches outlive their notebooks; those of a test must not."""
    from workbench.session import SessionDirectory  # noqa: PLC0415 - of the test's own process

    for database in folder.glob("workbench-sessions/*/session.sqlite"):
        directory = SessionDirectory.open(database.parent)
        with directory.store() as store:
            worker = store.worker()
        if worker is not None and directory.is_served():
            os.killpg(worker.pid, signal.SIGKILL)


@pytest.fixture
def open_app(new_page: Open, server: Server, folder: Path) -> Open:
    def open_it(**page: Any) -> AppPage:
        made = new_page(**page)
        name = f"{folder.name}/app.ipynb"
        server.write([CELL], name)
        open_in_lab(made, server, name)
        run_all(made)
        app = AppPage(made)
        app.shell.wait_for()
        return app

    return open_it


def test_the_whole_job_by_mouse(open_app: Open, tmp_path: Path) -> None:
    app = open_app(size=(1500, 1000))
    page = app.page
    assert app.phase() == "empty"
    assert "Choose a model" in app.shell.locator(".wb-next").inner_text()

    app.profile("net.onnx")
    assert app.button("Tune").is_disabled()
    page.locator(".wb-graph canvas").first.wait_for()

    app.box(0).click()
    app.wait_for_selected("1 task")
    assert run_in_kernel(page, "print(app.parts.graph.ticked == app.parts.table.ticked != [])").strip() == "True"
    app.cell(0, "node_name").click()
    page.locator(".wb-graph").get_by_text(HOSTILE).first.wait_for()
    app.cell(1, "node_name").click()
    page.locator(".wb-inspector").wait_for()
    for _ in range(100):
        if run_in_kernel(page, "print(app.parts.graph.focus, app.parts.table.focus)").strip() == "1 1":
            break
        page.wait_for_timeout(50)
    assert run_in_kernel(page, "print(app.parts.graph.focus)").strip() == "1"

    app.tune(400)
    app.wait_for_phase("tuning")
    app.wait_for_trials(2)
    app.button("Pause").click()
    app.wait_for_phase("paused")
    app.button("Resume").click()
    app.wait_for_phase("tuning")
    before = app.drawn_trials()
    app.wait_for_trials(before + 2)

    selection = json.loads(app.export("selection", tmp_path / "selection.json"))
    assert len(selection["tasks"]) == 1
    app.button("Stop").click()
    app.wait_for_phase("tuned")

    app.button("Apply").click()
    app.wait_for_phase("applied")
    page.locator(".wb-comparison table").wait_for()
    assert "verified" in page.locator(".wb-comparison").inner_text()

    app.box(0).click()
    app.wait_for_selected("nothing")
    app.shell.locator('input[type="file"][accept]').set_input_files(tmp_path / "selection.json")
    app.wait_for_selected("1 task")

    tab = page.locator(".wb-inspector").get_by_role("tab", name="Schedule", exact=True)
    tab.click()
    page.locator(".wb-inspector .cm-content", has_text="sch").first.wait_for(timeout=LONG_MS)
    assert page.evaluate("document.body.dataset.hacked") is None, "names are text everywhere"


def test_a_page_that_is_reloaded_shows_the_search_that_runs(open_app: Open, server: Server, folder: Path) -> None:
    app = open_app()
    app.profile("net.onnx")
    app.box(0).click()
    app.wait_for_selected("1 task")
    app.tune(2000)
    app.wait_for_trials(2)

    app.page.evaluate("() => window.jupyterapp.commands.execute('docmanager:save')")
    app.page.reload()
    open_in_lab(app.page, server, f"{folder.name}/app.ipynb")
    app.shell.wait_for(timeout=LONG_MS)
    app.wait_for_phase("tuning")
    app.wait_for_selected("1 task")
    app.wait_for_trials(3)

    run_restarted(app.page)
    app.wait_for_phase("tuning")
    app.wait_for_selected("1 task")
    app.wait_for_trials(4)
    app.button("Stop").click()
    app.wait_for_phase("tuned", "stopped")


def run_restarted(page: Any) -> None:
    """Restart the notebook's kernel and run its cells again."""
    page.evaluate(
        """async () => {
            const panel = window.jupyterapp.shell.currentWidget;
            await panel.sessionContext.session.kernel.restart();
        }"""
    )
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'", timeout=LONG_MS)
    run_all(page)
    page.locator(".wb-shell").first.wait_for(timeout=LONG_MS)


def test_a_worker_that_is_killed_is_said_and_resume_goes_on(open_app: Open) -> None:
    app = open_app()
    app.profile("net.onnx")
    app.box(0).click()
    app.wait_for_selected("1 task")
    app.tune(2000)
    app.wait_for_trials(2)
    known = app.drawn_trials()
    pid = int(run_in_kernel(app.page, "print(app.model.state.worker.pid)"))
    os.kill(pid, signal.SIGKILL)
    app.wait_for_phase("stopped")
    problem = app.shell.locator(".wb-problem")
    problem.wait_for()
    assert "SIGKILL" in problem.inner_text()
    app.button("Resume").click()
    app.wait_for_phase("tuning")
    app.wait_for_trials(known + 1)
    app.button("Stop").click()
    app.wait_for_phase("tuned", "stopped")


def test_what_goes_wrong_is_said_in_the_app_with_its_remedy(open_app: Open, folder: Path) -> None:
    app = open_app()
    (folder / "broken.onnx").write_bytes(b"\x08\x00\x00garbage\x00")
    app.shell.get_by_label("Model", exact=True).fill("broken.onnx")
    app.button("Profile").click()
    app.shell.locator(".wb-problem").wait_for()
    assert app.phase() == "failed"
    assert app.shell.locator(".wb-remedy").inner_text()
    assert app.page.locator(".jp-RenderedText").count() == 0, "no cell has a traceback"
    app.shell.get_by_role("button", name="Dismiss the problem").click()
    app.shell.locator(".wb-problem").wait_for(state="hidden")


def test_a_file_that_is_dropped_becomes_the_model(open_app: Open, folder: Path, tmp_path: Path) -> None:
    app = open_app()
    write_model(tmp_path / "dropped.onnx")
    app.shell.locator('.wb-opener input[type="file"]').set_input_files(tmp_path / "dropped.onnx")
    app.page.wait_for_function("() => document.querySelector('.wb-model').value.endsWith('dropped.onnx')")
    app.button("Profile").click()
    app.wait_for_phase("profiled")
    assert (folder / "workbench-sessions" / "uploads" / "dropped.onnx").read_bytes() == (tmp_path / "dropped.onnx").read_bytes()


def test_the_theme_reaches_all_parts(open_app: Open) -> None:
    app = open_app()
    app.profile("net.onnx")
    button = app.shell.locator(".wb-sign").first
    button.click()
    button.click()
    app.page.wait_for_function("() => [...document.querySelectorAll('.wb-part')].every((part) => part.dataset.wbTheme === 'dark')")


OF_THE_FRONTS = re.compile(r"reading 'schema'|shared module is not a function|Command 'filebrowser:open-path' not registered")
"""What Notebook 7.6 and Voila 0.5 say of themselves, on an empty notebook too."""


@pytest.fixture
def other_front(new_page: Open, guard: Guard) -> Iterator[Any]:
    """A page for a front that is not free of errors itself; it is closed before what serves it."""
    page = new_page()
    yield page
    page.close()
    guard.errors[:] = [error for error in guard.errors if not OF_THE_FRONTS.search(error)]


def test_the_job_in_notebook(other_front: Any, server: Server, folder: Path) -> None:
    page = other_front
    name = f"{folder.name}/app.ipynb"
    server.write([CELL], name)
    page.goto(f"{server.url}/notebooks/{name}")
    page.locator(".jp-Cell .cm-content").first.click(timeout=LONG_MS)
    page.locator(".jp-NotebookKernelStatus, .jp-Notebook-ExecutionIndicator[data-status='idle']").first.wait_for(timeout=LONG_MS)
    page.keyboard.press("Shift+Enter")
    small_job(AppPage(page))


@pytest.fixture
def dashboard(folder: Path, tmp_path: Path) -> Iterator[str]:
    """The address of ``workbench dashboard`` in the folder, with its token."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    command = [sys.executable, "-m", "workbench.cli.main", "dashboard", "--no-browser", "--port", str(port)]
    process = subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)
    assert process.stderr is not None
    address = process.stderr.readline().strip()
    assert address.startswith(f"http://127.0.0.1:{port}/?token="), address
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    reader.start()
    deadline = time.monotonic() + LONG_MS / 1e3
    while not answers(port):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield address
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)
    reader.join(30)
    process.stderr.close()


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def test_the_job_in_the_dashboard_which_lets_nobody_in_without_its_token(dashboard: str, other_front: Any) -> None:
    with urllib.request.urlopen(dashboard.partition("?")[0], timeout=30) as answer:
        assert "/login" in answer.url
    other_front.goto(dashboard, timeout=LONG_MS)
    small_job(AppPage(other_front))


def small_job(app: AppPage) -> None:
    """Profile, tick, tune."""
    app.shell.wait_for(timeout=LONG_MS)
    app.profile("net.onnx")
    app.box(0).click()
    app.wait_for_selected("1 task")
    app.tune(4)
    app.wait_for_phase("tuned")
    app.wait_for_trials(4)
