"""What a trial costs beside building and running it, as trials add up: 5,000 trials of one tiny kernel.

``python benchmarks/many_trials.py`` writes ``results/many_trials.json``: for each thousand, the search's own seconds (wall time between trials less
building and running) and the worker's memory.
"""

from __future__ import annotations

import sys
import tempfile
import time
from typing import Any

import psutil
from measuring import write

import workbench
from workbench.records.trial import MeasureOptions

_TRIALS = 5000
_BLOCK = 1000


def main() -> None:
    """Search one kernel and look at the worker meanwhile."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else _TRIALS
    block = trials // (_TRIALS // _BLOCK)
    memory: list[tuple[int, int]] = []
    with tempfile.TemporaryDirectory() as folder, workbench.open("matmul", args=[64, 64, 64], target="cpu", session=f"{folder}/session") as session:
        selection = session.profile().select(top=1)
        options = MeasureOptions(min_repeat_ms=0.5, repeat=1)
        search = session.tune(selection, trials=trials, flat_after=None, measure=options)
        while search.is_running:
            with session.directory.store() as store:
                worker, count = store.worker(), store.trials.count()
            if worker is not None:
                memory.append((count, psutil.Process(worker.pid).memory_info().rss))
            time.sleep(1.0)
        search.wait()
        with session.directory.store() as store:
            found = [stored.trial for stored in store.trials.since(0, limit=2 * trials)]
    write("many_trials", {"trials": len(found), "blocks": _blocks(found, memory, block)}, "python benchmarks/many_trials.py")


def _blocks(trials: list[Any], memory: list[tuple[int, int]], block: int) -> list[dict[str, float]]:
    """Figures of each block of trials; building runs in several processes, so its share of the wall time is not taken off but named."""
    figures = []
    for start in range(0, len(trials) - block + 1, block):
        part = trials[start : start + block]
        wall_s = part[-1].measured_at - part[0].measured_at
        resident = [size for count, size in memory if start < count <= start + block]
        figures.append(
            {
                "trials": start + block,
                "wall_ms": wall_s / block * 1e3,
                "search_ms": sum(trial.search_s for trial in part) / block * 1e3,
                "build_ms": sum(trial.build_s for trial in part) / block * 1e3,
                "run_ms": sum(trial.run_s for trial in part) / block * 1e3,
                "peak_bytes": max(resident, default=0),
            }
        )
        sys.stderr.write(f"{figures[-1]}\n")
    return figures


if __name__ == "__main__":
    main()
