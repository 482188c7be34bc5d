"""Builds the model with recorded schedules, beside the untuned one, and writes what runs it with TVM alone; runs and compares nothing."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import tvm
from tvm import relay
from tvm.contrib import graph_executor
from tvm.contrib.debugger import debug_executor

from .held import Held, Lowered
from .kernel_code import find_kernel
from .lowering import generate
from .profiling import device_of
from .replaying import fingerprint, lowered
from .wire import Blob

MODEL, PARAMETERS = "model.so", "params.bin"

_UNTUNED = "untuned.so"
_KEPT = "applying"


@dataclass
class Model:
    """One of the two models, loaded from its file.

    Attributes:
        library: Its functions.
        debug: An executor that runs one call after the other.
        plain: An executor that runs the whole.
    """

    library: Any
    debug: Any
    plain: Any


@dataclass
class Both:
    """The two models of a process.

    Attributes:
        device: Where they run.
        untuned: The untuned one.
        tuned: The one with schedules; None before it is built.
        scheduled: Symbols of its kernels with a schedule, by name.
        seed: Of the inputs that both have; None if they have none.
    """

    device: Any
    untuned: Model
    tuned: Model | None = None
    scheduled: dict[str, str] = field(default_factory=dict)
    seed: int | None = None


def both_of(held: Held) -> tuple[Both, tuple[Model, Model]]:
    """What `build` has built: the untuned model first."""
    both: Both | None = held.tasks.get(_KEPT)
    if both is None or both.tuned is None:
        raise RuntimeError("no model was built in this process")
    return both, (both.untuned, both.tuned)


def build(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Build the model with the traces in the blobs, one for each of ``kernels``, into ``folder``; load it and the untuned one on ``device``.

    Returns:
        ``applied``: those of the kernels whose schedule TVM asked for while it lowered them, and that stand so in the module that was built;
        ``inputs``: name, shape and dtype of each input of the model.
    """
    program, folder = held.ready(), Path(arguments["folder"])
    _, functions, _ = generate(program.module, held.target)
    if _KEPT not in held.tasks:
        progress("build: untuned model", 0.0)
        device = device_of(held.target, arguments["device"])
        held.tasks[_KEPT] = Both(device, _written(program, functions, held.target, Path(arguments["scratch"], _UNTUNED), device))
    both: Both = held.tasks[_KEPT]
    own = {}
    for place, (name, trace) in enumerate(zip(arguments["kernels"], blobs)):
        progress(f"build: {name}", place / len(blobs))
        own[name] = lowered(find_kernel(held, name), held.target, bytes(trace).decode()).function
    symbols = {name: program.kernels[name].symbol for name in own}
    replaced = _with_functions(functions, {symbols[name]: function for name, function in own.items()})
    progress("build: model", 0.9)
    both.tuned = _written(program, replaced, held.target, folder / MODEL, both.device)
    both.scheduled, both.seed = symbols, None
    (folder / PARAMETERS).write_bytes(relay.save_param_dict({name: tvm.nd.array(value) for name, value in program.params.items()}))
    found = {name.name_hint: function for part in replaced.values() for name, function in part.functions.items()}
    applied = [name for name, function in own.items() if fingerprint(found[symbols[name]]) == fingerprint(function)]
    return {"applied": applied, "inputs": program.inputs}


def _with_functions(functions: Any, own: dict[str, Any]) -> dict[Any, Any]:
    """Lowered functions by target, with some of them replaced, by their symbols."""
    replaced = {}
    for target, part in functions.items():
        named = {name: own.get(name.name_hint, function) for name, function in part.functions.items()}
        replaced[target] = tvm.IRModule({name: _in_place_of(part[name], function) for name, function in named.items()}, attrs=part.attrs)
    return replaced


def _in_place_of(stock: Any, function: Any) -> Any:
    """A function with the symbol and the attributes of the one whose place it takes."""
    for name in ("global_symbol", "target", "hash"):
        if stock.attrs is not None and name in stock.attrs:
            function = function.with_attr(name, stock.attrs[name])
    return function


def _written(program: Lowered, functions: Any, target: Any, path: Path, device: Any) -> Model:
    """A model compiled into a library with its graph, and loaded from there."""
    library = tvm.build(functions, target=target)
    create = tvm.get_global_func("tvm.graph_executor_factory.create")
    create(program.graph, library, "default").export_library(str(path))
    loaded = tvm.runtime.load_module(str(path))
    dumps = path.parent.parent / f"dumps-{os.getpid()}"  # beside what is handed out; its folder goes with the scratch
    debug = debug_executor.create(program.graph, loaded, device, dump_root=str(dumps))
    plain = graph_executor.GraphModule(loaded["default"](device))
    for executor in (debug, plain):
        executor.set_input(**{name: tvm.nd.array(value, device) for name, value in program.params.items()})
    return Model(loaded, debug, plain)


CALLS = {"build": build}
