"""What can be searched for each kernel: the tasks of auto_scheduler and AutoTVM of the very function that the model calls, and their spaces."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import auto_scheduler

from .held import Held, Kernel
from .sketches import compute_tensors
from .targets import last_line
from .templates import tasks_of
from .wire import Blob

_SEED = 0


def extract(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> list[dict[str, Any]]:
    """For each kernel, in their order: its FLOP, its workload keys, the sizes of its spaces, and why it cannot be searched."""
    del arguments, blobs
    kernels = list(held.ready().kernels.values())
    found: dict[str, dict[str, Any]] = {}
    for place, kernel in enumerate(kernels):
        progress("extract tasks", place / len(kernels))
        if kernel.structural_hash not in found:
            found[kernel.structural_hash] = _describe(kernel, held.target)
    for described, kernel in zip(held.ready().facts["kernels"], kernels):
        described["reduction"] = found[kernel.structural_hash]["reduction"]
    return [found[kernel.structural_hash] for kernel in kernels]


def _describe(kernel: Kernel, target: Any) -> dict[str, Any]:
    try:
        tensors = compute_tensors(kernel.function, target)
    except Exception as error:
        return {"flop": None, "workload_key": "", "spaces": {}, "templates": [], "reduction": 1, "untunable": last_line(error)}
    flop, sketches, reason, key = _auto_scheduler(tensors, target)
    templates = tasks_of(kernel.function, target)
    return {
        "flop": flop,
        "workload_key": key,
        "spaces": {
            **({"auto-scheduler": sketches} if sketches else {}),
            **({"autotvm": sum(len(task.config_space) for task in templates)} if templates else {}),
        },
        "templates": [task.name for task in templates],
        "reduction": _longest_sum(tensors),
        "untunable": "" if sketches or templates else reason,
    }


def _auto_scheduler(tensors: list[Any], target: Any) -> tuple[int | None, int, str, str]:
    """FLOP, number of sketches, why there are none, and the workload key."""
    try:
        dag = auto_scheduler.ComputeDAG(tensors)
        key = auto_scheduler.workload_registry.register_workload_tensors(dag.workload_key(), list(dag.tensors))
        task = auto_scheduler.SearchTask(compute_dag=dag, workload_key=key, target=target)
        policy = auto_scheduler.SketchPolicy(task, auto_scheduler.RandomModel(), seed=_SEED, verbose=0)
        sketches = len(policy.generate_sketches())
    except Exception as error:
        return None, 0, f"auto_scheduler cannot schedule it: {last_line(error)}", ""
    flop = int(float(dag.flop_ct))
    return (flop if flop > 0 else None), sketches, "", key


def _longest_sum(tensors: list[Any]) -> int:
    """Terms of the longest sum (or other reduction) of a computation."""
    found, waiting, seen = 1, [tensor.op for tensor in tensors], set()
    analyzer = tvm.arith.Analyzer()
    while waiting:
        operation = waiting.pop()
        if operation in seen:
            continue
        seen.add(operation)
        waiting.extend(tensor.op for tensor in operation.input_tensors)
        terms = 1
        for axis in getattr(operation, "reduce_axis", ()):
            extent = analyzer.simplify(axis.dom.extent)
            terms *= int(extent) if isinstance(extent, tvm.tir.IntImm) else 1
        found = max(found, terms)
    return found


CALLS = {"extract": extract}
