"""The app in Jupyter Notebook, and as a page of its own with Voila."""

from __future__ import annotations

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

from tests.browser.app_page import CELL, LONG_MS, AppPage
from tests.browser.lab import Guard, Server

pytestmark = pytest.mark.slow

Open = Callable[..., Any]

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
