"""What a log of the original auto-scheduler is worth on today's TVM: ``python benchmarks/ansor.py [LOG]`` writes ``results/ansor.json``.

The log is of the bundled workload `conv2d_relu`, whose arguments stand in its workload key; without one it is the repository's sample. Each
record is translated, built, compared with the untuned kernel, and timed in turn with it; then the same kernel is searched for as many trials,
without the log and with it.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from measuring import run_child, write
from tvm import te

import workbench
from workbench.engines.relax.ansor.stages import Untranslatable
from workbench.engines.relax.ansor.translate import translate
from workbench.engines.relax.bundled_workloads import conv2d_relu
from workbench.engines.relax.workload_module import as_main
from workbench.engines.targets import resolve_target, to_tvm
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.auto_scheduler.workloads import LoggedWorkload, logged_workloads
from workbench.machine import cpu_facts

_TOLERANCE = 1e-4
"""Of the largest value of the untuned kernel's output."""

_ROUNDS = 5
_SAMPLE = Path(__file__).parents[1] / "tests" / "samples" / "auto_scheduler" / "conv2d_relu.json"


def replayed(workload: LoggedWorkload, sizes: Sequence[int]) -> dict[str, Any]:
    """Translate, build, check and time every record that was right."""
    target = to_tvm(resolve_target("cpu", threads=cpu_facts().physical_cores))
    tensors = conv2d_relu(*sizes)
    module = as_main(te.create_prim_func(tensors))
    generator = np.random.default_rng(0)
    arrays = [tvm.runtime.tensor(generator.standard_normal([int(size) for size in tensor.shape], dtype=np.float32)) for tensor in tensors]
    untuned = tvm.compile(module, target=target).mod
    expected = _output(untuned, arrays)
    reasons: Counter[str] = Counter()
    faults: Counter[str] = Counter()
    records = []
    for item in workload.records:
        try:
            scheduled = translate(module, item.record.steps).mod
        except Untranslatable as error:
            reasons[str(error)] += 1
            continue
        try:
            library = tvm.compile(scheduled, target=target).mod
        except Exception as error:  # noqa: BLE001 - TVM raises any class of error on a schedule that it cannot build; it counts as one
            faults[str(error).strip().splitlines()[-1][:200]] += 1
            continue
        difference = float(np.abs(_output(library, arrays) - expected).max() / np.abs(expected).max())
        records.append({"claimed_us": item.time_us, "right": difference <= _TOLERANCE, "time_us": _time_us(library, arrays)})
    return {"untuned_us": _time_us(untuned, arrays), "untranslatable": dict(reasons), "uncompilable": dict(faults), "records": records}


def searched(sizes: Sequence[int], trials: int, transfer: Sequence[str]) -> dict[str, Any]:
    """Search the same kernel; the best time after each trial, and of the last measurement."""
    with (
        tempfile.TemporaryDirectory() as folder,
        workbench.open("conv2d_relu", args=list(sizes), target="cpu", session=folder + "/s", repeat=1) as session,
    ):
        search = session.tune(session.profile().select(top=1), trials=trials, flat_after=None, transfer=list(transfer), library=False)
        (task,) = search.wait()
        best = [trial.best_us for trial in search.trials()[0]]
        return {
            "best_us": task.best_us,
            "baseline_us": task.baseline_us,
            "after": {str(count): best[min(count, len(best)) - 1] for count in (16, 32, trials)},
        }


def _output(library: Any, arrays: Sequence[Any]) -> Any:
    output = tvm.runtime.tensor(np.full(arrays[-1].shape, np.nan, np.float32))
    library["main"](*arrays[:-1], output)
    return output.numpy()


def _time_us(library: Any, arrays: Sequence[Any]) -> float:
    timer = library.time_evaluator("main", tvm.cpu(), number=1, repeat=_ROUNDS, min_repeat_ms=20)
    return 1e6 * statistics.median(timer(*arrays).results)


def main() -> None:
    """Each part in a process of its own, the searches in turn."""
    given = sys.argv[1] if len(sys.argv) > 1 else str(_SAMPLE)
    if given == "replay":
        log, sizes = sys.argv[2], json.loads(sys.argv[3])
        (workload,) = logged_workloads(parse_auto_scheduler_log(Path(log).read_text(encoding="utf-8")).entries)
        sys.stdout.write(json.dumps(replayed(workload, sizes)) + "\n")
        return
    if given == "search":
        sys.stdout.write(json.dumps(searched(json.loads(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])) + "\n")
        return
    log = str(Path(given).resolve())
    (workload,) = logged_workloads(parse_auto_scheduler_log(Path(log).read_text(encoding="utf-8")).entries)
    sizes = [size[0] if isinstance(size, list) else size for size in json.loads(workload.key)[1:]]
    found = run_child([__file__, "replay", log, json.dumps(sizes)])
    records = found["records"]
    trials = str(len(workload.records))
    alone = run_child([__file__, "search", json.dumps(sizes), trials])
    helped = run_child([__file__, "search", json.dumps(sizes), trials, log])
    best = min(records, key=lambda record: record["time_us"])
    ratios = [record["time_us"] / record["claimed_us"] for record in records]
    figures = {
        "log": Path(log).name,
        "workload": f"conv2d_relu {sizes}",
        "records": len(workload.records),
        "failed_in_the_log": workload.failed,
        "translated": len(workload.records) - sum(found["untranslatable"].values()),
        "untranslatable": found["untranslatable"],
        "compiled": len(records),
        "uncompilable": found["uncompilable"],
        "right": sum(record["right"] for record in records),
        "untuned_us": found["untuned_us"],
        "best_us": best["time_us"],
        "best_claimed_us": min(record["claimed_us"] for record in records),
        "time_to_claim": {"geometric_mean": math.exp(statistics.fmean(map(math.log, ratios))), "min": min(ratios), "max": max(ratios)},
        "rank_correlation": _rank_correlation([record["claimed_us"] for record in records], [record["time_us"] for record in records]),
        "search": {"trials": int(trials), "without": alone, "with": helped},
    }
    write("ansor", figures, "python benchmarks/ansor.py")


def _rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's: 1 if both order the schedules alike."""
    ranks = [np.argsort(np.argsort(values)) for values in (first, second)]
    return float(np.corrcoef(*ranks)[0, 1])


if __name__ == "__main__":
    main()
