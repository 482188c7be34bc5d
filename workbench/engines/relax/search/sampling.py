"""Makes schedules: replays traces on a kernel and applies the space's postprocessors.

Replays run in TVM's C++ code without the interpreter's lock, so several threads share the work; the result does not depend on which one did it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

import tvm
from tvm.s_tir import meta_schedule
from tvm.s_tir.schedule import Trace

from workbench.engines.relax.foreign_code import foreign_code, refuse_brought_code
from workbench.engines.relax.search.sketches import MOST_THREADS, Genome, Sketch, kinds, recorded_decisions, signature
from workbench.engines.relax.search_spaces import SearchSpace
from workbench.engines.relax.workload_module import fingerprint
from workbench.errors import ModelError

_TENSORIZE = "s_tir.meta_schedule.RewriteTensorize"
_SEED = 1  # every decision is given: nothing is left to chance

Argument = TypeVar("Argument")


@dataclass(frozen=True)
class Sample:
    """A valid schedule.

    Attributes:
        trace: Its trace with all decisions, postprocessing included.
        module: The scheduled module.
        fingerprint: Structural hash of the module.
        genome: Its decisions; None if it is of no sketch of the space.
        untensorized: The same schedule without tensor intrinsics, where that was asked for and it has any.
    """

    trace: Any
    module: tvm.IRModule
    fingerprint: str
    genome: Genome | None
    untensorized: tvm.IRModule | None = None


class Sampler:
    """Makes schedules of one kernel's search space.

    Args:
        module: The kernel as ``main``.
        target: What it is for.
        space: Generates the sketches; its postprocessors make a schedule valid.
        pool: Threads that share the work; None does it in the thread that asks.
        untensorized: True keeps each schedule without its tensor intrinsics too.
        trust: True allows recorded schedules that bring code of their own into the kernel.

    Attributes:
        schedules: The sketches as the space made them.
        sketches: The same, with their decisions open.
        has_made: True once some decisions gave a valid schedule.
        rejected: How often decisions gave none.
        rejections: The same by reason.
    """

    def __init__(
        self,
        module: tvm.IRModule,
        target: tvm.target.Target,
        space: SearchSpace,
        *,
        pool: Executor | None = None,
        untensorized: bool = False,
        trust: bool = False,
    ) -> None:
        self._module = module
        self._trust = trust
        self._own_code = frozenset(foreign_code(module))
        # The context ties the space's rules to the kernel, and lives as long as they are used.
        self._context = meta_schedule.TuneContext(
            module, target=target, space_generator=space.generator, task_name="main", num_threads=1, rand_state=_SEED
        )
        self.schedules = self._sketches(space)
        if not self.schedules:
            raise ModelError("The search space holds no schedule of the kernel.", "Let the schedule function schedule it, or use another space.")
        most_threads = int(target.attrs.get("max_threads_per_block", MOST_THREADS))
        self.sketches = [Sketch(index, schedule.trace, most_threads=most_threads) for index, schedule in enumerate(self.schedules)]
        self._by_signature = {sketch.signature: sketch for sketch in self.sketches}
        self._postprocessors = list(space.generator.postprocs)
        self._tensorizes = untensorized and any(str(item).startswith(_TENSORIZE) for item in self._postprocessors)
        self._pool = pool
        self._local = threading.local()
        self._lock = threading.Lock()
        self.has_made = False
        self.rejected = 0
        self.rejections: dict[str, int] = {}

    def _sketches(self, space: SearchSpace) -> list[Any]:
        """What the space makes of the kernel; an error of the user's own function as such."""
        try:
            return list(self._context.generate_design_space())
        except Exception as error:
            if space.failure is not None:
                raise space.failure from (space.failure.__cause__ or error)
            raise

    def made(self, genomes: Sequence[Genome]) -> list[Sample | None]:
        """Schedules of decisions; None where they give no valid one."""
        samples = self._each(self._make, genomes)
        self.rejected += sum(sample is None for sample in samples)
        self.has_made = self.has_made or any(sample is not None for sample in samples)
        for sample in samples:
            if sample is not None and sample.genome is not None:
                self.sketches[sample.genome.sketch].observe(sample.genome)
        return samples

    def replayed(self, traces: Sequence[str]) -> list[Sample | None]:
        """Schedules of recorded traces in TVM's JSON form; None where one does not fit the kernel or needs trust."""
        return self._each(self._replay, traces)

    def replay(self, trace: str) -> Sample:
        """The schedule of a recorded trace in TVM's JSON form.

        Raises:
            InputError: It brings code of its own into the kernel, which needs trust.
            Exception: Whatever the trace raises that does not fit the kernel.
        """
        schedule = self._new_schedule()
        Trace.apply_json_to_schedule(json.loads(trace), schedule)
        if not self._trust:
            refuse_brought_code(schedule.mod, self._own_code)
        return Sample(schedule.trace, schedule.mod, fingerprint(schedule.mod), self.genome(trace))

    def genome(self, trace: str) -> Genome | None:
        """The decisions of a recorded trace; None if it is of no sketch of the space."""
        try:
            values = json.loads(trace)
            sketch = self._by_signature.get(signature(values))
            return None if sketch is None else sketch.genome(recorded_decisions(values))
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            return None

    def adapted(self, trace: str) -> tuple[Genome, int] | None:
        """The nearest decisions to a recorded trace of another kernel and how like that kernel's loops are; None if no sketch is like its own."""
        try:
            values = json.loads(trace)
            found = recorded_decisions(values)
            like = [sketch for sketch in self.sketches if sketch.kinds == kinds(values)]
            near = [(genome, sketch.likeness(found)) for sketch in like if (genome := sketch.adapted(found)) is not None]
        except (ValueError, TypeError, KeyError, IndexError, RecursionError):
            return None
        return max(near, key=lambda item: item[1], default=None)

    def _each(self, make: Callable[[Argument], Sample | None], arguments: Sequence[Argument]) -> list[Sample | None]:
        return list(self._pool.map(make, arguments)) if self._pool is not None else [make(argument) for argument in arguments]

    def _make(self, genome: Genome) -> Sample | None:
        try:
            schedule = self._applied(genome, self._postprocessors)
            if schedule is None:
                return None
            trace, module = schedule.trace, schedule.mod
            untensorized = None
            if self._tensorizes:
                plain = self._applied(genome, [item for item in self._postprocessors if not str(item).startswith(_TENSORIZE)])
                untensorized = None if plain is None else plain.mod
            decided = self.sketches[genome.sketch].decided(genome, trace)
            return Sample(trace, module, fingerprint(module), decided, untensorized)
        except Exception as error:  # noqa: BLE001 - a schedule instruction may raise anything; the candidate is then none
            self._reject(error)
            return None

    def _applied(self, genome: Genome, postprocessors: Sequence[Any]) -> Any:
        """The schedule of a genome; None if a postprocessor refuses it."""
        schedule = self._new_schedule()
        self.sketches[genome.sketch].trace(genome).apply_to_schedule(schedule, remove_postproc=True)
        schedule.enter_postproc()
        for postprocessor in postprocessors:
            if not postprocessor.apply(schedule):
                self._reject(type(postprocessor).__name__)
                return None
        return schedule

    def _replay(self, trace: str) -> Sample | None:
        try:
            return self.replay(trace)
        except Exception:  # noqa: BLE001 - a trace from anywhere may raise anything
            return None

    def _new_schedule(self) -> Any:
        """A schedule on this thread's own copy of the kernel, since schedules of one module share its nodes."""
        if not hasattr(self._local, "module"):
            with self._lock:
                self._local.module = tvm.ir.load_json(tvm.ir.save_json(self._module))
        return tvm.s_tir.Schedule(self._local.module, seed=_SEED, debug_mask=0, error_render_level="none", enable_check=False)

    def _reject(self, reason: object) -> None:
        lines = str(reason).strip().splitlines()
        text = lines[-1][:200] if lines else type(reason).__name__
        with self._lock:
            self.rejections[text] = self.rejections.get(text, 0) + 1
