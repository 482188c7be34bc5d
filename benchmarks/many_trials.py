"""What a trial costs beside building and running it, as trials add up: 5,000 trials of one tiny kernel.

``python benchmarks/many_trials.py`` writes ``results/many_trials.json``: for each thousand, wall time, overhead and memory.
Overhead is the wall time less running and less the builders' share: building takes place in as many processes at once as there are builders.
"""

from __future__ import annotations

import contextlib
import sys
import tempfile
import time
from typing import Any

import psutil
from measuring import write

import workbench
from workbench.machine import cpu_facts
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
        cursor = count = 0
        while search.is_running:
            found, cursor = search.trials(since=cursor)
            count += len(found)
            memory.append((count, _memory_bytes(session)))
            time.sleep(1.0)
        search.wait()
        with session.directory.store() as store:
            found = [stored.trial for stored in store.trials.since(0, limit=2 * trials)]
    write("many_trials", {"trials": len(found), "blocks": _blocks(found, memory, block)}, "python benchmarks/many_trials.py")


def _memory_bytes(session: workbench.Session) -> int:
    """Resident memory of the worker and of all that it started; 0 if it has just ended."""
    with session.directory.store() as store:
        worker = store.worker()
    total = 0
    with contextlib.suppress(psutil.NoSuchProcess):
        if worker is not None:
            family = psutil.Process(worker.pid)
            total = sum(process.memory_info().rss for process in (family, *family.children(recursive=True)))
    return total


def _blocks(trials: list[Any], memory: list[tuple[int, int]], block: int) -> list[dict[str, float]]:
    """Figures of each block of trials, in milliseconds a trial; the first block begins with its first trial."""
    builders = cpu_facts().physical_cores
    figures: list[dict[str, float]] = []
    for start in range(0, len(trials) - block + 1, block):
        part = trials[start : start + block]
        wall_s = part[-1].measured_at - trials[max(start - 1, 0)].measured_at
        build_s, run_s = sum(trial.build_s for trial in part), sum(trial.run_s for trial in part)
        resident = [size for count, size in memory if start < count <= start + block]
        overhead_s = wall_s - run_s - build_s / builders
        figures.append(
            {
                "trials": start + block,
                "wall_ms": wall_s / block * 1e3,
                "overhead_ms": overhead_s / block * 1e3,
                "overhead_to_first": 1.0 if not figures else overhead_s / block * 1e3 / figures[0]["overhead_ms"],
                "search_ms": sum(trial.search_s for trial in part) / block * 1e3,
                "build_ms": build_s / block * 1e3,
                "run_ms": run_s / block * 1e3,
                "peak_bytes": max(resident, default=0),
            }
        )
        sys.stderr.write(f"{figures[-1]}\n")
    return figures


if __name__ == "__main__":
    main()
