"""The search against stock MetaSchedule of the same TVM: wall time per trial, time to stock's best, final best at equal trials, first trial.

``python benchmarks/tuning.py`` writes ``results/tuning.json``. For each task and seed, stock's ``tune_tir`` with its defaults and ``workbench tune``
run in turn, each in processes of its own with start-up included; then the best schedule of each is built again and the two are timed by turns.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from kernels import FUNCTIONS, TASKS
from measuring import run_child, spread, write

import workbench
from workbench.machine import cpu_facts

_TRIALS = 128
_SEEDS = (1, 2, 3)
_HERE = Path(__file__)


def stock(title: str, seed: int, folder: str) -> dict[str, Any]:
    """Tune with stock TVM; its database goes to the folder."""
    from tvm import te  # noqa: PLC0415 - each side is a process of its own and loads what it needs
    from tvm.s_tir import meta_schedule  # noqa: PLC0415

    name, arguments = TASKS[title]
    function = te.create_prim_func(FUNCTIONS[name](*arguments))
    meta_schedule.tune_tir(function, _target(), folder, max_trials_global=_TRIALS, seed=seed)
    return {}


def compare(title: str, stock_folder: str, session: str) -> dict[str, Any]:
    """Build the best of stock and the winner of the workbench, and time them by turns."""
    import tvm  # noqa: PLC0415
    from tvm import te  # noqa: PLC0415
    from tvm.s_tir.schedule import Trace  # noqa: PLC0415

    from workbench.engines.relax.space import prepare_intrinsics  # noqa: PLC0415
    from workbench.session import SessionDirectory  # noqa: PLC0415
    from workbench.tuning_database import read_database  # noqa: PLC0415

    prepare_intrinsics(_target())
    name, arguments = TASKS[title]
    function = te.create_prim_func(FUNCTIONS[name](*arguments)).with_attr({"global_symbol": "main", "tirx.noalias": True})
    records = [record for record in read_database(Path(stock_folder)).records if record.time_us is not None]
    best = min(records, key=lambda record: record.time_us or math.inf)
    with SessionDirectory.open(Path(session)).store() as store:
        progress = store.trials.progress()[0]
        winner = progress.final.best if progress.final is not None else progress.best
        trace = json.loads(store.trials.trace(progress.task, winner or 0) or "null")
    evaluators = []
    for schedule_trace in (best.trace, trace):
        schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": function}))
        if schedule_trace is not None:  # the baseline has none
            Trace.apply_json_to_schedule(schedule_trace, schedule)
        library = tvm.compile(schedule.mod, target=_target())
        evaluators.append(library.mod.time_evaluator("main", tvm.cpu(), number=1, repeat=1, min_repeat_ms=20))
    tensors = _tensors(function)
    times_us: list[list[float]] = [[], []]
    for _ in range(15):
        for place, evaluator in enumerate(evaluators):
            times_us[place].append(evaluator(*tensors).results[0] * 1e6)
    return {"stock_us": statistics.median(times_us[0]), "ours_us": statistics.median(times_us[1]), "stock_trials": len(records)}


def _tensors(function: Any) -> list[Any]:
    import numpy as np  # noqa: PLC0415
    import tvm  # noqa: PLC0415

    generator = np.random.default_rng(0)
    shapes = [[int(size) for size in parameter.ty.shape] for parameter in function.params]
    return [tvm.runtime.tensor(generator.standard_normal(shape, dtype=np.float32)) for shape in shapes]


def _target() -> Any:
    from workbench.engines.targets import resolve_target, to_tvm  # noqa: PLC0415

    return to_tvm(resolve_target("cpu", threads=cpu_facts().physical_cores))


def ours(title: str, seed: int, session: str) -> dict[str, Any]:
    """Tune with the command on a session that was profiled before, as stock gets a function that is there."""
    name, arguments = TASKS[title]
    with workbench.open(f"kernels:{name}", args=arguments, target="cpu", session=session, trust=True, repeat=1) as opened:
        opened.profile().select(top=1)
        directory = opened.directory
    command = [str(Path(sys.executable).parent / "workbench"), "tune", "--session", session, "--trials", str(_TRIALS), "--seed", str(seed), "-q"]
    started_at, started = time.time(), time.perf_counter()
    subprocess.run([*command, "--flat-after", "0", "--json", f"{session}.json"], check=True, stdout=subprocess.DEVNULL)
    wall_s = time.perf_counter() - started
    with directory.store() as store:
        trials = [stored.trial for stored in store.trials.since(0, limit=10 * _TRIALS)]
    curve = [(trial.measured_at - started_at, trial.best_us) for trial in trials]
    return {
        "wall_s": wall_s,
        "first_s": curve[0][0],
        "curve": curve,
        "errors": sum(trial.status != "ok" for trial in trials),
        "search_s": sum(trial.search_s for trial in trials),
        "build_s": sum(trial.build_s for trial in trials),
        "run_s": sum(trial.run_s for trial in trials),
    }


def main() -> None:
    """Measure all tasks and seeds, one pair after the other."""
    runs = []
    titles = [title for title in TASKS if not sys.argv[1:] or any(word in title for word in sys.argv[1:])]
    os.environ["PYTHONPATH"] = str(_HERE.parent)
    for seed in _SEEDS:
        for title in titles:
            with tempfile.TemporaryDirectory() as folder:
                theirs = run_child([str(_HERE), "stock", title, str(seed), f"{folder}/stock"])
                mine = ours(title, seed, f"{folder}/session")
                final = run_child([str(_HERE), "compare", title, f"{folder}/stock", f"{folder}/session"])
            reached = [seconds for seconds, best_us in mine.pop("curve") if best_us is not None and best_us <= final["stock_us"]]
            run = {"task": title, "seed": seed, "stock_wall_s": theirs["wall_s"], "ours": mine, **final, "reached_s": reached[0] if reached else None}
            del run["wall_s"]
            runs.append(run)
            sys.stderr.write(f"{json.dumps(run)}\n")
            write("tuning", {"trials": _TRIALS, "runs": runs, "summary": _summary(runs)}, "python benchmarks/tuning.py")


def _summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    per_trial = [run["stock_wall_s"] / run["ours"]["wall_s"] for run in runs]
    reached = [(run["reached_s"] if run["reached_s"] is not None else math.inf) / run["stock_wall_s"] for run in runs]
    ratio = [run["ours_us"] / run["stock_us"] for run in runs]
    return {
        "stock_wall_to_ours": spread(per_trial),
        "time_to_stocks_best_to_stocks_wall": {"median": statistics.median(reached), "not_reached": sum(math.isinf(value) for value in reached)},
        "final_best_ratio_geometric_mean": math.exp(statistics.fmean(math.log(value) for value in ratio)),
        "final_best_ratio": spread(ratio),
        "first_trial_s": spread([run["ours"]["first_s"] for run in runs]),
    }


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] in ("stock", "compare"):
        side = {"stock": lambda title, seed, folder: stock(title, int(seed), folder), "compare": compare}[sys.argv[1]]
        sys.stdout.write(f"{json.dumps(side(*sys.argv[2:]))}\n")
    else:
        main()
