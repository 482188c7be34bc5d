"""One kernel on both engines: the best time against trials and against seconds, of today's MetaSchedule and of the old auto_scheduler.

``WORKBENCH_RELAY_PYTHON=PATH python benchmarks/engines.py`` writes ``results/engines.json``. The bundled ``conv2d_relu`` is searched for as many
trials on each engine, by turns, with the command and its start-up; the relay engine runs TVM in the old Python that the variable names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from measuring import write

import workbench
from workbench.old_python import VARIABLE, find_old_python
from workbench.records.request import RELAX, RELAY

_WORKLOAD = "conv2d_relu"
_TRIALS_VARIABLE = "WORKBENCH_BENCHMARK_TRIALS"
_TRIALS = int(os.environ.get(_TRIALS_VARIABLE, "128"))
_SEEDS = (1, 2, 3)
_AFTER_TRIALS = tuple(count for count in (1, 8, 16, 32, 64, 128) if count <= _TRIALS)
_AFTER_S = (5, 10, 20, 40, 80, 160)


def search(engine: str, seed: int, session: str, python: str) -> dict[str, Any]:
    """Search on one engine, in a session that was profiled before, and take the curve of its best times."""
    given: dict[str, Any] = {"engine": engine, "python": python} if engine == RELAY else {}
    with workbench.open(_WORKLOAD, target="cpu", session=session, repeat=1, **given) as opened:
        opened.profile().select(top=1)
        directory = opened.directory
    command = [str(Path(sys.executable).parent / "workbench"), "tune", "--session", session, "--trials", str(_TRIALS), "--seed", str(seed), "-q"]
    options = ["--flat-after", "0", "--no-library", *(["--python", python] if engine == RELAY else [])]
    started_at, started = time.time(), time.perf_counter()
    subprocess.run([*command, *options, "--json", f"{session}.json"], check=True, stdout=subprocess.DEVNULL)
    wall_s = time.perf_counter() - started
    with directory.store() as store:
        trials = [stored.trial for stored in store.trials.since(0, limit=10 * _TRIALS)]
        final = store.trials.progress()[0].final
        version = str(store.manifest()["versions"]["tvm"])
    curve = [(trial.measured_at - started_at, trial.best_us) for trial in trials]
    return {
        "engine": engine,
        "tvm": version,
        "seed": seed,
        "wall_s": wall_s,
        "first_s": curve[0][0],
        "errors": sum(trial.status != "ok" for trial in trials),
        "baseline_us": None if final is None else final.baseline_us,
        "best_us": None if final is None else final.winner_us,
        "after_trials": {str(count): curve[min(count, len(curve)) - 1][1] for count in _AFTER_TRIALS},
        "after_s": {str(limit_s): next((best_us for seconds, best_us in reversed(curve) if seconds <= limit_s), None) for limit_s in _AFTER_S},
    }


def main() -> None:
    """Search on both engines by turns."""
    python = find_old_python()
    if not python:
        sys.exit(f"There is no old Python: name one in {VARIABLE} (make venv-relay makes one).")
    runs: list[dict[str, Any]] = []
    for seed in _SEEDS:
        for engine in (RELAX, RELAY):
            with tempfile.TemporaryDirectory() as folder:
                runs.append(search(engine, seed, f"{folder}/session", python))
            sys.stderr.write(f"{json.dumps(runs[-1])}\n")
            write(
                "engines",
                {"workload": _WORKLOAD, "trials": _TRIALS, "runs": runs},
                f"{_TRIALS_VARIABLE}={_TRIALS} {VARIABLE}=PATH python benchmarks/engines.py",
            )


if __name__ == "__main__":
    main()
