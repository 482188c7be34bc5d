"""Makes candidates: replays traces on a kernel, applies the space's postprocessors, and extracts what the cost model reads.

Replays run in TVM's C++ code without the interpreter's lock, so several threads share the work; every replay has a seed of its own, so that
the result does not depend on which thread ran it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm.s_tir import meta_schedule
from tvm.s_tir.meta_schedule import _ffi_api
from tvm.s_tir.schedule import Trace

from workbench.engines.relax.search.cost_model import summary
from workbench.engines.relax.search_spaces import SearchSpace
from workbench.errors import ModelError

_SEED_LIMIT = 2**31 - 2


@dataclass(frozen=True)
class Sample:
    """A valid schedule.

    Attributes:
        trace: Its trace with all decisions, postprocessing included.
        module: The scheduled module.
        fingerprint: Structural hash of the module.
        features: What the cost model reads: shape (328,).
    """

    trace: Any
    module: tvm.IRModule
    fingerprint: str
    features: np.ndarray[Any, Any]


class Replayer:
    """Replays recorded traces on a kernel.

    Args:
        module: The kernel as ``main``.
        target: What it is for.
    """

    def __init__(self, module: tvm.IRModule, target: tvm.target.Target) -> None:
        self._module = module
        self._context = meta_schedule.TuneContext(module, target=target, task_name="main", num_threads=1, rand_state=1)
        self._extractor = meta_schedule.feature_extractor.PerStoreFeature()
        self._local = threading.local()
        self._lock = threading.Lock()
        self.rejections: dict[str, int] = {}

    def replay(self, trace: str) -> Sample | None:
        """The schedule of a trace in TVM's JSON form; None if it does not fit the kernel."""
        schedule = self._new_schedule(1)
        try:
            Trace.apply_json_to_schedule(json.loads(trace), schedule)
            return self._finished(schedule)
        except Exception as error:  # noqa: BLE001 - a trace from anywhere may raise anything
            self._reject(error)
            return None

    def _finished(self, schedule: Any) -> Sample:
        module = schedule.mod
        candidate = meta_schedule.MeasureCandidate(schedule, [])
        features = self._extractor.extract_from(self._context, [candidate])[0].numpy()
        return Sample(schedule.trace, module, fingerprint(module), summary(features))

    def _new_schedule(self, seed: int) -> Any:
        """A schedule on this thread's own copy of the kernel, since schedules of one module share its nodes."""
        if not hasattr(self._local, "module"):
            with self._lock:
                self._local.module = tvm.ir.load_json(tvm.ir.save_json(self._module))
        return tvm.s_tir.Schedule(self._local.module, seed=seed % _SEED_LIMIT + 1, debug_mask=0, error_render_level="none", enable_check=False)

    def _reject(self, reason: object) -> None:
        lines = str(reason).strip().splitlines()
        text = lines[-1][:200] if lines else type(reason).__name__
        with self._lock:
            self.rejections[text] = self.rejections.get(text, 0) + 1


class Sampler(Replayer):
    """Makes samples of one kernel's search space.

    Args:
        module: The kernel as ``main``.
        target: What it is for.
        space: Generates the sketches; its postprocessors make a schedule valid.
        threads: Threads that replay.

    Attributes:
        sketches: Schedules with sampling decisions left open, by their traces.
        rejections: How many replays failed, by reason.
    """

    def __init__(self, module: tvm.IRModule, target: tvm.target.Target, space: SearchSpace, *, threads: int) -> None:
        super().__init__(module, target)
        self._context = meta_schedule.TuneContext(
            module, target=target, space_generator=space.generator, task_name="main", num_threads=1, rand_state=1
        )
        self.schedules = list(self._context.generate_design_space())
        if not self.schedules:
            raise ModelError("The search space holds no schedule of the kernel.", "Let the schedule function schedule it, or use another space.")
        self.sketches = [schedule.trace for schedule in self.schedules]
        self._postprocessors = list(space.generator.postprocs)
        self._mutators = list(space.generator.mutator_probs.items())
        weights = np.asarray([float(weight) for _, weight in self._mutators])
        self._mutator_shares = weights / weights.sum() if len(weights) else weights
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="sampler") if threads > 1 else None

    def random(self, seeds: Sequence[int]) -> list[Sample | None]:
        """Schedules with random decisions, one a seed; None where the decisions gave no valid one."""
        return self._each(self._random, seeds)

    def mutated(self, parents: Sequence[tuple[Any, int]]) -> list[Sample | None]:
        """Children of traces, each with a seed; None where a mutation gave no valid schedule."""
        return self._each(self._mutate, parents)

    def replayed(self, traces: Sequence[str]) -> list[Sample | None]:
        """Schedules of recorded traces; None where one does not fit the kernel."""
        return self._each(self.replay, traces)

    def _each(self, make: Callable[[Any], Sample | None], arguments: Sequence[Any]) -> list[Sample | None]:
        return list(self._pool.map(make, arguments)) if self._pool is not None else [make(argument) for argument in arguments]

    def _random(self, seed: int) -> Sample | None:
        sketch = self.sketches[seed % len(self.sketches)]
        return self._sample(Trace(sketch.insts, {}), seed)

    def _mutate(self, parent: tuple[Any, int]) -> Sample | None:
        trace, seed = parent
        if not self._mutators:
            return None
        choice = np.random.default_rng(seed).choice(len(self._mutators), p=self._mutator_shares)
        try:
            mutated = _ffi_api.MutatorApply(self._mutators[choice][0], trace, seed % _SEED_LIMIT + 1)
        except Exception as error:  # noqa: BLE001 - a mutator may raise anything; the child is then not born
            self._reject(error)
            return None
        return None if mutated is None else self._sample(mutated, seed)

    def _sample(self, trace: Any, seed: int) -> Sample | None:
        schedule = self._new_schedule(seed)
        try:
            trace.apply_to_schedule(schedule, remove_postproc=True)
            schedule.enter_postproc()
            for postprocessor in self._postprocessors:
                if not postprocessor.apply(schedule):
                    self._reject(type(postprocessor).__name__)
                    return None
            return self._finished(schedule)
        except Exception as error:  # noqa: BLE001 - a schedule instruction may raise anything; the candidate is then none
            self._reject(error)
            return None


def fingerprint(module: tvm.IRModule) -> str:
    """Structural hash of a module, in 16 hexadecimal digits."""
    return f"{tvm_ffi.structural_hash(module) & (2**64 - 1):016x}"
