"""From the command to the table on the bundled networks, and what profiling costs: runs with instrument against runs without, paired.

``python benchmarks/profiling.py [MODEL ...]`` writes ``results/profiling.json``; with names, the figures of the other models stay.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from measuring import read, run_child, spread, write

import workbench
from workbench.models import bundled_models

_PAIRS = 3
_PAIR_S = 0.2


def profile(name: str, directory: str) -> None:
    """Profile as the command does, and print the figures."""
    with workbench.open(name, target="cpu", session=directory) as session:
        record = session.profile(refresh=True).record
        timings = session.manifest()["timings"]
    if record.rows_us is None or record.total_us is None:
        raise RuntimeError(record.unmeasured)
    figures = {
        "rows": len(record.kernel_rows),
        "tasks": len(record.tasks),
        "rows_us": record.rows_us,
        "total_us": record.total_us,
        "difference_percent": 100 * (record.rows_us / record.total_us - 1),
        "rounds": record.repeats,
        **timings,
    }
    sys.stdout.write(f"{json.dumps(figures)}\n")


def overhead(directory: str) -> None:
    """Time whole runs with and without the instrument, in turn, and print the ratios."""
    import tvm  # noqa: PLC0415 - the child alone loads TVM
    from tvm import relax  # noqa: PLC0415

    from workbench.engines.relax import program_files  # noqa: PLC0415
    from workbench.engines.relax.build import build  # noqa: PLC0415
    from workbench.engines.relax.inputs import on_device  # noqa: PLC0415
    from workbench.engines.relax.instrument import run_instrumented  # noqa: PLC0415
    from workbench.engines.targets import resolve_target, to_tvm  # noqa: PLC0415

    lowered = program_files.load(Path(directory) / "program")
    built = build(lowered.module, to_tvm(resolve_target("cpu", threads=1)))
    arguments = on_device(lowered, built.device, seed=0)
    plain, instrumented = (relax.VirtualMachine(built.executable, tvm.cpu()) for _ in range(2))
    plain.set_input("main", *arguments)
    started = time.perf_counter()
    plain.invoke_stateful("main")
    runs = max(1, round(_PAIR_S / (time.perf_counter() - started)))
    ratios = []
    for _ in range(_PAIRS):
        plain_s = _median_s(lambda: plain.invoke_stateful("main"), runs)
        ratios.append(_median_s(lambda: run_instrumented(instrumented, arguments, synchronise=lambda: None), runs) / plain_s)
    sys.stdout.write(f"\n{json.dumps({'ratios': ratios})}\n")


def _median_s(run: Callable[[], object], runs: int) -> float:
    times_s = []
    for _ in range(runs):
        started = time.perf_counter()
        run()
        times_s.append(time.perf_counter() - started)
    return statistics.median(times_s)


def main(names: list[str]) -> None:
    """Measure the named models, or every bundled one."""
    figures: dict[str, Any] = read("profiling") if names else {}
    for name in names or [model.name for model in bundled_models()]:
        with tempfile.TemporaryDirectory() as folder:
            directory = f"{folder}/session"
            figures[name] = run_child([__file__, "--profile", name, directory])
            figures[name]["overhead_ratio"] = spread(run_child([__file__, "--overhead", directory])["ratios"])
        sys.stderr.write(f"{name}: {figures[name]['wall_s']:.1f} s, rows {figures[name]['difference_percent']:+.2f} % from end to end\n")
    write("profiling", figures, "python benchmarks/profiling.py")


if __name__ == "__main__":
    if len(sys.argv) > 2 and sys.argv[1] == "--profile":
        profile(sys.argv[2], sys.argv[3])
    elif len(sys.argv) > 2 and sys.argv[1] == "--overhead":
        overhead(sys.argv[2])
    else:
        main(sys.argv[1:])
