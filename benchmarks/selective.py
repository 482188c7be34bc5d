"""What it brings to tune the hotspots alone: a third of the trials on the hottest rows, against all trials on all tasks.

``python benchmarks/selective.py`` writes ``results/selective.json``. All sessions start from the same profile; in the end the untuned model and the
tuned ones run by turns in one process. The hotspots are ticked twice: those that make 80 % of the time, and 90 %; no kernel that is not ticked
gets any faster, so the share of the time that is covered bounds the gain.
"""

from __future__ import annotations

import json
import math
import shutil
import statistics
import sys
import tempfile
from pathlib import Path
from typing import Any

from measuring import run_child, write

import workbench

_MODELS = ("squeezenet", "resnet50")
_TRIALS_A_TASK = 32
_SHARES = {"hotspots_80": 0.8, "hotspots_90": 0.9}
_ROUNDS = 15


def tune(model: str, folder: str) -> dict[str, Any]:
    """Profile once, then tune everything and the hotspots in sessions of their own; returns how many trials each took, and what it covers."""
    everything = Path(folder) / "all"
    with workbench.open(model, target="cpu", session=everything) as session:
        tunable = [task for task in session.profile().tasks if not task.untunable]
    for name in _SHARES:
        shutil.copytree(everything, Path(folder) / name)
    trials = _TRIALS_A_TASK * len(tunable)
    arms: dict[str, dict[str, Any]] = {}
    for name in ("all", *_SHARES):
        with workbench.open(Path(folder) / name) as session:
            profile = session.profile()
            selection = profile.select(tasks=[task.task for task in tunable]) if name == "all" else profile.select(share=_SHARES[name])
            budget = trials if name == "all" else trials // 3
            result = session.tune(selection, trials=budget, flat_after=None).result()
            ticked = {item.task for item in selection.tasks}
            covered = sum(task.time_percent or 0.0 for task in profile.tasks if task.task in ticked) / 100
        arms[name] = {"trials": budget, "tasks": len(ticked), "covered": covered, "seconds": result["seconds"]}
    return arms


def measure(folder: str) -> dict[str, Any]:
    """Run the untuned model and the two tuned ones by turns; microseconds of one run."""
    import tvm  # noqa: PLC0415 - loaded by this side only
    from tvm import relax  # noqa: PLC0415

    from workbench.engines.relax.build import build  # noqa: PLC0415
    from workbench.engines.relax.inputs import on_device  # noqa: PLC0415
    from workbench.engines.relax.program_files import load  # noqa: PLC0415
    from workbench.engines.relax.space import prepare_intrinsics  # noqa: PLC0415
    from workbench.engines.targets import to_tvm  # noqa: PLC0415
    from workbench.records.target import TargetSpec  # noqa: PLC0415
    from workbench.session import SessionDirectory  # noqa: PLC0415

    machines, names = [], ("untuned", "all", *_SHARES)
    for name in names:
        directory = SessionDirectory.open(Path(folder) / ("all" if name == "untuned" else name))
        lowered = load(directory.program, trust=False)
        with directory.store() as store:
            target = to_tvm(TargetSpec.from_dict(store.manifest()["target"]))
            prepare_intrinsics(target)
            module = lowered.module if name == "untuned" else _with_winners(lowered.module, store)
        built = build(module, target)
        machine = relax.VirtualMachine(built.executable, built.device)
        machine.set_input("main", *on_device(lowered, built.device, seed=0))
        machine.invoke_stateful("main")
        machines.append(machine.time_evaluator("invoke_stateful", tvm.cpu(), number=1, repeat=1))
    times_us: dict[str, list[float]] = {name: [] for name in names}
    for _ in range(_ROUNDS):
        for name, evaluate in zip(names, machines, strict=True):
            times_us[name].append(evaluate("main").results[0] * 1e6)
    return {name: {"median": statistics.median(values), "min": min(values), "max": max(values)} for name, values in times_us.items()}


def _with_winners(module: Any, store: Any) -> Any:
    """The lowered module with the schedule of every task's winner in place of its kernels."""
    import tvm  # noqa: PLC0415
    from tvm.s_tir.schedule import Trace  # noqa: PLC0415

    from workbench.engines.relax.workload_module import as_main  # noqa: PLC0415

    functions = dict(module.functions.items())
    kernels = {task.task: task.kernels for task in store.profile().tasks}
    for progress in store.trials.progress():
        if progress.final is None or progress.final.verdict != "faster":
            continue
        trace = json.loads(store.trials.trace(progress.task, progress.final.winner))
        for name in kernels[progress.task]:
            variable = module.get_global_var(name)
            schedule = tvm.s_tir.Schedule(as_main(module[name]))
            Trace.apply_json_to_schedule(trace, schedule)
            functions[variable] = schedule.mod["main"].with_attr("global_symbol", name)
    return tvm.IRModule(functions, attrs=module.attrs)


def main() -> None:
    """Measure every model."""
    figures = {}
    for model in sys.argv[1:] or _MODELS:
        with tempfile.TemporaryDirectory() as folder:
            searched = tune(model, folder)
            times_us = run_child([__file__, "measure", folder])
        del times_us["wall_s"]
        before, full = (times_us[name]["median"] for name in ("untuned", "all"))
        gains = {name: (before - times_us[name]["median"]) / (before - full) if before > full else math.nan for name in _SHARES}
        figures[model] = {"arms": searched, "times_us": times_us, "share_of_the_gain": gains}
        sys.stderr.write(f"{model}: {json.dumps(figures[model])}\n")
    write("selective", figures, "python benchmarks/selective.py")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "measure":
        sys.stdout.write(f"{json.dumps(measure(sys.argv[2]))}\n")
    else:
        main()
