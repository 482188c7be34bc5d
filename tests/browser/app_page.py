"""The app in a page, as a user sees it: what tests and pictures do with it."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper
from playwright.sync_api import TimeoutError as PageTimeoutError

from tests.browser.lab import wait_for_kernel
from tests.browser.rows import box, cell, shown
from workbench.session import SessionDirectory

HOSTILE = "<img src=x onerror=\"document.body.dataset.hacked='yes'\">"
CELL = "from workbench.notebook import Workbench\napp = Workbench()\napp"
LONG_MS = 120_000


def write_model(path: Path) -> None:
    """A small network with two convolutions of one structure, a matrix product, and names that no page may take for HTML."""
    rng = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array((rng.random((8, 8, 3, 3)) / 72).astype("float32"), "w1"),
        numpy_helper.from_array((rng.random((8, 8, 3, 3)) / 72).astype("float32"), "w2"),
        numpy_helper.from_array((rng.random((8 * 14 * 14, 10)) / 1568).astype("float32"), "w3"),
    ]
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["a"], name=f"/first/{HOSTILE}", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["b"], name="/first/relu"),
        helper.make_node("Conv", ["b", "w2"], ["c"], name="/second/conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["c"], ["d"], name="/second/relu"),
        helper.make_node("Flatten", ["d"], ["e"], name="/flatten"),
        helper.make_node("MatMul", ["e", "w3"], ["y"], name="/classify"),
    ]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 8, 14, 14])]
    graph = helper.make_graph(nodes, "graph", inputs, [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 10])], weights)
    path.write_bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=10).SerializeToString())


def end_workers(folder: Path) -> None:
    """Searches outlive their notebooks; those of a test must not."""
    for database in folder.glob("workbench-sessions/*/session.sqlite"):
        directory = SessionDirectory.open(database.parent)
        with directory.store() as store:
            worker = store.worker()
        if worker is not None and directory.is_served():
            os.killpg(worker.pid, signal.SIGKILL)


class AppPage:
    """The app in a page.

    Args:
        page: The page that shows it.
    """

    def __init__(self, page: Any) -> None:
        self.page = page
        self.shell = page.locator(".wb-shell")

    def wait_for_phase(self, *phases: str) -> None:
        """Wait until the app is in one of some phases."""
        selector = ", ".join(f'.wb-shell[data-phase="{phase}"]' for phase in phases)
        self.page.locator(selector).first.wait_for(timeout=LONG_MS)

    def phase(self) -> str:
        return str(self.shell.first.get_attribute("data-phase"))

    def button(self, name: str) -> Any:
        return self.shell.get_by_role("button", name=name, exact=True)

    def profile(self, model: str) -> None:
        """Choose a model and press the button."""
        field = self.shell.get_by_label("Model", exact=True)
        field.fill(model)
        self.button("Profile").click()
        self.wait_for_phase("profiled", "tuned", "stopped")
        self.page.locator(".wb-table .ag-row").first.wait_for()

    def box(self, row: int) -> Any:
        return box(self.page, row)

    def cell(self, row: int, column: str) -> Any:
        return cell(self.page, row, column)

    def selected(self) -> str:
        return str(self.shell.locator(".wb-selected").inner_text())

    def wait_for_selected(self, start: str) -> None:
        """Wait until so much is ticked."""
        self.page.wait_for_function("(start) => document.querySelector('.wb-selected')?.textContent.startsWith(start)", arg=start)

    def tick_next(self) -> None:
        """Tick the first row of the table that is not ticked yet."""
        boxes = [self.box(int(text)) for text in self.shown("row")]
        next(box for box in boxes if box.is_enabled() and not box.is_checked()).click()

    def tick_from_the_top(self, tasks: int) -> None:
        """Tick rows from the top of the table until so many tasks are ticked."""
        for ticked in range(1, tasks + 1):
            self.tick_next()
            self.wait_for_selected(f"{ticked} task")

    def next_step(self) -> str:
        return str(self.shell.locator(".wb-next").inner_text())

    def tune(self, trials: int) -> None:
        """Search with so many trials a task."""
        self.shell.get_by_label("Trials of each task").fill(str(trials))
        self.button("Tune").click()

    def wait_for_trials(self, count: int) -> None:
        """Wait until so many trials are drawn."""
        drawn = "(count) => Number(document.querySelector('.wb-monitor')?.dataset.wbEnd ?? 0) >= count"
        try:
            self.page.wait_for_function(drawn, arg=count, timeout=LONG_MS)
        except PageTimeoutError as error:
            monitor = self.page.locator(".wb-monitor").inner_text()[:1500]
            raise AssertionError(
                f"{self.drawn_trials()} of {count} trials are drawn, {self.phase()}:\n{self.shell.inner_text()}\n{monitor}"
            ) from error

    def drawn_trials(self) -> int:
        return int(self.page.locator(".wb-monitor").get_attribute("data-wb-end") or 0)

    def export(self, name: str, path: Path) -> str:
        """Export something; what the file holds."""
        with self.page.expect_download() as started:
            self.shell.get_by_label("Export").select_option(name)
        started.value.save_as(path)
        return path.read_text(encoding="utf-8")

    def shown(self, column: str) -> list[str]:
        return shown(self.page, column)

    def wait_for_python(self, code: str, wanted: str) -> None:
        wait_for_kernel(self.page, code, wanted)

    def drop(self, onto: Any, *files: Path) -> None:
        """Drag files out of the user's file manager and drop them onto something, as the browser's own events."""
        place = onto.bounding_box()
        at = {"x": place["x"] + place["width"] / 2, "y": place["y"] + place["height"] / 2}
        browser = self.page.context.new_cdp_session(self.page)
        for kind in ("dragEnter", "dragOver", "drop"):
            data = {"items": [], "files": [str(file) for file in files], "dragOperationsMask": 1}
            browser.send("Input.dispatchDragEvent", {"type": kind, **at, "data": data})
        browser.detach()
