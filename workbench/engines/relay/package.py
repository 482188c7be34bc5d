"""What is handed to the user of an applied model beside its library and parameters: a program that runs both, and the logs of its schedules."""

from __future__ import annotations

import re
import string
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.engines.apply_protocol import RecordedSchedule
from workbench.engines.relay.traces import is_auto_scheduler, line_with
from workbench.escaping import plain
from workbench.legacy.log_files import AUTO_SCHEDULER_LOG, AUTOTVM_LOG
from workbench.records.target import TargetSpec

LOADER = "load.py"

_LOADER_TEXT = string.Template('''\
"""Runs the tuned model that lies beside this file. It needs TVM $version, or one like it with Relay, and numpy, and nothing else.

    python load.py                     # runs it once on random inputs

    from load import load
    run = load()
    outputs = run($arguments)          # NumPy arrays in, NumPy arrays out

$records
"""

import os

os.environ.setdefault("TVM_NUM_THREADS", "$threads")  # before TVM loads, which otherwise takes half of the processors

import numpy as np
import tvm
from tvm.contrib import graph_executor

FOLDER = os.path.dirname(os.path.abspath(__file__))
INPUTS = $inputs


def load(device=None):
    """The model as a function of its inputs."""
    device = device if device is not None else tvm.device("$kind", 0)
    library = tvm.runtime.load_module(os.path.join(FOLDER, "model.so"))
    module = graph_executor.GraphModule(library["default"](device))
    with open(os.path.join(FOLDER, "params.bin"), "rb") as file:
        module.load_params(file.read())

    def run(*arrays):
        for (name, _, _), array in zip(INPUTS, arrays):
            module.set_input(name, tvm.nd.array(np.ascontiguousarray(array), device))
        module.run()
        return [module.get_output(place).numpy() for place in range(module.get_num_outputs())]

    return run


def random_inputs(seed=0):
    """Inputs of the right shapes and types; whole numbers are all 1."""
    generator = np.random.default_rng(seed)
    return [_random(generator, shape, dtype) for _, shape, dtype in INPUTS]


def _random(generator, shape, dtype):
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith(("int", "uint")):
        return np.ones(shape, dtype)
    return generator.standard_normal(shape, dtype=np.float32).astype(dtype)


if __name__ == "__main__":
    for number, array in enumerate(load()(*random_inputs())):
        print("output %d: %s %s, first values %s" % (number, array.dtype, array.shape, array.ravel()[:4]))
''')
_SAME = """The same kernels in TVM itself, of the optimised model (program/module.json of the session, by tvm.ir.load_json):

    with auto_scheduler.ApplyHistoryBest("auto_scheduler.json"), tvm.transform.PassContext(
        opt_level=3, config={"relay.backend.use_auto_scheduler": True}, disabled_pass={"AutoSchedulerLayoutRewrite"}
    ): ...                              # for the kernels in auto_scheduler.json
    with autotvm.apply_history_best("autotvm.log"): ...  # for those in autotvm.log"""
_NO_NAME = re.compile(r"\W+", re.ASCII)


def write_package(
    folder: Path, schedules: Mapping[str, RecordedSchedule], inputs: Sequence[Sequence[Any]], spec: TargetSpec, *, threads: int, version: str
) -> None:
    """Write the program and the logs into the folder of a built model.

    Args:
        folder: Of the model.
        schedules: What stands in it, by kernel.
        inputs: Name, shape and dtype of each input of the model.
        spec: Its target.
        threads: With which it was timed.
        version: Of the TVM that built it.

    Raises:
        OSError: The disk refuses.
    """
    now = time.time()
    logs: dict[str, dict[str, None]] = {}
    for schedule in schedules.values():
        name = AUTO_SCHEDULER_LOG if is_auto_scheduler(schedule.trace) else AUTOTVM_LOG
        logs.setdefault(name, {})[line_with(schedule.trace, [schedule.time_us / 1e6], now)] = None
    for name, lines in logs.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    shown = [(plain(str(name)), tuple(int(size) for size in shape), str(dtype)) for name, shape, dtype in inputs]
    names = [_NO_NAME.sub("_", name) or "x" for name, _, _ in shown]
    text = _LOADER_TEXT.substitute(
        arguments=", ".join(name if name.isidentifier() else f"x{place}" for place, name in enumerate(names)),
        inputs="[  # name, shape, dtype\n" + "".join(f"    {item!a},\n" for item in shown) + "]",
        kind="cpu" if spec.kind == "llvm" else spec.kind,
        records=_SAME if logs else "No kernel has a schedule of a search.",
        threads=threads,
        version=plain(version, 40).replace("\\", "/").replace('"', "'"),
    )
    (folder / LOADER).write_text(text, encoding="utf-8")
