"""Times of the lowered model: each call alone by TVM's debug executor, whole runs by the graph executor; and outputs."""

from __future__ import annotations

import json
import os
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm.contrib import graph_executor
from tvm.contrib.debugger import debug_executor

from .failing import MODEL, Refusal
from .held import Held, Lowered
from .lowering import generate
from .targets import last_line
from .wire import Blob

_KEPT = "profiling"
_LEAST_MS = 1
_ROUNDS = 11
_ENOUGH_S = 4.0
_FEWEST = 3


@dataclass
class Built:
    """The compiled model with its inputs set.

    Attributes:
        library: Its functions.
        device: Where it runs.
        debug: The debug executor.
        plain: The graph executor.
        seed: Of the inputs; None for those of the user's.
    """

    library: Any
    device: Any
    debug: Any
    plain: Any
    seed: int | None = None


def measure(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Time every call ``repeat`` times (null: as often as the time that they take allows), on inputs of a ``seed``."""
    del blobs
    lowered = held.ready()
    built = _built(held, progress)
    _set_random_inputs(built, lowered, arguments["seed"])
    flags = [_flags(outputs) for outputs in _all_outputs(built, lowered, progress)]
    repeat = arguments["repeat"]
    samples: list[list[float]] = []
    totals: list[float] = []
    started = time.perf_counter()
    while True:
        progress(f"measure (round {len(samples) + 1})", 0.0)
        samples.append(_time_calls(built, lowered))
        totals.append(_time_whole(built))
        done = len(samples)
        elapsed_s = time.perf_counter() - started
        if done >= (repeat or _ROUNDS) or (repeat is None and done >= _FEWEST and elapsed_s > _ENOUGH_S):
            break
    return {
        "calls": [_summary([sample[row] for sample in samples], flags[row]) for row in range(len(lowered.calls))],
        "total": _summary(totals, (None, None)),
        "threads": _threads(),
    }


def outputs(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> tuple[dict[str, int], list[Any]]:
    """Output arrays of some ``rows``, on inputs of a ``seed``: how many each row has, and the arrays one after the other."""
    del blobs
    lowered = held.ready()
    built = _built(held, progress)
    _set_random_inputs(built, lowered, arguments["seed"])
    every = _all_outputs(built, lowered, progress, wanted=set(arguments["rows"]))
    counts = {str(row): len(every[row]) for row in arguments["rows"]}
    return counts, [array for row in arguments["rows"] for array in every[row]]


def run(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> tuple[None, list[Any]]:
    """Outputs of the model for the given arrays."""
    del arguments
    lowered = held.ready()
    built = _built(held, progress)
    built.seed = None
    for (name, _, _), array in zip(lowered.inputs, blobs):
        built.plain.set_input(name, tvm.nd.array(np.array(array), built.device))
    built.plain.run()
    return None, [built.plain.get_output(place).numpy() for place in range(built.plain.get_num_outputs())]


def random_inputs(lowered: Lowered, seed: int) -> list[Any]:
    """One array for each input of the model: normal for floating point, random for booleans, 1 for integers; as the relax engine makes them."""
    random = np.random.default_rng(seed)
    made = []
    for name, shape, dtype in lowered.inputs:
        if dtype == "bool":
            made.append(random.integers(0, 2, shape).astype("bool"))
        elif dtype.startswith(("int", "uint")):
            made.append(np.ones(shape, dtype))
        elif dtype in ("float16", "float32", "float64"):
            made.append(random.standard_normal(shape, dtype=np.float32).astype(dtype))
        else:
            raise Refusal(MODEL, f"The input {name} is of type {dtype}, of which NumPy has no arrays.", "Cast it within the model.")
    return made


def random_weights(lowered: Lowered, seed: int) -> dict[str, Any]:
    """Arrays in place of the parameters, as the relax engine makes them."""
    made = {}
    for place, (name, value) in enumerate(sorted(lowered.params.items())):
        own = np.asarray(value)
        random = np.random.default_rng([seed, place])
        if own.dtype.kind != "f" or own.size <= 1:
            made[name] = own
        elif max(own.shape) == own.size:
            made[name] = (0.5 + random.random(own.shape)).astype(own.dtype)
        else:
            made[name] = (random.standard_normal(own.shape) * np.sqrt(2.0 * own.shape[0] / own.size)).astype(own.dtype)
    return made


def build(lowered: Lowered, target: Any) -> Any:
    """The compiled functions of an optimised module, each with the schedule that TVM has for it."""
    _, functions, _ = generate(lowered.module, target)
    try:
        return tvm.build(functions, target=target)
    except Exception as error:
        raise Refusal(MODEL, f"The old TVM cannot compile the model: {last_line(error)}.", "-v shows its whole text.") from error


def device_of(target: Any, index: int = 0) -> Any:
    """The device of a target's kind."""
    return tvm.device("cpu" if target.kind.name == "llvm" else target.kind.name, index)


def _built(held: Held, progress: Any) -> Built:
    kept = held.tasks.get(_KEPT)
    if isinstance(kept, Built):
        return kept
    lowered = held.ready()
    progress("compile", 0.0)
    library = build(lowered, held.target)
    device = device_of(held.target)
    debug = debug_executor.create(lowered.graph, library, device, dump_root=str(Path(tempfile.gettempdir()) / f"tvmdbg_{os.getpid()}"))
    plain = graph_executor.create(lowered.graph, library, device)
    made = Built(library, device, debug, plain)
    for executor in (debug, plain):
        executor.set_input(**{name: tvm.nd.array(value, device) for name, value in lowered.params.items()})
    held.tasks[_KEPT] = made
    return made


def _set_random_inputs(built: Built, lowered: Lowered, seed: int) -> None:
    if built.seed == seed:
        return
    for (name, _, _), array in zip(lowered.inputs, random_inputs(lowered, seed)):
        for executor in (built.debug, built.plain):
            executor.set_input(name, tvm.nd.array(array, built.device))
    built.seed = seed


def _all_outputs(built: Built, lowered: Lowered, progress: Any, *, wanted: set[int] | None = None) -> list[list[Any]]:
    """Outputs of each call, in one run, copied before another call may take their memory; only of wanted rows, if that is said."""
    described = json.loads(lowered.graph)
    rows = {node: row for row, node in enumerate(lowered.nodes)}
    found: list[list[Any]] = [[] for _ in lowered.nodes]
    for number, node in enumerate(described["nodes"]):
        built.debug._execute_node(number)  # noqa: SLF001 - what its own run does; no public call keeps each output
        row = rows.get(number)
        if row is None or (wanted is not None and row not in wanted):
            continue
        progress("run", (row + 1) / len(rows))
        count = int(node["attrs"].get("num_outputs", 1))
        found[row] = [built.debug._get_node_output(number, place).numpy() for place in range(count)]  # noqa: SLF001 - the same
    return found


def _time_calls(built: Built, lowered: Lowered) -> list[float]:
    """One time of each call, in us, over as many runs as the clock needs."""
    single = getattr(built.debug, "run_individual_node", None)
    if single is not None:
        return [float(single(node, 1, 1, _LEAST_MS).results[0]) * 1e6 for node in lowered.nodes]
    times = built.debug.run_individual(1, 1, _LEAST_MS)  # before 0.10: all nodes at once, a list of lists or of numbers
    return [float(np.median(np.atleast_1d(times[node]))) * 1e6 for node in lowered.nodes]


def _time_whole(built: Built) -> float:
    """Time of one whole run, in us."""
    evaluator = built.plain.module.time_evaluator("run", built.device, number=1, repeat=1, min_repeat_ms=_LEAST_MS)
    return float(np.median(evaluator().results)) * 1e6


def _summary(values: list[float], flags: tuple[int | None, int | None]) -> dict[str, Any]:
    low, median, high = np.percentile(values, [25, 50, 75])
    return {"median_us": float(median), "iqr_us": float(high - low), "repeats": len(values), "nan_count": flags[0], "inf_count": flags[1]}


def _flags(arrays: list[Any]) -> tuple[int, int]:
    """Number of NaN and of infinite values."""
    floats = [array for array in arrays if array.dtype.kind == "f"]
    return sum(int(np.isnan(array).sum()) for array in floats), sum(int(np.isinf(array).sum()) for array in floats)


def _threads() -> int:
    count = tvm.get_global_func("runtime.NumThreads", allow_missing=True)
    return int(count()) if count is not None else int(os.environ.get("TVM_NUM_THREADS", "1"))


CALLS = {"measure": measure, "outputs": outputs, "run": run}
