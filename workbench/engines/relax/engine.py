"""The engine for today's TVM (Relax, 0.25 and later)."""

from __future__ import annotations

import functools
import importlib.metadata
import platform
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import tvm
import tvm_ffi

from workbench.engines.apply_protocol import Application
from workbench.engines.protocol import Progress
from workbench.engines.record_protocol import TrialRecords
from workbench.engines.reference import KernelFacts
from workbench.engines.relax import program_files
from workbench.engines.relax.applying.application import RelaxApplication
from workbench.engines.relax.build import build
from workbench.engines.relax.hollow import hollow_machine
from workbench.engines.relax.importers import import_source
from workbench.engines.relax.inputs import check_inputs, on_device
from workbench.engines.relax.kernels import describe_kernels, longest_reduction, tensors_of
from workbench.engines.relax.lowering import Lowered, lower
from workbench.engines.relax.peaks import measure_peaks, peaks_key
from workbench.engines.relax.profiler import Profiler
from workbench.engines.relax.program import Program
from workbench.engines.relax.records import MetaScheduleRecords
from workbench.engines.relax.search.evaluator import RelaxEvaluator
from workbench.engines.relax.search.processes import new_nursery
from workbench.engines.relax.search.task_search import RelaxTaskSearch
from workbench.engines.relax.search_spaces import SearchSpace, make_space, user_space
from workbench.engines.relax.space import prepare_intrinsics
from workbench.engines.relax.viewer import IsolatedViewer
from workbench.engines.relax.views import scheduled, write_library
from workbench.engines.relax.workload_module import as_main
from workbench.engines.search_protocol import Evaluator, TaskSearch
from workbench.engines.targets import resolve_target, to_tvm
from workbench.engines.view_protocol import Viewer
from workbench.errors import ModelError, SessionError
from workbench.isolation import Nursery
from workbench.machine import cpu_facts
from workbench.records.graph import ModelGraph
from workbench.records.origin import Origin
from workbench.records.peaks import Peaks
from workbench.records.profile import Kernel, KernelCall, Measurement
from workbench.records.request import ModelSource
from workbench.records.target import TargetSpec
from workbench.records.trial import MeasureOptions

LAYOUTS = ("keep",)

_SAME_ARCHITECTURE = (("x86_64", "amd64"), ("aarch64", "arm64"))
_NAMES_OF_HERE = next((names for names in _SAME_ARCHITECTURE if platform.machine() in names), (platform.machine(),))


class RelaxEngine:
    """Implements `workbench.engines.protocol.Engine`.

    Args:
        nursery: Of the processes that build, measure and make views, shared by all of them; None gives each a nursery of its own. See
            `workbench.engines.relax.search.processes`.
    """

    name = "relax"

    def __init__(self, nursery: Nursery | None = None) -> None:
        self._nursery = nursery
        self._program: Program | None = None
        self._lowered: Lowered | None = None
        self._target: TargetSpec | None = None
        self._profiler: Profiler | None = None
        self._seed = 0

    def versions(self) -> dict[str, str]:
        """Versions of TVM, its FFI and LLVM."""
        return {
            "tvm": str(tvm.__version__),
            "tvm_ffi": importlib.metadata.version("apache-tvm-ffi"),
            "llvm": str(tvm.target.codegen.llvm_version_major()),
        }

    def resolve_target(self, text: str, *, threads: int) -> TargetSpec:
        """What the user's target means on this machine."""
        return resolve_target(text, threads=threads)

    def import_model(self, source: ModelSource, *, seed: int, function: Callable[..., Any] | None) -> tuple[str, ...]:
        """Read a model."""
        self._program = import_source(source, seed=seed, function=function)
        return (*(("random weights",) if self._program.random_weights else ()), *self._program.notes)

    def lower(self, target: TargetSpec, *, layout: str, fusion: bool, on_progress: Progress) -> tuple[str, ...]:
        """Lower the imported model."""
        if layout not in LAYOUTS:
            raise ModelError(f"There is no layout {layout}.", f"Use one of: {', '.join(LAYOUTS)}.")
        if self._program is None:
            raise RuntimeError("no model was imported")
        self._target = target
        self._lowered = lower(self._program, to_tvm(target), fusion=fusion, on_step=lambda name: on_progress(f"lower: {name}", 0.0))
        self._program = None
        self._profiler = None
        return self._lowered.steps

    def extract_tasks(self, *, on_progress: Progress) -> tuple[Kernel, ...]:
        """All kernels of the lowered model."""
        lowered, target = self._ready()
        return tuple(
            describe_kernels(lowered, to_tvm(target), on_kernel=lambda done, total: on_progress("extract tasks", done / total if total else 1.0))
        )

    def calls(self) -> tuple[KernelCall, ...]:
        """Calls of kernels in execution order."""
        return self._ready()[0].calls

    def builtin_origins(self) -> tuple[Origin, ...]:
        """Source operators that run as VM builtins."""
        return self._ready()[0].builtin_origins

    def eliminated_origins(self) -> tuple[Origin, ...]:
        """Source operators of which nothing is left to run."""
        return self._ready()[0].eliminated

    def graph(self) -> ModelGraph:
        """The source model and its kernel calls as graphs."""
        graph = self._ready()[0].graph
        if graph is None:
            raise SessionError("The program of the session was saved without the graph of its model.", "Profile the model again.")
        return graph

    def profile(self, *, repeat: int | None, seed: int, on_progress: Progress) -> Measurement:
        """Time every call."""
        missing = _missing_device(self._ready()[1])
        if missing:
            return Measurement(calls=(), runtime=None, builtins=(), total=None, hook_us=0.0, threads=0, unmeasured=missing)
        return self._prepared(seed=seed, on_progress=on_progress).measure(repeat=repeat)

    def outputs(self, rows: Sequence[int], *, seed: int, on_progress: Progress) -> dict[int, list[Any]]:
        """Output arrays of the given rows."""
        missing = _missing_device(self._ready()[1])
        if missing:
            raise ModelError(f"The model cannot run: {missing}.", "Open the session on a machine that has the device.")
        return dict(self._prepared(seed=seed, on_progress=on_progress).outputs(rows))

    def search_task(
        self, kernel: str, *, space: str, seed: int, schedule: Callable[..., Any] | None = None, device: int = 0, trust: bool = False
    ) -> TaskSearch:
        """The search of one kernel of the lowered model."""
        lowered, target = self._ready()
        tvm_target = to_tvm(target)
        prepare_intrinsics(tvm_target)

        def make() -> SearchSpace:
            return make_space(space, tvm_target) if schedule is None else user_space(schedule, tvm_target)

        absent = bool(_missing_device(target, device))
        return RelaxTaskSearch(lowered.module[kernel], tvm_target, make, seed=seed, pool=self._replayers, checked_on_cpu=absent, trust=trust)

    def evaluator(self, options: MeasureOptions, *, scratch: Path, builders: int | None, seed: int) -> Evaluator:
        """What builds and measures candidates for the model's target."""
        return self._evaluator(options, scratch=scratch, builders=builders, seed=seed, nursery=self._nursery)

    def _evaluator(self, options: MeasureOptions, *, scratch: Path, builders: int | None, seed: int, nursery: Nursery | None) -> Evaluator:
        lowered, target = self._ready()
        cores = cpu_facts().physical_cores

        def facts(kernel: str) -> KernelFacts:
            function = lowered.module[kernel]
            parameters, results = tensors_of(function, lowered.result_counts.get(kernel, 1))
            tensors = tuple((tensor.shape, tensor.dtype) for tensor in (*parameters, *results))
            return KernelFacts(tensors, results=len(results), reduction=longest_reduction(function))

        return RelaxEvaluator(
            target,
            facts,
            options=options,
            scratch=scratch,
            builders=builders or cores,
            seed=seed,
            unmeasurable=_missing_device(target, options.device),
            host=resolve_target("cpu", threads=cores),
            nursery=nursery,
        )

    def records(self, folder: Path) -> TrialRecords:
        """The records of trials, as a MetaSchedule database."""
        return MetaScheduleRecords(folder, self._ready()[1].options)

    def warm(self) -> None:
        """Have the processes that build, measure and make views load TVM meanwhile."""
        if self._nursery is not None:
            self._nursery.warm()

    def apply(
        self, options: MeasureOptions, *, program: Path, scratch: Path, seed: int, trust: bool, expected_s: float, on_progress: Progress
    ) -> Application:
        """What builds the model with recorded schedules, and runs it beside the untuned one."""
        target = self._ready()[1]
        nursery = self._nursery or new_nursery()
        return RelaxApplication(
            program=program,
            target=target,
            scratch=scratch,
            evaluator=self._evaluator(options, scratch=scratch, builders=None, seed=seed, nursery=nursery),
            nursery=nursery,
            seed=seed,
            trust=trust,
            device=options.device,
            expected_s=expected_s,
            on_progress=on_progress,
            owns_nursery=nursery is not self._nursery,
        )

    def run(self, inputs: Sequence[Any], *, on_progress: Progress) -> list[Any]:
        """Output arrays of the lowered model."""
        missing = _missing_device(self._ready()[1])
        if missing:
            raise ModelError(f"The model cannot run: {missing}.", "Open the session on a machine that has the device.")
        check_inputs(self._ready()[0], inputs)
        return self._prepared(seed=None, on_progress=on_progress).run(inputs)

    def viewer(self) -> Viewer:
        """What makes views of recorded schedules."""

        def load(kernel: str) -> tuple[bytes, TargetSpec]:
            lowered, target = self._ready()
            return tvm.ir.save_json(as_main(lowered.module[kernel])).encode(), target

        if self._nursery is not None:
            return IsolatedViewer(self._nursery, load)
        own = new_nursery(warm=False)
        return IsolatedViewer(own, load, on_close=own.close)

    def write_library(self, kernel: str, trace: str, path: Path, *, expected: str = "", trust: bool = False) -> None:
        """Compile a kernel with a recorded schedule into a library."""
        lowered, target = self._ready()
        function = lowered.module[kernel]
        write_library(scheduled(function, to_tvm(target), trace, expected=expected), function, path, name=kernel, trust=trust)

    def peaks(self, *, on_progress: Progress) -> Peaks:
        """Measure what the target's device can do at most."""
        _, target = self._ready()
        return measure_peaks(target, threads=_kernel_threads(), missing=_missing_device(target), on_progress=on_progress)

    def peaks_key(self) -> str:
        """Digest of what the limits of the target's device depend on."""
        return peaks_key(self._ready()[1], threads=_kernel_threads())

    def save(self, directory: Path) -> None:
        """Write the lowered model."""
        program_files.save(self._ready()[0], directory)

    def load(self, directory: Path, target: TargetSpec, *, trust: bool = False) -> None:
        """Take up a lowered model that `save` wrote."""
        self._lowered = program_files.load(directory, trust=trust)
        self._target = target
        self._profiler = None

    @functools.cached_property
    def _replayers(self) -> ThreadPoolExecutor:
        """Threads that replay schedules, of all tasks."""
        return ThreadPoolExecutor(cpu_facts().physical_cores, thread_name_prefix="sampler")

    def _ready(self) -> tuple[Lowered, TargetSpec]:
        if self._lowered is None or self._target is None:
            raise RuntimeError("no model was lowered")
        return self._lowered, self._target

    def _prepared(self, *, seed: int | None, on_progress: Progress) -> Profiler:
        """The compiled model, ready to run on inputs of a seed, or of any; compiled once for as long as the seed is the same."""
        lowered, target = self._ready()
        if self._profiler is None or seed not in (None, self._seed):
            on_progress("compile", 0.0)
            self._seed = seed = seed or 0
            built = build(lowered.module, to_tvm(target))
            self._profiler = Profiler(
                built,
                on_device(lowered, built.device, seed=seed),
                lowered.calls,
                results=dict(lowered.result_counts),
                hollow=lambda: hollow_machine(lowered.module, on_device(lowered, tvm.cpu(), seed=self._seed)),
            )
        self._profiler.on_progress = on_progress
        return self._profiler


def _kernel_threads() -> int:
    """Threads that run kernels on this machine's processor."""
    return int(tvm_ffi.get_global_func("runtime.NumThreads")())


def _missing_device(target: TargetSpec, index: int = 0) -> str:
    """Why kernels for a target cannot run on this machine; empty if they can."""
    if target.kind == "llvm":
        wanted = str(target.options.get("mtriple", "")).partition("-")[0]
        return "" if wanted in ("", *_NAMES_OF_HERE) else f"no {wanted} processor here"
    try:
        device = tvm.device(target.kind, index)
    except ValueError:
        return f"TVM has no device for the target kind {target.kind}"
    return "" if device.exist else f"no {target.kind.upper()} device here"
