"""How usable a notebook's kernel stays while the app searches: ``python benchmarks/ui_front.py [SECONDS]``.

A kernel shows the app on a profiled model and searches; meanwhile a client runs a trivial cell again and again, as a user would, and counts the
messages to the widgets. Before that, how long the app takes to open a profiled session, from *Tune* to the first trial, and until the death
of a killed worker is seen. Writes ``results/ui_front.json``.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager
from measuring import write

import workbench

_SECONDS = 60.0
_PAUSE_S = 0.05
_MODEL = "squeezenet"
_HANG_S = 300.0

_OPEN = """
import time
started = time.perf_counter()
from workbench.notebook import Workbench
imported_s = time.perf_counter() - started
app = Workbench("session")
while app.parts.table is None: time.sleep(0.002)
shown_s = time.perf_counter() - started
"""
_FIGURES = "import json; print(json.dumps({'import_s': imported_s, 'open_s': shown_s}))"
_WARM = """
while app.model.state.worker.state != "ready": time.sleep(0.01)
"""
_TUNE = """
with app.session.directory.store() as store: before = store.trials.count()
started = time.perf_counter()
app.shell.receive("tune", {"per_task": 10_000}, ())
handler_s = time.perf_counter() - started
while True:
    with app.session.directory.store() as store:
        if store.trials.count() > before: break
    time.sleep(0.01)
print(json.dumps({"handler_s": handler_s, "first_trial_s": time.perf_counter() - started}))
"""
_READY = """
while app.parts.monitor is None or app.parts.inspector is None: time.sleep(0.01)
for part in (app.shell, app.parts.table, app.parts.graph, app.parts.monitor, app.parts.inspector): part.take_message({"kind": "ready"})
"""
"""As a page does that shows every part: one that no page has opened tells nothing."""
_KILL = """
import os, signal
pid = app.model.state.worker.pid
started = time.perf_counter()
os.kill(pid, signal.SIGKILL)
while app.model.state.phase != "stopped": time.sleep(0.005)
print(json.dumps({"death_seen_s": time.perf_counter() - started}))
app.close()
"""


class Messages:
    """Counts what the kernel tells its widgets, as any page that is open gets it."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.count = 0
        self._is_ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End."""
        self._is_ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_ended.is_set():
            with contextlib.suppress(queue.Empty):
                self.count += self._client.get_iopub_msg(timeout=0.2)["msg_type"].startswith("comm")


class Front:
    """A kernel with the app, and a client that runs cells in it."""

    def __init__(self, client: Any, messages: Messages) -> None:
        self._client = client
        self.messages = messages

    def run(self, code: str) -> str:
        """Run a cell; what it printed."""
        text: list[str] = []

        def note(message: Any) -> None:
            if message["msg_type"] == "stream":
                text.append(message["content"]["text"])

        reply = self._client.execute_interactive(code, store_history=False, timeout=_HANG_S, output_hook=note)
        if reply["content"]["status"] != "ok":
            raise RuntimeError("\n".join(reply["content"]["traceback"]))
        return "".join(text)

    def latencies_ms(self, seconds: float) -> list[float]:
        """Times of a trivial cell, one after the other."""
        found = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            started = time.perf_counter()
            self.run("1")
            found.append(1e3 * (time.perf_counter() - started))
            time.sleep(_PAUSE_S)
        return found


@contextlib.contextmanager
def front(folder: Path) -> Iterator[Front]:
    """A kernel of its own."""
    manager = KernelManager()
    manager.start_kernel(cwd=str(folder), env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)})
    client = manager.client()
    client.start_channels()
    listener = manager.client()
    listener.start_channels(shell=False, stdin=False, hb=False, control=False)
    messages = Messages(listener)
    try:
        client.wait_for_ready(timeout=_HANG_S)
        yield Front(client, messages)
    finally:
        messages.close()
        listener.stop_channels()
        client.stop_channels()
        manager.shutdown_kernel()


def main() -> None:
    """Measure."""
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else _SECONDS
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with workbench.open(_MODEL, target="cpu", session=folder / "session") as session:
            session.profile().select(share=0.8)
        with front(folder) as kernel:
            idle = kernel.latencies_ms(seconds / 6)
            kernel.run(_OPEN)
            figures = json.loads(kernel.run(_FIGURES))
            kernel.run(_WARM)
            figures |= json.loads(kernel.run(_TUNE))
            kernel.run(_READY)
            before, started = kernel.messages.count, time.monotonic()
            busy = kernel.latencies_ms(seconds)
            figures["messages_per_s"] = (kernel.messages.count - before) / (time.monotonic() - started)
            figures |= json.loads(kernel.run(_KILL))
    figures |= {"cells": len(busy), "idle": _quantiles(idle), "searching": _quantiles(busy)}
    write("ui_front", figures, f"python benchmarks/ui_front.py {seconds:g}")
    sys.stdout.write(f"{json.dumps(figures)}\n")


def _quantiles(times_ms: list[float]) -> dict[str, float]:
    """Median, 99th percentile and largest of some times."""
    return {"median_ms": statistics.median(times_ms), "p99_ms": statistics.quantiles(times_ms, n=100)[98], "max_ms": max(times_ms)}


if __name__ == "__main__":
    main()
