"""Runs the model with schedules beside the untuned one, call by call, and times both by turns; compares and decides nothing."""

from __future__ import annotations

import json
import os
import statistics
import time
from typing import Any, Callable

import numpy as np
import tvm

from .applying import Model, both_of
from .held import Held, Lowered
from .profiling import random_inputs, random_weights
from .wire import Blob

_ANNOUNCED = "running kernel "
_HOOK_RUNS = 101

AfterNode = Callable[[int], None]
"""Told the number of the graph's node that was just run."""


def outputs(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> tuple[dict[str, Any], list[Any]]:
    """Run both models on inputs of a ``seed``; with ``each_kernel``, also each kernel with a schedule on the untuned model's tensors, call by call.

    With ``random_weights`` both have such in place of their own, and their own again when they have run.

    Returns:
        ``outputs``: how many the model has; ``calls``: row, kernel and number of outputs of each call that was made once more. The arrays are by
        pairs what was found and what should be: the model's outputs first.
    """
    del blobs
    if not arguments["random_weights"]:
        return _compared(held, arguments, progress)
    program = held.ready()
    _set_weights(held, random_weights(program, arguments["seed"]))
    try:
        return _compared(held, arguments, progress)
    finally:
        _set_weights(held, program.params)


def _compared(held: Held, arguments: dict[str, Any], progress: Any) -> tuple[dict[str, Any], list[Any]]:
    """What `outputs` returns, with the weights that are set."""
    program = held.ready()
    both, (untuned, tuned) = both_of(held)
    _set_inputs(held, arguments["seed"])
    nodes = json.loads(program.graph)["nodes"]
    again = {number: name for name, number in zip(program.calls, program.nodes) if name in both.scheduled} if arguments["each_kernel"] else {}
    read = {(source, place) for number in again for source, place, *_ in nodes[number]["inputs"]}
    kept: dict[tuple[int, int], Any] = {}
    calls: list[tuple[int, str, int]] = []
    pairs: list[Any] = []

    def call_again(number: int) -> None:
        """Call a kernel with its schedule on what the untuned one has just been called on; TVM gives the outputs of the last node alone."""
        node = nodes[number]
        for place in range(int(node.get("attrs", {}).get("num_outputs", 1))):
            if (number, place) in read:
                tensor = _tensor(untuned, number, place)
                kept[number, place] = tensor if node["op"] == "null" else tvm.nd.array(tensor.numpy(), both.device)
        if number not in again:
            return
        name = again[number]
        expected = [_tensor(untuned, number, place) for place in range(int(node["attrs"].get("num_outputs", 1)))]
        given = [kept[source, place] for source, place, *_ in node["inputs"]]
        found = [tvm.nd.array(_poisoned(array.numpy()), both.device) for array in expected]
        _announce(name)
        tuned.library.get_function(both.scheduled[name], query_imports=True)(*given, *found)
        both.device.sync()
        calls.append((program.nodes.index(number), name, len(expected)))
        pairs.extend(array.numpy() for pair in zip(found, expected) for array in pair)

    progress("run the untuned model", 0.0)
    _run_nodes(program, untuned, after_node=call_again)
    expected = _results(untuned)
    progress("run the model with schedules", 0.5)
    _run_nodes(program, tuned, announces=True)
    results = [array for pair in zip(_results(tuned), expected) for array in pair]
    return {"outputs": len(expected), "calls": calls}, [*results, *pairs]


def tuned_outputs(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> tuple[int, list[Any]]:
    """How many inputs there are; inputs of a ``seed``, and what the model with schedules makes of them."""
    del blobs, progress
    program = held.ready()
    tuned = both_of(held)[1][1]
    _set_inputs(held, arguments["seed"])
    _run_nodes(program, tuned, announces=True)
    given = random_inputs(program, arguments["seed"])
    return len(given), [*given, *_results(tuned)]


def time_both(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Medians of ``runs`` runs by turns, on inputs of a ``seed``, in microseconds: each call's and the whole's, the untuned model's first."""
    del blobs, progress
    program = held.ready()
    both, models = both_of(held)
    if both.seed != arguments["seed"]:
        _set_inputs(held, arguments["seed"])
        for model in models:
            _time_whole(model, both.device)
    order = (1, 0) if arguments["tuned_first"] else (0, 1)
    hook_us = _hook_us(models[0], both.device, json.loads(program.graph)["arg_nodes"][0])
    calls: dict[int, list[list[float]]] = {0: [], 1: []}
    totals: dict[int, list[float]] = {0: [], 1: []}
    for _ in range(arguments["runs"]):  # by turns within a round too: both meet the same disturbances
        for which in order:
            calls[which].append([max(time_us - hook_us, 0.0) for time_us in _time_calls(program, models[which], both.device)])
    for _ in range(arguments["runs"]):
        for which in order:
            totals[which].append(_time_whole(models[which], both.device))
    medians = [[statistics.median(times) for times in zip(*calls[which])] for which in (0, 1)]
    return {"calls_us": medians, "total_us": [statistics.median(totals[which]) for which in (0, 1)]}


def _set_inputs(held: Held, seed: int) -> None:
    program = held.ready()
    both, models = both_of(held)
    for (name, _, _), array in zip(program.inputs, random_inputs(program, seed)):
        for model in models:
            for executor in (model.debug, model.plain):
                executor.set_input(name, tvm.nd.array(array, both.device))
    both.seed = seed


def _set_weights(held: Held, weights: dict[str, Any]) -> None:
    both, models = both_of(held)
    for model in models:
        model.debug.set_input(**{name: tvm.nd.array(value, both.device) for name, value in weights.items()})


def _run_nodes(program: Lowered, model: Model, *, after_node: AfterNode | None = None, announces: bool = False) -> None:
    """Run a model node by node; `announces` says on standard error which kernel runs next, so that a crash leaves its name behind."""
    names = dict(zip(program.nodes, program.calls))
    for number in range(len(json.loads(program.graph)["nodes"])):
        if announces and number in names:
            _announce(names[number])
        _execute(model, number)
        if after_node is not None:
            after_node(number)


def _execute(model: Model, number: int) -> None:
    model.debug._execute_node(number)  # noqa: SLF001 - what its own run does; no public call stops after each node


def _tensor(model: Model, number: int, place: int) -> Any:
    return model.debug._get_node_output(number, place)  # noqa: SLF001 - no public call gives what a node wrote without a copy to a file


def _results(model: Model) -> list[Any]:
    return [model.debug.get_output(place).numpy() for place in range(model.debug.get_num_outputs())]


def _announce(name: str) -> None:
    os.write(2, f"{_ANNOUNCED}{name}\n".encode())


def _poisoned(array: Any) -> Any:
    """An array of the same kind, with values that a kernel hardly writes."""
    return np.full(array.shape, -123 if array.dtype.kind in "fi" else 1, array.dtype)


def _time_calls(program: Lowered, model: Model, device: Any) -> list[float]:
    """Microseconds of each call in one run."""
    times = []
    rows = {number: row for row, number in enumerate(program.nodes)}
    for number in range(max(program.nodes, default=-1) + 1):
        started = time.perf_counter()
        _execute(model, number)
        device.sync()
        if number in rows:
            times.append((time.perf_counter() - started) * 1e6)
    return times


def _hook_us(model: Model, device: Any, number: int) -> float:
    """What it costs to run one node that does nothing, an input."""
    times = []
    for _ in range(_HOOK_RUNS):
        started = time.perf_counter()
        _execute(model, number)
        device.sync()
        times.append((time.perf_counter() - started) * 1e6)
    return statistics.median(times)


def _time_whole(model: Model, device: Any) -> float:
    device.sync()
    started = time.perf_counter()
    model.plain.run()
    device.sync()
    return (time.perf_counter() - started) * 1e6


CALLS = {"outputs": outputs, "tuned_outputs": tuned_outputs, "time_both": time_both}
