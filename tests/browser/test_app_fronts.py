"""The app in Jupyter Notebook, and as a page of its own with Voila."""

from __future__ import annotations

import contextlib
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
from playwright.sync_api import TimeoutError as PageTimeoutError

from tests.browser.app_page import CELL, LONG_MS, AppPage
from tests.browser.lab import Guard, Server

pytestmark = pytest.mark.slow

Open = Callable[..., Any]
PRESSES = 8

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
    page.locator(".jp-NotebookKernelStatus, .jp-Notebook-ExecutionIndicator[data-status='idle']").first.wait_for(timeout=LONG_MS)
    run_first_cell(page)
    small_job(AppPage(page))


def run_first_cell(page: Any) -> None:
    """Press Shift+Enter in it until it has a number, or a star: a page that is still being made loses keys."""
    prompt = page.locator(".jp-Cell .jp-InputPrompt", has_text=re.compile(r"\[(\d+|\*)\]")).first
    for _ in range(PRESSES):
        page.locator(".jp-Cell .cm-content").first.click(timeout=LONG_MS)
        page.keyboard.press("Shift+Enter")
        with contextlib.suppress(PageTimeoutError):
            prompt.wait_for(timeout=LONG_MS // PRESSES)
            return
    raise AssertionError(f"The cell does not run: {page.locator('body').inner_text()[:500]}")


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(command: str, port: int, folder: Path, tmp_path: Path) -> subprocess.Popen[str]:
    """``workbench lab`` or ``workbench dashboard`` in a folder, with settings of their own."""
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(tmp_path / "config"),
        "JUPYTER_RUNTIME_DIR": str(tmp_path / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(tmp_path / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(tmp_path / "workspaces"),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
    }
    words = [sys.executable, "-m", "workbench.cli.main", command, "--no-browser", "--port", str(port)]
    return subprocess.Popen(words, cwd=folder, env=environment, stderr=subprocess.PIPE, text=True, start_new_session=True)


def test_lab_starts_for_whoever_runs_it_root_included(folder: Path, tmp_path: Path) -> None:
    port = free_port()
    process = start("lab", port, folder, tmp_path)
    assert process.stderr is not None
    try:
        address = next(found.group() for line in process.stderr if (found := re.search(rf"http://127\.0\.0\.1:{port}/lab\S*token=\S+", line)))
        reader = threading.Thread(target=process.stderr.read, daemon=True)
        reader.start()
        wait_until_it_answers(port, process)
        with urllib.request.urlopen(address, timeout=30) as answer:
            assert answer.status == 200
            assert b"jupyter-config-data" in answer.read()
        assert (folder / "workbench.ipynb").is_file()
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)
    reader.join(30)
    process.stderr.close()


@pytest.fixture
def dashboard(folder: Path, tmp_path: Path) -> Iterator[str]:
    """The address of ``workbench dashboard`` in the folder, with its token."""
    port = free_port()
    process = start("dashboard", port, folder, tmp_path)
    assert process.stderr is not None
    address = process.stderr.readline().strip()
    assert address.startswith(f"http://127.0.0.1:{port}/?token="), address
    reader = threading.Thread(target=process.stderr.read, daemon=True)
    reader.start()
    wait_until_it_answers(port, process)
    yield address
    os.killpg(process.pid, signal.SIGTERM)
    process.wait(30)
    reader.join(30)
    process.stderr.close()


def wait_until_it_answers(port: int, process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + LONG_MS / 1e3
    while not answers(port):
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.1)


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
