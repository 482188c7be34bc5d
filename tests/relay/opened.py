"""A lowered model in a process of the old Python, what its kernels are, and schedules for them that are written by hand."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.relay.models import CONVOLUTION
from workbench.engines.reference import KernelFacts
from workbench.engines.relay.home import Home
from workbench.engines.relay.interpreter import Interpreter
from workbench.records.target import TargetSpec

OPTIONS = {"kind": "llvm", "mcpu": "nehalem", "mtriple": "x86_64-linux-gnu", "num-cores": 2}
TARGET = TargetSpec("llvm", json.dumps(OPTIONS, sort_keys=True), "cpu", "llvm nehalem, 2 threads")
CONV, DENSE, SOFTMAX = "fused_nn_contrib_conv2d_NCHWc_nn_relu", "fused_nn_contrib_dense_pack", "fused_nn_softmax"

FAST = [["FU", 4, [0, 1, 2]], ["AN", 4, 0, 3], ["AN", 4, 2, 2], ["CA", 3, 4, 0], ["RE", 3, [0, 1, 2, 6, 7, 5, 3, 4]], ["AN", 3, 7, 2]]
"""The convolution within the loop of its activation, by rows in parallel, channels in vectors."""

TILED = [["SP", 3, 3, 14, [7], 1], ["AN", 3, 1, 3], ["PR", 3, 0, "auto_unroll_max_step$16"], ["AN", 4, 4, 2]]
"""One loop split in two, the channels in parallel."""

SLOW = [["AN", 3, 4, 3]]
"""The threads are woken for every point of the image."""

WRONG = [["PR", 3, 0, "debug_skip_region"]]
"""The convolution is left out."""

FOR_A_GPU = [["AN", 3, 1, 5]]
"""A loop is bound to the blocks of a GPU."""


@dataclass
class Opened:
    """What `open_model` made.

    Attributes:
        home: The process that holds the model; a view that was given up may still be asking it, in a thread of its own.
        program: The folder of the lowered model.
        facts: Of each kernel.
        calls: Kernels in execution order.
        keys: auto_scheduler's workload of each kernel.
    """

    home: Home
    program: Path
    facts: dict[str, KernelFacts]
    calls: tuple[str, ...]
    keys: dict[str, str]

    def function(self, kernel: str) -> bytes:
        """The Relay function of a kernel."""
        return str(self.home.call("kernel_code.text", {"kernel": kernel}).value).encode()

    def program_of(self, kernel: str, trace: str) -> bytes:
        """What the evaluator builds."""
        return json.dumps({"function": self.function(kernel).decode(), "trace": trace}).encode()

    def steps(self, steps: list[Any], kernel: str = CONV) -> str:
        """A trace of auto_scheduler's with these steps."""
        target = "llvm -keys=cpu -mcpu=nehalem -mtriple=x86_64-linux-gnu"
        return json.dumps({"i": [[self.keys[kernel], target, [2, 64, 64, 0, 0, 0, 0, 0], "", 0, []], [[], steps]], "v": "v0.6"})

    def template(self, kernel: str, *, place: int = 0) -> str:
        """A trace of AutoTVM's: one of the first configurations of the kernel's template."""
        search = {"kernel": kernel, "search": f"of {kernel}", "seed": 0, "tuner": "gridsearch"}
        self.home.call("templates.begin", search)
        return str(self.home.call("templates.propose", {"search": search["search"], "count": place + 1}).value[place])


def open_model(child: Interpreter, folder: Path) -> Opened:
    """Import, optimise and save the model of `tests.relay.models.CONVOLUTION`."""
    source, program = folder / "net.relay", folder / "program"
    source.write_text(CONVOLUTION)
    program.mkdir()
    child.call("targets.take", {"config": OPTIONS, "machine": "x86_64"})
    child.call("importing.import_model", {"kind": "relay", "path": str(source), "names": CONVOLUTION, "shapes": {}, "seed": 0})
    lowered = child.call("lowering.lower", {"fusion": True}).value
    child.call("files.save", {"folder": str(program)})
    tasks = child.call("extraction.extract", {}).value
    facts = {}
    for kernel in lowered["kernels"]:
        tensors = tuple((tuple(shape), dtype) for shape, dtype in (*kernel["parameters"], *kernel["results"]))
        facts[kernel["name"]] = KernelFacts(tensors, results=len(kernel["results"]), reduction=3136)
    keys = {kernel["name"]: task["workload_key"] for kernel, task in zip(lowered["kernels"], tasks, strict=True)}
    home = Home(child, TARGET, lambda: program)
    home.holds()
    return Opened(home, program, facts, tuple(row["kernel"] for row in lowered["rows"]), keys)
