"""The engine for old TVM (0.8 to 0.18): the same work for the same fronts, done by Relay in processes of the user's own old Python."""

from __future__ import annotations

import json
import platform
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from workbench.engines.apply_protocol import Application
from workbench.engines.protocol import Progress
from workbench.engines.record_protocol import TrialRecords
from workbench.engines.reference import KernelFacts
from workbench.engines.relay import model_folder
from workbench.engines.relay.application import RelayApplication
from workbench.engines.relay.children import START_S, Spares
from workbench.engines.relay.description import Description
from workbench.engines.relay.evaluator import RelayEvaluator
from workbench.engines.relay.home import Home
from workbench.engines.relay.interpreter import Interpreter
from workbench.engines.relay.model_request import model_request
from workbench.engines.relay.records import LogRecords
from workbench.engines.relay.task_search import AUTO_SCHEDULER, RelayTaskSearch
from workbench.engines.relay.traces import fingerprint
from workbench.engines.relay.viewer import RelayViewer
from workbench.engines.search_protocol import Evaluator, TaskSearch
from workbench.engines.targets import resolve_target
from workbench.engines.view_protocol import Viewer
from workbench.errors import InputError, ModelError, SessionError
from workbench.escaping import plain
from workbench.machine import cpu_facts
from workbench.records.decode import DecodeError
from workbench.records.graph import ModelGraph
from workbench.records.origin import Origin
from workbench.records.peaks import Peaks
from workbench.records.profile import CallTime, Kernel, KernelCall, Measurement
from workbench.records.request import ModelSource
from workbench.records.target import TargetSpec
from workbench.records.trial import MeasureOptions
from workbench.workloads import BUNDLED

LAYOUTS = ("keep",)

_NO_PEAKS = "the limits of a device are measured with today's TVM; this session's engine is relay"
_MOST_SPARE_BUILDERS = 4
_FOR_PROCESSORS = ("llvm", "c")
_ELSEWHERE = "Open the session on a machine that has the device."


class RelayEngine:
    """Implements `workbench.engines.protocol.Engine`.

    Args:
        python: The program of the old Python.
        threads: Threads that run kernels there.
    """

    name = "relay"

    def __init__(self, python: Path, *, threads: int) -> None:
        self._python = python
        self._threads = threads
        self._workload: tuple[str, list[Any]] | None = None
        self._main = self._make_child()
        self._spares = Spares(self._make_child)
        self._runner: Home | None = None
        self._home: Home | None = None
        self._own = tempfile.TemporaryDirectory(prefix="workbench-relay-")
        self._program = Path(self._own.name) / "program"
        self._description: Description | None = None
        self._graph = False
        self._target: TargetSpec | None = None

    def close(self) -> None:
        """End the processes of the old Python that this object keeps, and remove its files."""
        self._spares.close()
        for process in (self._main, self._runner):
            if process is not None:
                process.close()
        self._own.cleanup()

    def versions(self) -> dict[str, str]:
        """Versions of the old TVM and of what it depends on."""
        return {str(name): plain(str(version)) for name, version in self._main.call("about.versions", {}, timeout_s=START_S).value.items()}

    def resolve_target(self, text: str, *, threads: int) -> TargetSpec:
        """What the user's target means on this machine, as the old TVM's own target."""
        spec = resolve_target(text, threads=threads)
        asked = {"config": spec.options, "machine": platform.machine()}
        found = self._main.call("targets.understand", asked, timeout_s=START_S).value
        cpu = spec.options.get("mcpu")
        description = spec.description.replace(str(cpu), str(found["config"].get("mcpu", "generic"))) if cpu else spec.description
        return replace(
            spec,
            config=json.dumps(found["config"], sort_keys=True),
            description=description,
            remarks=(*spec.remarks, *(plain(str(remark), 200) for remark in found["remarks"])),
        )

    def import_model(self, source: ModelSource, *, seed: int, function: Callable[..., Any] | None) -> tuple[str, ...]:
        """Read a model."""
        if function is not None:
            raise ModelError(
                "A function of this Python's TVM says nothing to the old TVM.", "Give it as module:function, with --trust: the old Python imports it."
            )
        self._description = None
        request = model_request(source, seed=seed)
        own = source.kind == "workload" and source.workload not in BUNDLED
        if own:
            self._main.close()  # which may know the module as it was before
        self._workload = (source.workload, request["args"]) if own else None
        return tuple(self._main.call("importing.import_model", request).value["notes"])

    def lower(self, target: TargetSpec, *, layout: str, fusion: bool, on_progress: Progress) -> tuple[str, ...]:
        """Lower the imported model."""
        if layout not in LAYOUTS:
            raise ModelError(f"There is no layout {layout}.", f"Use one of: {', '.join(LAYOUTS)}.")
        self._take_up(target)
        self._main.call("targets.take", {"config": target.options, "machine": platform.machine()})
        facts = self._main.call("lowering.lower", {"fusion": fusion}, on_progress=on_progress).value
        self._described(facts, graph=True)
        self._write()
        return tuple(facts["steps"])

    def extract_tasks(self, *, on_progress: Progress) -> tuple[Kernel, ...]:
        """All kernels of the lowered model."""
        extracted = self._ready_home().call("extraction.extract", {}, on_progress=on_progress).value
        kernels = self._ready().kernels(extracted)
        self._write()
        return kernels

    def calls(self) -> tuple[KernelCall, ...]:
        """Calls of kernels in execution order."""
        return self._ready().calls

    def builtin_origins(self) -> tuple[Origin, ...]:
        """Source operators that only look at a value another way: the graph executor runs nothing for them."""
        return self._ready().builtins

    def eliminated_origins(self) -> tuple[Origin, ...]:
        """Source operators of which nothing is left to run."""
        return self._ready().eliminated

    def graph(self) -> ModelGraph:
        """The source model and its kernel calls as graphs."""
        description = self._ready()
        if not self._graph:
            raise SessionError("The program of the session was saved without the graph of its model.", "Profile the model again.")
        return description.graph()

    def profile(self, *, repeat: int | None, seed: int, on_progress: Progress) -> Measurement:
        """Time every call, by the debug executor, in a process of its own."""
        missing = self._missing()
        if missing:
            return Measurement(calls=(), runtime=None, builtins=(), total=None, hook_us=0.0, threads=0, unmeasured=missing)
        found = self._ready_runner().call("profiling.measure", {"repeat": repeat, "seed": seed}, on_progress=on_progress).value
        return Measurement(
            calls=tuple(CallTime(**call) for call in found["calls"]),
            runtime=None,
            builtins=(),
            total=CallTime(**found["total"]),
            hook_us=0.0,
            threads=int(found["threads"]),
        )

    def outputs(self, rows: Sequence[int], *, seed: int, on_progress: Progress) -> dict[int, list[Any]]:
        """Output arrays of the given rows."""
        self._check_runs()
        reply = self._ready_runner().call("profiling.outputs", {"rows": list(rows), "seed": seed}, on_progress=on_progress)
        arrays = iter(reply.blobs)
        return {row: [next(arrays) for _ in range(reply.value[str(row)])] for row in rows}

    def run(self, inputs: Sequence[Any], *, on_progress: Progress) -> list[Any]:
        """Output arrays of the lowered model."""
        self._check_runs()
        expected = self._ready().inputs
        if len(inputs) != len(expected):
            raise ModelError(f"The model has {len(expected)} inputs, not {len(inputs)}.", "Give one array for each.")
        for (name, tensor), array in zip(expected, inputs, strict=True):
            found = (tuple(np.shape(array)), str(getattr(array, "dtype", type(array).__name__)))
            if found != (tensor.shape, tensor.dtype):
                raise ModelError(f"Input {plain(name)} is {tensor.dtype} {tensor.shape}, not {found[1]} {found[0]}.", "Give such an array.")
        return list(self._ready_runner().call("profiling.run", {}, [np.asarray(array) for array in inputs], on_progress=on_progress).blobs)

    def search_task(
        self, kernel: str, *, space: str, seed: int, schedule: Callable[..., Any] | None = None, device: int = 0, trust: bool = False
    ) -> TaskSearch:
        """The search of one kernel of the lowered model."""
        del device, trust  # where candidates are measured says nothing about them; no trace of older TVM brings code
        if schedule is not None:
            raise InputError("This engine takes no schedule function of today's TVM.", f"Use the space {AUTO_SCHEDULER}.")
        search = RelayTaskSearch(self._ready_home(), kernel, space=space, seed=seed)
        search.arguments = [["TENSOR", dtype, list(shape)] for shape, dtype in self._facts(kernel).tensors]
        return search

    def evaluator(self, options: MeasureOptions, *, scratch: Path, builders: int | None, seed: int) -> Evaluator:
        """What builds and measures candidates for the model's target; for a processor that is not here, what checks them on the one that is."""
        target, cores = self._ready_target(), cpu_facts().physical_cores
        unmeasurable = self._missing(options.device)
        return RelayEvaluator(
            self._spares.take,
            self.resolve_target("cpu", threads=cores) if unmeasurable and target.kind in _FOR_PROCESSORS else target,
            self._facts,
            options=options,
            scratch=scratch,
            builders=builders or cores,
            seed=seed,
            unmeasurable=unmeasurable,
        )

    def records(self, folder: Path) -> TrialRecords:
        """The records of trials, as logs of auto_scheduler and AutoTVM."""
        return LogRecords(folder)

    def warm(self) -> None:
        """Have processes that build and measure load TVM meanwhile: a few, since each holds some hundred megabytes."""
        self._spares.fill(min(cpu_facts().physical_cores, _MOST_SPARE_BUILDERS) + 1)

    def viewer(self) -> Viewer:
        """What makes views of recorded schedules."""
        return RelayViewer(self._make_child(), lambda kernel: self._function(kernel).encode(), self._ready_target())

    def peaks(self, *, on_progress: Progress) -> Peaks:
        """No limits: no kernels of the old TVM's are made to find them."""
        del on_progress
        target = self._ready_target()
        return Peaks(
            device=target.description,
            key=self.peaks_key(),
            threads=self._threads,
            flop_per_s=None,
            bandwidths=(),
            method="",
            measured_at=time.time(),
            unmeasured=_NO_PEAKS,
        )

    def peaks_key(self) -> str:
        """One for each target and number of threads."""
        return f"relay {self._ready_target().config} {self._threads}"

    def write_library(self, kernel: str, trace: str, path: Path, *, expected: str = "", trust: bool = False) -> None:
        """Compile a kernel with a recorded schedule into a library."""
        del trust  # no trace of older TVM brings code
        if expected and trace and fingerprint(trace) != expected:
            raise InputError("The recorded schedule is not the one that was measured.", "Search the task again.")
        child = self._make_child()
        try:
            asked = {"target": self._ready_target().options, "name": kernel, "trace": trace, "path": str(path)}
            child.call("viewing.library", asked, (self._function(kernel).encode(),))
        finally:
            child.close()

    def apply(
        self, options: MeasureOptions, *, program: Path, scratch: Path, seed: int, trust: bool, expected_s: float, on_progress: Progress
    ) -> Application:
        """What builds the model with recorded schedules, and runs it beside the untuned one."""
        del trust  # no trace of older TVM brings code
        return RelayApplication(
            self._make_child(),
            program=program,
            target=self._ready_target(),
            scratch=scratch,
            evaluator=self.evaluator(options, scratch=scratch, builders=None, seed=seed),
            programs=lambda kernel, trace: json.dumps({"function": self._function(kernel), "trace": trace}).encode(),
            facts=self._facts,
            calls=[call.kernel for call in self.calls()],
            seed=seed,
            device=options.device,
            expected_s=expected_s,
            version=self.versions()["tvm"],
            on_progress=on_progress,
        )

    def save(self, directory: Path) -> None:
        """Write the lowered model."""
        self._ready()
        model_folder.put(self._program, directory)

    def load(self, directory: Path, target: TargetSpec, *, trust: bool = False) -> None:
        """Take up a lowered model that `save` wrote."""
        facts = model_folder.facts_in(directory)
        self._workload = model_folder.workload_in(directory, trust=trust)  # all else brings no code
        self._take_up(target)
        try:
            self._described(facts, graph=False)
        except DecodeError as error:
            raise SessionError(f"The program of the session is damaged: {error}.", "Profile the model again.") from error
        shutil.rmtree(self._program, ignore_errors=True)
        shutil.copytree(directory, self._program)
        self._ready_home().call("about.versions", {})  # which loads the model, and refuses what is none

    def _make_child(self) -> Interpreter:
        return Interpreter(self._python, threads=self._threads, prepare=self._preparation)

    def _preparation(self) -> tuple[str, dict[str, Any]] | None:
        """What each process has to import before it can read the kernels of a TE workload of the user's."""
        if self._workload is None:
            return None
        workload, arguments = self._workload
        return "importing.prepare", {"workload": workload, "args": arguments, "folder": str(Path.cwd())}

    def _take_up(self, target: TargetSpec) -> None:
        """Forget the model before, and what holds it."""
        if self._runner is not None:
            self._runner.close()
        self._target, self._description = target, None
        self._home = Home(self._main, target, lambda: self._program)
        self._runner = Home(self._make_child(), target, lambda: self._program)

    def _described(self, facts: Any, *, graph: bool) -> None:
        self._description, self._graph = Description(facts), graph
        if graph and self._home is not None:
            self._home.holds()

    def _write(self) -> None:
        """Have the lowered model written where other processes of the old Python load it from."""
        shutil.rmtree(self._program, ignore_errors=True)
        self._program.mkdir()
        self._main.call("files.save", {"folder": str(self._program)})
        if self._workload is not None:
            model_folder.put_workload(self._program, *self._workload)

    def _ready(self) -> Description:
        if self._description is None:
            raise RuntimeError("no model was lowered")
        return self._description

    def _ready_target(self) -> TargetSpec:
        if self._target is None:
            raise RuntimeError("no model was lowered")
        return self._target

    def _ready_home(self) -> Home:
        self._ready()
        if self._home is None:
            raise RuntimeError("no model was lowered")
        return self._home

    def _ready_runner(self) -> Home:
        self._ready()
        if self._runner is None:
            raise RuntimeError("no model was lowered")
        return self._runner

    def _facts(self, kernel: str) -> KernelFacts:
        return self._ready().facts_of(kernel)

    def _function(self, kernel: str) -> str:
        """A kernel's fused Relay function, as the old TVM's JSON."""
        return str(self._ready_home().call("kernel_code.text", {"kernel": kernel}).value)

    def _missing(self, index: int = 0) -> str:
        """Why kernels for the target cannot run on this machine; empty if they can."""
        target = self._ready_target()
        if target.kind == "llvm":
            wanted = str(target.options.get("mtriple", "")).partition("-")[0]
            return "" if wanted in ("", platform.machine()) else f"no {wanted} processor here"
        if target.kind == "c":
            return "TVM has no device for the target kind c"
        return str(self._ready_home().call("targets.missing", {"index": index}).value)

    def _check_runs(self) -> None:
        missing = self._missing()
        if missing:
            raise ModelError(f"The model cannot run: {missing}.", _ELSEWHERE)
