"""Widgets in a real page: one Jupyter server and one Chromium a session, no request to the outside, no error in the page's console.

``notebook`` opens a new notebook in JupyterLab, runs its cells and gives the page; ``shared_notebook`` does the same in one page for all tests,
which takes a tenth of the time. Nothing is installed or downloaded: Chromium is the
system's (Debian: ``apt-get install chromium``), and all tests here are skipped where there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.browser.app_page import CELL, AppPage, end_workers, write_model
from tests.browser.lab import (
    RUN_MS,
    SHARED,
    Guard,
    Server,
    chromium,
    chromium_browser,
    jupyter_server,
    open_in_lab,
    replace_cells,
    run_all,
    set_theme,
)

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    missing = missing_parts()
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.browser)
            if missing:
                item.add_marker(pytest.mark.skip(reason=missing))


def missing_parts() -> str:
    """What these tests need and do not find; empty if all is there."""
    if chromium() is None:
        return "there is no Chromium: apt-get install chromium"
    return ""


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The server of all browser tests: JupyterLab, Notebook and Voila."""
    with jupyter_server(tmp_path_factory.mktemp("jupyter")) as running:
        yield running


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """The browser of all of them."""
    with chromium_browser() as started:
        yield started


@pytest.fixture
def guard() -> Iterator[Guard]:
    """Fails the test, in the end, if a page asked for something outside or had an error."""
    made = Guard()
    yield made
    assert made.outside == [], "a page asked for something outside of this machine"
    assert made.errors == [], "a page's console has errors"


@pytest.fixture
def new_page(browser: Any, guard: Guard, server: Server) -> Iterator[Callable[..., Any]]:
    """Makes guarded pages; with the test they are closed and their kernels end."""
    contexts = []

    def make(*, size: tuple[int, int] = (1280, 900), scheme: str = "light") -> Any:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, color_scheme=scheme, accept_downloads=True)
        context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(RUN_MS)
        guard.watch(page)
        return page

    yield make
    for context in contexts:
        context.close()
    server.shut_down_kernels()


@pytest.fixture
def notebook(new_page: Callable[..., Any], server: Server) -> Callable[..., Any]:
    """Opens a notebook with the given cells in JupyterLab, runs them all, and gives the page.

    Args (of what it gives):
        cells: Sources of code cells.
        size: Width and height of the page.
        theme: ``light`` or ``dark``: JupyterLab's own.
    """

    def open_notebook(cells: Sequence[str], *, size: tuple[int, int] = (1280, 900), theme: str = "light") -> Any:
        page = new_page(size=size)
        name = server.write(cells)
        open_in_lab(page, server, name, theme=theme)
        run_all(page)
        return page

    return open_notebook


@pytest.fixture(scope="session")
def lab(browser: Any, server: Server) -> Iterator[tuple[Any, Guard]]:
    """A page of JupyterLab that tests share, and what watches over it."""
    context = browser.new_context(viewport={"width": 1280, "height": 900}, accept_downloads=True)
    context.grant_permissions(["clipboard-read", "clipboard-write"], origin=server.url)
    page, guard = context.new_page(), Guard()
    page.set_default_timeout(RUN_MS)
    guard.watch(page)
    open_in_lab(page, server, server.write([""], SHARED))
    yield page, guard
    context.close()


@pytest.fixture
def shared_notebook(lab: tuple[Any, Guard]) -> Iterator[Callable[..., Any]]:
    """As ``notebook``, in the page and the kernel that tests share: other cells, and a kernel without variables or widgets."""
    page, guard = lab
    guard.outside.clear()
    guard.errors.clear()

    def open_notebook(cells: Sequence[str], *, size: tuple[int, int] = (1280, 900), theme: str = "light") -> Any:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        set_theme(page, theme)
        replace_cells(page, cells)
        run_all(page)
        return page

    yield open_notebook
    page.evaluate("() => window.jupyterapp.commands.execute('notebook:clear-all-cell-outputs')")
    assert guard.outside == [], "a page asked for something outside of this machine"
    assert guard.errors == [], "a page's console has errors"


@pytest.fixture
def folder(server: Server, tmp_path: Path) -> Iterator[Path]:
    """A folder of its own below the server's, with a model in it: notebooks keep their sessions beside them."""
    made = server.folder / tmp_path.name
    made.mkdir()
    write_model(made / "net.onnx")
    yield made
    end_workers(made)


@pytest.fixture
def open_app(new_page: Callable[..., Any], server: Server, folder: Path) -> Callable[..., AppPage]:
    """Opens the app in a notebook of the folder, in JupyterLab.

    Args (of what it gives):
        notebook: Name of the notebook; each has a kernel of its own.
        page: As those of ``new_page``.
    """

    def open_it(notebook: str = "app", **page: Any) -> AppPage:
        made = new_page(**page)
        name = f"{folder.name}/{notebook}.ipynb"
        server.write([CELL], name)
        open_in_lab(made, server, name)
        run_all(made)
        app = AppPage(made)
        app.shell.wait_for()
        return app

    return open_it
