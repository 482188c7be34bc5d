"""The monitor of a search in a real page: 100,000 trials opened, 64 more of them, an hour of 20 a second, and plotly.js on its way.

``python benchmarks/ui_monitor.py`` writes ``results/ui_monitor.json``. Needs Chromium, like the browser tests, whose server and browser it uses.
Times of an update are from before the session is read, by a thread of the notebook's kernel as in use, to the frame that shows the points, in
the page.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import spread, write

from tests.browser.lab import Guard, chromium_browser, jupyter_server, open_in_lab, run_all, run_in_kernel
from workbench.notebook.monitor.feed import StoreFeed
from workbench.records.trial import OK, MeasureOptions, Trial
from workbench.records.tuning import TaskProgress
from workbench.session import SessionDirectory

TRIALS = 100_000
ADDED = 64
ROUNDS = 15
FRESH_PAGES = 3
IDLE_S = 0.5
HOUR_TICKS = 360
PER_TICK = 200
MOST_MS = 120_000

SETUP = f"""
import gc, json, threading, time
from tests.notebook_samples import profile_of
from tests.monitor_samples import FakeFeed
from workbench.notebook import TuningMonitor
posts = []
class Watched(TuningMonitor):
    def post(self, kind, *, buffers=(), **content):
        posts.append((kind, len(json.dumps(content)) + sum(map(len, buffers))))
        super().post(kind, buffers=buffers, **content)
feed = FakeFeed(profile_of(40, kernels=25))
feed.search({TRIALS})
"""
OPEN = "{name} = Watched(feed); {name}.start(); {name}"
UPDATE = f"""
monitor._interval_s = 3600.0
def update():
    global told
    feed.search({ADDED})
    posts.clear(); begun = time.time(); monitor.poll(); told = [begun, time.time(), posts]
threading.Timer({IDLE_S}, update).start()
print(len(feed.points) + {ADDED})
"""
WATCH = """() => {
    window.drawn = [];
    for (const root of document.querySelectorAll('.wb-monitor')) {
        const note = () => requestAnimationFrame(() => window.drawn.push([Date.now() / 1000, Number(root.dataset.wbEnd)]));
        new MutationObserver(note).observe(root, {attributeFilter: ['data-wb-end']});
    }
}"""


def main() -> None:
    """Measure and write."""
    with tempfile.TemporaryDirectory() as scratch, jupyter_server(Path(scratch)) as server, chromium_browser() as browser:
        figures = {"trials": TRIALS, "store_s": _store(Path(scratch) / "session"), **_page(server, browser)}
    write("ui_monitor", figures, "python benchmarks/ui_monitor.py")
    print(json.dumps(figures, indent=2))  # noqa: T201 - a script


def _store(path: Path) -> dict[str, float]:
    """Seconds that reading all trials out of a session takes."""
    directory = SessionDirectory.create(path)
    options, progress = MeasureOptions(), TaskProgress("conv2d", "conv2d", 1)
    with directory.store() as store, store._connection.transaction() as sql:  # noqa: SLF001 - one transaction for all: a benchmark's session
        decisions = tuple(f"tile {place} 4 7 2" for place in range(12))
        for number in range(TRIALS):
            times = (100.0 + number % 97, 101.0, 102.0)
            trial = Trial(
                "conv2d", number, OK, "", "f" * 16, "search", "c" * 16, times, 9, 0.1, 0.2, 0.3, None, 100.0, 1.7e9 + number, decisions, options
            )
            sql.execute("INSERT INTO trials (task, number, record, trace) VALUES (?, ?, ?, '')", (trial.task, number, json.dumps(trial.to_dict())))
        store.trials._set_progress(progress)  # noqa: SLF001 - as above
    times_s = []
    for _ in range(3):
        feed, cursor, started = StoreFeed(directory), 0, time.perf_counter()
        while points := feed.since(cursor):
            cursor = points[-1].cursor
        times_s.append(time.perf_counter() - started)
    return spread(times_s)


def _page(server: Any, browser: Any) -> dict[str, Any]:
    guard, cold_s = Guard(), []
    for _ in range(FRESH_PAGES):
        context = browser.new_context(viewport={"width": 1400, "height": 1000})
        page = context.new_page()
        guard.watch(page)
        open_in_lab(page, server, server.write([OPEN.format(name="monitor")]))
        run_in_kernel(page, SETUP)
        cold_s.append(_opened(page, 1))
        kinds = json.loads(run_in_kernel(page, "print(json.dumps(posts))"))
        if len(cold_s) < FRESH_PAGES:
            server.shut_down_kernels()
            context.close()
    warm_s = [_opened(page, 1) for _ in range(3)]
    page.evaluate(WATCH)
    updates = [_update(page) for _ in range(ROUNDS)]
    hour = _hour(page)
    server.shut_down_kernels()
    context.close()
    return {
        "plotly_bytes": next(size for kind, size in kinds if kind == "plotly"),
        "snapshot_bytes": next(size for kind, size in kinds if kind == "snapshot"),
        "open_first_s": spread(cold_s),
        "open_s": spread(warm_s),
        "update_ms": spread([item["ms"] for item in updates]),
        "update_python_ms": spread([item["python_ms"] for item in updates]),
        "update_bytes": spread([item["bytes"] for item in updates]),
        "hour": hour,
        "outside": guard.outside,
    }


def _opened(page: Any, count: int) -> float:
    """Seconds from running the cell to all trials being drawn."""
    run_in_kernel(page, "if 'monitor' in globals(): monitor.close()")
    started = time.perf_counter()
    run_all(page)
    page.wait_for_function(f"() => document.querySelectorAll('.wb-monitor[data-wb-end=\"{TRIALS}\"]').length === {count}", timeout=MOST_MS)
    return time.perf_counter() - started


def _update(page: Any) -> dict[str, float]:
    end = int(run_in_kernel(page, UPDATE))
    page.wait_for_function(f"() => window.drawn.some(([, end]) => end === {end})", timeout=MOST_MS)
    at = page.evaluate(f"() => window.drawn.find(([, end]) => end === {end})[0]")
    begun, told, posts = json.loads(run_in_kernel(page, "print(json.dumps(told))"))
    if [kind for kind, _ in posts] != ["update"]:
        raise RuntimeError(f"one update was expected, not {posts}")
    return {"ms": (at - begun) * 1e3, "python_ms": (told - begun) * 1e3, "bytes": posts[0][1]}


def _hour(page: Any) -> dict[str, Any]:
    """An hour of 20 trials a second, in a few minutes: what the page holds before and after, and the largest message."""
    before = _held(page)
    run_in_kernel(page, "posts.clear()")
    for _ in range(HOUR_TICKS // 20):
        end = int(run_in_kernel(page, f"for _ in range(20):\n    feed.search({PER_TICK})\n    monitor.poll()\nprint(len(feed.points))"))
        page.wait_for_function(f"() => document.querySelector('.wb-monitor').dataset.wbEnd === '{end}'", timeout=MOST_MS)
    posts = json.loads(run_in_kernel(page, "print(json.dumps(posts))"))
    return {
        "trials": HOUR_TICKS * PER_TICK,
        "before": before,
        "after": _held(page),
        "updates": sum(kind == "update" for kind, _ in posts),
        "snapshots": sum(kind == "snapshot" for kind, _ in posts),
        "largest_update_bytes": max(size for kind, size in posts if kind == "update"),
    }


def _held(page: Any) -> dict[str, int]:
    points = "document.querySelector('.wb-monitor-main .js-plotly-plot').data.reduce((n, t) => n + t.x.length, 0)"
    found = page.evaluate(f"() => {{ window.gc?.(); return [{points}, document.querySelectorAll('*').length, performance.memory.usedJSHeapSize]; }}")
    return dict(zip(("points", "elements", "heap_bytes"), map(int, found), strict=True))


if __name__ == "__main__":
    main()
