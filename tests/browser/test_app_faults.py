"""The app when things go wrong: each fault is a real one, is said in the app with its remedy, and leaves a way on."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.app_page import CELL, AppPage, end_workers, write_model
from tests.browser.lab import Server, open_in_lab, run_all, run_in_kernel
from tests.medium import Medium, mounted
from workbench.notebook.app.uploads import MOST_BYTES

pytestmark = pytest.mark.slow

Open = Callable[..., Any]


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


def test_files_that_are_dropped_onto_the_app_become_models_or_problems(open_app: Open, folder: Path, tmp_path: Path) -> None:
    app = open_app()
    write_model(tmp_path / "dropped.onnx")
    app.drop(app.shell, tmp_path / "dropped.onnx")
    app.page.wait_for_function("() => document.querySelector('.wb-model').value.endsWith('dropped.onnx')")
    app.button("Profile").click()
    app.wait_for_phase("profiled")
    uploads = folder / "workbench-sessions" / "uploads"
    assert (uploads / "dropped.onnx").read_bytes() == (tmp_path / "dropped.onnx").read_bytes()

    (tmp_path / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(700_000))
    app.drop(app.page.locator(".wb-table"), tmp_path / "photo.png")  # anywhere on the app
    app.page.wait_for_function("() => document.querySelector('.wb-model').value.endsWith('photo.png')")
    app.button("Profile").click()
    problem = app.shell.locator(".wb-problem")
    problem.wait_for()
    assert "photo.png" in problem.inner_text()
    assert app.shell.locator(".wb-remedy").inner_text()
    assert app.phase() == "profiled", "what was open stays"

    with (tmp_path / "huge.onnx").open("wb") as huge:
        huge.truncate(MOST_BYTES + 1)
    app.drop(app.shell, tmp_path / "huge.onnx")
    problem.get_by_text("too large").wait_for()
    app.shell.get_by_text("huge.onnx was not taken").wait_for()
    (tmp_path / "empty.onnx").touch()
    app.drop(app.shell, tmp_path / "empty.onnx")
    app.shell.get_by_text("empty.onnx is empty").wait_for()
    assert sorted(path.name for path in uploads.iterdir()) == ["dropped.onnx", "photo.png"]
    assert app.page.url.startswith("http"), "no file took the page's place"


@pytest.fixture
def small_medium(server: Server, tmp_path: Path) -> Iterator[Medium]:
    """A folder of the server that a test can fill, with a model in it."""
    with mounted(server.folder / tmp_path.name, megabytes=48) as medium:
        write_model(medium.path / "net.onnx")
        yield medium
        end_workers(medium.path)


def test_a_full_disk_is_said_in_the_app_and_with_room_again_it_goes_on(new_page: Open, server: Server, small_medium: Medium) -> None:
    page = new_page()
    name = f"{small_medium.path.name}/app.ipynb"
    server.write([CELL], name)
    open_in_lab(page, server, name)
    run_all(page)
    app = AppPage(page)
    app.profile("net.onnx")
    app.box(0).click()
    app.wait_for_selected("1 task")
    app.tune(4000)
    app.wait_for_trials(2)
    ballast = small_medium.fill()
    app.wait_for_phase("stopped")
    problem = app.shell.locator(".wb-problem")
    problem.wait_for()
    assert "full" in problem.inner_text()
    known = app.drawn_trials()
    assert known >= 2

    ballast.unlink()
    app.button("Resume").click()
    app.wait_for_phase("tuning")
    app.wait_for_trials(known + 1)
    app.button("Stop").click()
    app.wait_for_phase("tuned")
