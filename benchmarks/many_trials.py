"""What a trial costs beside building and running it, as trials add up: 5,000 trials of one tiny kernel.

``python benchmarks/many_trials.py`` writes ``results/many_trials.json``: for each thousand, wall time, processor time of the worker and memory.
The worker proposes, learns and stores; building and running are done by processes of their own, whose time does not count. Processor time is
told rather than wall time, since the builders keep all cores busy meanwhile.
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
from workbench.records.trial import MeasureOptions

_TRIALS = 5000
_BLOCK = 1000


def main() -> None:
    """Search one kernel and look at the worker meanwhile."""
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else _TRIALS
    block = trials // (_TRIALS // _BLOCK)
    usage: list[tuple[int, int, float]] = []
    with tempfile.TemporaryDirectory() as folder, workbench.open("matmul", args=[64, 64, 64], target="cpu", session=f"{folder}/session") as session:
        selection = session.profile().select(top=1)
        options = MeasureOptions(min_repeat_ms=0.5, repeat=1)
        search = session.tune(selection, trials=trials, flat_after=None, measure=options)
        cursor = count = 0
        while search.is_running:
            found, cursor = search.trials(since=cursor)
            count += len(found)
            usage.append((count, *_usage(session)))
            time.sleep(1.0)
        search.wait()
        with session.directory.store() as store:
            found = [stored.trial for stored in store.trials.since(0, limit=2 * trials)]
    write("many_trials", {"trials": len(found), "blocks": _blocks(found, usage, block)}, "python benchmarks/many_trials.py")


def _usage(session: workbench.Session) -> tuple[int, float]:
    """Resident bytes of the worker and of all that it started, and its own processor seconds; 0 if it has just ended."""
    with session.directory.store() as store:
        worker = store.worker()
    with contextlib.suppress(psutil.NoSuchProcess):
        if worker is not None:
            family = psutil.Process(worker.pid)
            times = family.cpu_times()
            return sum(process.memory_info().rss for process in (family, *family.children(recursive=True))), times.user + times.system
    return 0, 0.0


def _blocks(trials: list[Any], usage: list[tuple[int, int, float]], block: int) -> list[dict[str, float]]:
    """Figures of each block of trials, in milliseconds a trial; the first block begins with the worker's first sign of life."""
    figures: list[dict[str, float]] = []
    for start in range(0, len(trials) - block + 1, block):
        part = trials[start : start + block]
        wall_s = part[-1].measured_at - trials[max(start - 1, 0)].measured_at
        seen = [(count, size, spent_s) for count, size, spent_s in usage if start <= count <= start + block and size]
        counted = max(seen[-1][0] - seen[0][0], 1)
        overhead_ms = (seen[-1][2] - seen[0][2]) / counted * 1e3
        figures.append(
            {
                "trials": start + block,
                "wall_ms": wall_s / block * 1e3,
                "overhead_ms": overhead_ms,
                "overhead_to_first": 1.0 if not figures else overhead_ms / figures[0]["overhead_ms"],
                "build_ms": sum(trial.build_s for trial in part) / block * 1e3,
                "run_ms": sum(trial.run_s for trial in part) / block * 1e3,
                "peak_bytes": max(size for _, size, _ in seen),
            }
        )
        sys.stderr.write(f"{figures[-1]}\n")
    return figures


if __name__ == "__main__":
    main()
