"""Two notebooks, each with its own kernel, on one session: what one does, the other shows, and either steers."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from typing import Any

import pytest

from tests.browser.lab import run_in_kernel

pytestmark = pytest.mark.slow

Open = Callable[..., Any]


def test_two_notebooks_on_one_session_agree_and_a_worker_that_was_halted_goes_on(open_app: Open) -> None:
    one = open_app()
    one.profile("net.onnx")
    two = open_app("other")
    two.wait_for_phase("profiled")
    two.page.locator(".wb-table .ag-row").first.wait_for()

    one.box(0).click()
    two.wait_for_selected("1 task")
    two.box(0).and_(two.page.locator(":checked")).wait_for()
    two.tick_next()
    one.wait_for_selected("2 tasks")

    one.tune(2000)
    two.wait_for_phase("tuning")
    two.wait_for_trials(2)
    one.wait_for_trials(2)
    two.button("Pause").click()
    one.wait_for_phase("paused")
    one.page.locator(".wb-monitor .wb-chip.wb-warn", has_text="paused").first.wait_for()
    one.button("Resume").click()
    two.wait_for_phase("tuning")

    worker = int(run_in_kernel(one.page, "print(app.model.state.worker.pid)"))
    os.kill(worker, signal.SIGSTOP)
    for app in (one, two):
        app.shell.locator(".wb-trouble", has_text=f"kill -CONT {worker}").wait_for()
        app.shell.get_by_text("worker halted", exact=True).wait_for()
    os.kill(worker, signal.SIGCONT)
    for app in (one, two):
        app.shell.locator(".wb-trouble").wait_for(state="hidden")
    known = one.drawn_trials()
    for app in (one, two):
        app.wait_for_trials(known + 1)

    two.button("Stop").click()
    for app in (one, two):
        app.wait_for_phase("ending", "tuned")
