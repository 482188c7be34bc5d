"""A Jupyter server and a Chromium of their own, for tests and benchmarks: nothing of the user's, nothing from outside."""

from __future__ import annotations

import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
SHARED = "shared.ipynb"
START_S = 60.0
RUN_MS = 120_000
CHROMIUM_FLAGS = (
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update"),
    *("--disable-sync", "--disable-default-apps", "--disable-dev-shm-usage"),
)
NEWS_OFF = {"fetchNews": "false", "checkForUpdates": False}
# JupyterLab asks Node.js for each page whether it should build itself anew: seconds, and nothing here needs it.
BUILD_CHECK_OFF = {"ServerApp": {"tornado_settings": {"page_config_data": {"buildAvailable": False, "buildCheck": False}}}}
# Chromium says this of pages that it shows without a screen, and of Jupyter's own code; it says nothing of ours.
NOT_OURS = re.compile(r"WebGL|GroupMarkerNotSet|Slow network is detected")


def chromium() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@dataclass(frozen=True)
class Server:
    """A Jupyter server of its own: JupyterLab, Notebook and Voila.

    Attributes:
        url: Its address, without a slash at the end; no token is asked for.
        folder: Where its notebooks lie.
    """

    url: str
    folder: Path

    def write(self, cells: Sequence[str], name: str = "") -> str:
        """A new notebook with these cells; its name."""
        name = name or f"{uuid.uuid4().hex}.ipynb"
        made = [
            {"cell_type": "code", "execution_count": None, "id": f"c{place}", "metadata": {}, "outputs": [], "source": source}
            for place, source in enumerate(cells)
        ]
        kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        (self.folder / name).write_text(json.dumps({"cells": made, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}), encoding="utf-8")
        return name

    def shut_down_kernels(self) -> None:
        """End what the notebooks of a test have started; the one that tests share goes on."""
        with urllib.request.urlopen(f"{self.url}/api/sessions", timeout=10) as answer:
            sessions = json.load(answer)
        for session in (found for found in sessions if found["path"] != SHARED):
            urllib.request.urlopen(urllib.request.Request(f"{self.url}/api/sessions/{session['id']}", method="DELETE"), timeout=30).close()


@contextmanager
def jupyter_server(home: Path) -> Iterator[Server]:
    """A running server that keeps everything of its own below `home`."""
    folder = home / "notebooks"
    folder.mkdir()
    settings = home / "settings" / "@jupyterlab" / "apputils-extension"
    settings.mkdir(parents=True)
    (home / "config").mkdir()
    (home / "config" / "jupyter_server_config.json").write_text(json.dumps(BUILD_CHECK_OFF), encoding="utf-8")
    (settings / "notification.jupyterlab-settings").write_text(json.dumps(NEWS_OFF), encoding="utf-8")
    port = _free_port()
    environment = os.environ | {
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "JUPYTERLAB_SETTINGS_DIR": str(home / "settings"),
        "JUPYTERLAB_WORKSPACES_DIR": str(home / "workspaces"),
        "IPYTHONDIR": str(home / "ipython"),
        "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        "JUPYTER_PLATFORM_DIRS": "1",
    }
    command = [
        *(sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--expose-app-in-browser", f"--port={port}", "--port-retries=0"),
        *("--ip=127.0.0.1", "--IdentityProvider.token=", "--ServerApp.password=", f"--ServerApp.root_dir={folder}"),
        *("--LabApp.extension_manager=readonly", "--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate"),
        *("--LanguageServerManager.autodetect=False", "--ServerApp.disable_check_xsrf=True"),
    ]
    log = home / "server.log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    try:
        _wait_until_it_answers(url, process, log)
        yield Server(url, folder)
    finally:
        process.terminate()
        try:
            process.wait(timeout=20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextmanager
def chromium_browser() -> Iterator[Any]:
    """Chromium, without a window."""
    from playwright.sync_api import sync_playwright  # noqa: PLC0415 - what needs no browser works without it

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), headless=True, args=list(CHROMIUM_FLAGS))
        yield started
        started.close()


@dataclass
class Guard:
    """What a page must not do: ask for something outside of this machine, or complain.

    Attributes:
        outside: Addresses that were asked for; each request was refused.
        errors: What the console and the page's own scripts said.
    """

    outside: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def watch(self, page: Any) -> None:
        page.route(re.compile(r"^(?!data:|blob:)"), self._let_through_what_is_local)
        page.on("console", lambda message: message.type == "error" and self._note(message.text))
        page.on("pageerror", lambda error: self._note(str(error)))

    def _note(self, text: str) -> None:
        if not NOT_OURS.search(text):
            self.errors.append(text)

    def _let_through_what_is_local(self, route: Any) -> None:
        if re.match(r"^\w+://(127\.0\.0\.1|localhost|\[::1\])(:|/)", route.request.url):
            route.continue_()
        else:
            self.outside.append(route.request.url)
            route.abort()


def open_in_lab(page: Any, server: Server, name: str, *, theme: str = "light") -> None:
    """Show a notebook of the server in JupyterLab, alone, and wait for its kernel."""
    page.goto(f"{server.url}/lab/workspaces/{uuid.uuid4().hex}/tree/{name}")
    page.wait_for_function("() => window.jupyterapp", timeout=RUN_MS)
    ask_page(
        page,
        """async () => {
            const app = window.jupyterapp;
            const moment = () => new Promise((resolve) => setTimeout(resolve, 20));
            await app.restored;
            while (!app.shell.currentWidget?.context) await moment();
            const panel = app.shell.currentWidget;
            await panel.context.ready;
            await panel.sessionContext.ready;
            while (panel.sessionContext.session?.kernel?.status !== "idle") await moment();
        }""",
    )
    page.wait_for_function("() => window.jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'", timeout=RUN_MS)
    page.wait_for_function("() => window.jupyterapp.commands.isEnabled('notebook:run-all-cells')", timeout=RUN_MS)
    if theme == "dark":
        set_theme(page, theme)
    page.evaluate("() => { const app = window.jupyterapp; app.shell.collapseLeft(); app.shell.collapseRight?.(); }")


def ask_page(page: Any, script: str, argument: Any = None) -> Any:
    """What an asynchronous function gives in a page; an error if it gives nothing in time, where `evaluate` would wait for ever."""
    late = f"new Promise((_, refuse) => setTimeout(() => refuse(new Error('The page did not answer within {RUN_MS} ms.')), {RUN_MS}))"
    return page.evaluate(f"(argument) => Promise.race([({script})(argument), {late}])", argument)


def run_all(page: Any) -> None:
    """Run all cells, wait for the last, and fail with the text of an error in any of them."""
    ask_page(page, "() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
    failed = page.locator('.jp-OutputArea-output[data-mime-type="application/vnd.jupyter.stderr"], .jp-RenderedText[data-mime-type*="error"]')
    assert failed.count() == 0, failed.all_inner_texts()


def replace_cells(page: Any, cells: Sequence[str]) -> None:
    """Other cells in the notebook that a page shows; nothing of the ones before is left, in the kernel neither."""
    run_in_kernel(page, "import ipywidgets as _widgets; _widgets.Widget.close_all(); get_ipython().run_line_magic('reset', '-f')")
    page.evaluate(
        """(sources) => {
            const model = window.jupyterapp.shell.currentWidget.content.model.sharedModel;
            model.insertCells(0, sources.map((source) => ({cell_type: "code", source})));
            model.deleteCellRange(sources.length, model.cells.length);
        }""",
        list(cells),
    )


def set_theme(page: Any, theme: str) -> None:
    """JupyterLab's own theme, ``light`` or ``dark``."""
    name = {"light": "JupyterLab Light", "dark": "JupyterLab Dark"}[theme]
    page.evaluate("(theme) => window.jupyterapp.commands.execute('apputils:change-theme', {theme})", name)
    page.wait_for_function("(light) => document.body.dataset.jpThemeLight === light", arg=str(theme == "light").lower())


def run_in_kernel(page: Any, code: str) -> str:
    """Run code in the notebook's kernel, as another cell would, and give what it printed."""
    return str(
        ask_page(
            page,
            """async (code) => {
                const kernel = window.jupyterapp.shell.currentWidget.sessionContext.session.kernel;
                const future = kernel.requestExecute({code, store_history: false});
                let text = "";
                future.onIOPub = (message) => {
                    if (message.header.msg_type === "stream") text += message.content.text;
                    if (message.header.msg_type === "error") text += message.content.traceback.join("\\n");
                };
                await future.done;
                return text;
            }""",
            code,
        )
    )


def wait_for_kernel(page: Any, code: str, wanted: str) -> None:
    """Until what the kernel prints is as wanted: a click reaches it a moment later."""
    for _ in range(200):
        if run_in_kernel(page, code).strip() == wanted:
            return
        page.wait_for_timeout(50)
    assert run_in_kernel(page, code).strip() == wanted


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait_until_it_answers(url: str, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + START_S
    while time.monotonic() < deadline:
        if process.poll() is not None:
            break
        try:
            urllib.request.urlopen(f"{url}/api/status", timeout=5).close()
        except OSError:
            time.sleep(0.1)  # how long a server takes to start is not ours to know
        else:
            return
    raise RuntimeError(f"The Jupyter server did not start:\n{log.read_text(encoding='utf-8', errors='replace')[-4000:]}")
