"""The search of one kernel: its baseline, its candidates, and what was learned of them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Sequence

import tvm
import tvm_ffi
from tvm.s_tir.meta_schedule.database import Workload
from tvm.s_tir.meta_schedule.space_generator import ScheduleFn

from workbench.engines.relax.build import with_default_schedules
from workbench.engines.relax.search.cost_model import CostModel
from workbench.engines.relax.search.evolution import Evolution
from workbench.engines.relax.search.sampling import Replayer, Sample, Sampler, fingerprint
from workbench.engines.relax.search_spaces import SearchSpace
from workbench.engines.relax.space import design_size
from workbench.engines.search_protocol import Candidate, Experience
from workbench.errors import InternalError
from workbench.escaping import plain
from workbench.records.trial import DEVICE_LOST, UNMEASURED
from workbench.tuning_database import TuningRecord, decisions

_MOST_RESTORED = 1024
_MOST_OF_OWN = 16
_MOST_OF_ANOTHER = 128
_SAY_NOTHING = (UNMEASURED, DEVICE_LOST)
_LAYOUT_CHANGE = "meta_schedule.layout_rewrite_preproc"  # stock TVM times such a schedule without the change
_LAYOUT_ATTRIBUTE = "layout_free_buffers"  # would let a schedule change the layout of the kernel's arguments


def as_main(function: tvm.tirx.PrimFunc) -> tvm.IRModule:
    """A kernel as the module that MetaSchedule calls its workload."""
    function = function.with_attr({"global_symbol": "main", "tirx.noalias": True})
    if function.attrs is not None and _LAYOUT_ATTRIBUTE in function.attrs:
        function = function.without_attr(_LAYOUT_ATTRIBUTE)
    return tvm.IRModule({"main": function})


class RelaxTaskSearch:
    """Implements `workbench.engines.search_protocol.TaskSearch`.

    Args:
        function: The kernel, unscheduled.
        target: What it is for.
        make_space: Makes the search space: one for each task, since a space keeps what it learned of its kernel.
        seed: Seed of everything random.
        threads: Threads that replay schedules.
    """

    def __init__(
        self, function: tvm.tirx.PrimFunc, target: tvm.target.Target, make_space: Callable[[], SearchSpace], *, seed: int, threads: int
    ) -> None:
        self._module = as_main(function)
        self._target = target
        space = make_space()
        self._origin = "user" if isinstance(space.generator, ScheduleFn) else "search"
        self._sampler = Sampler(self._module, target, space, threads=threads)
        self._model = CostModel(seed=seed)
        self._evolution = Evolution(self._sampler, self._model, seed=seed)
        self._proposed: dict[str, Sample] = {}
        self._inherited: list[Sample] = []
        self._is_known_to_work = False  # some schedule was valid
        self.space_size: int | None = design_size(self._sampler.schedules, self._module)
        structural_hash, module_text = Workload(self._module).as_json()
        self.workload = (str(structural_hash), str(module_text))
        self.arguments: list[object] = [
            ["TENSOR", str(parameter.ty.dtype), [int(size) for size in parameter.ty.shape]] for parameter in self._module["main"].params
        ]

    def baseline(self) -> Candidate:
        """The untuned kernel; on a GPU with dlight's default schedule."""
        module = with_default_schedules(self._module, self._target)
        key = fingerprint(module)
        self._evolution.forbid(key)
        return Candidate(trace="", fingerprint=key, origin="baseline", program=_program(module), reference=_program(self._module))

    def propose(self, count: int) -> tuple[Candidate, ...]:
        """Candidates of the evolution."""
        started = time.perf_counter()
        inherited: list[Sample] = []
        while self._inherited and len(inherited) < count:
            sample = self._inherited.pop(0)
            if self._evolution.is_new(sample.fingerprint):
                self._evolution.forbid(sample.fingerprint)
                inherited.append(sample)
        samples = self._evolution.propose(count - len(inherited)) if len(inherited) < count else []
        reasons = self._sampler.rejections
        self._is_known_to_work = self._is_known_to_work or bool(samples or inherited)
        if reasons and not self._is_known_to_work:
            raise InternalError(f"The search space gave no valid schedule: {plain(_most_frequent(reasons), 300)}.")
        seconds = (time.perf_counter() - started) / max(len(samples), 1)
        for sample in (*inherited, *samples):
            self._proposed[sample.fingerprint] = sample
        return (
            *(_candidate(sample, "transfer", search_s=0.0) for sample in inherited),
            *(_candidate(sample, self._origin, search_s=seconds) for sample in samples),
        )

    def learn(self, times_us: Sequence[tuple[str, float | None]]) -> None:
        """Fit the cost model to what was measured, and let the fastest have children."""
        for key, time_us in times_us:
            sample = self._proposed.pop(key, None)
            if sample is None:
                continue
            self._take_note(sample, time_us)
        self._model.fit()

    def restore(self, known: Sequence[Experience]) -> int:
        """Replay recorded trials: the newest and the fastest ones, if there are very many."""
        for experience in known:
            self._evolution.forbid(experience.trial.fingerprint)
        useful = [experience for experience in known if experience.trace]
        if len(useful) > _MOST_RESTORED:
            fastest = sorted(useful[: -_MOST_RESTORED // 2], key=lambda experience: experience.trial.time_us or math.inf)
            useful = [*fastest[: _MOST_RESTORED // 2], *useful[-_MOST_RESTORED // 2 :]]
        samples = self._sampler.replayed([experience.trace for experience in useful])
        restored = 0
        for sample, experience in zip(samples, useful, strict=True):
            if sample is not None:
                self._evolution.forbid(sample.fingerprint)
                self._is_known_to_work = True
                if experience.trial.status not in _SAY_NOTHING:
                    restored += 1
                    self._take_note(sample, experience.trial.time_us)
        self._model.fit()
        return restored

    def transfer(self, records: Sequence[TuningRecord]) -> int:
        """Learn from records of other kernels; those of this very kernel, the fastest first, are proposed themselves."""
        by_workload: dict[str, list[TuningRecord]] = {}
        for record in records:
            if record.time_us is not None:
                by_workload.setdefault(record.workload.module, []).append(record)
        used = 0
        for found in by_workload.values():
            fastest = sorted(found, key=lambda record: record.time_us or math.inf)
            module = _loaded(fastest[0])
            if module is None:
                continue
            if _is_same_kernel(module["main"], self._module["main"]):
                traces = [record.trace_json for record in fastest if _LAYOUT_CHANGE not in record.trace_json]
                samples = [sample for sample in self._sampler.replayed(traces[:_MOST_OF_OWN]) if sample is not None]
                self._inherited.extend(samples)
            else:
                samples = self._transfer_speeds(module, fastest[:_MOST_OF_ANOTHER])
            used += len(samples)
        self._model.fit()
        return used

    def rebuild(self, trace: str) -> Candidate:
        """The candidate of a recorded trace; the baseline's is empty."""
        if not trace:
            return self.baseline()
        sample = self._sampler.replayed([trace])[0]
        if sample is None:
            raise InternalError("A recorded schedule does not fit the kernel any more.", "Search the task again.")
        return _candidate(sample, self._origin, search_s=0.0)

    def _take_note(self, sample: Sample, time_us: float | None) -> None:
        self._model.add(sample.features, time_us)
        if time_us is not None:
            self._evolution.add_elite(sample.trace, time_us)

    def _transfer_speeds(self, module: tvm.IRModule, records: Sequence[TuningRecord]) -> list[Sample]:
        """Show the cost model another kernel's schedules and their speeds beside the fastest of them."""
        replayer = Replayer(module, self._target)
        pairs = [(replayer.replay(record.trace_json), record.time_us or math.inf) for record in records]
        known = [(sample, time_us) for sample, time_us in pairs if sample is not None]
        if known:
            best = min(time_us for _, time_us in known)
            self._model.transfer([sample.features for sample, _ in known], [best / time_us for _, time_us in known])
        return [sample for sample, _ in known]


def _loaded(record: TuningRecord) -> tvm.IRModule | None:
    """The kernel of a record, as ``main``; None if it is none that can be read."""
    try:
        module = Workload.from_json([record.workload.structural_hash, record.workload.module]).mod
        return module if isinstance(module["main"], tvm.tirx.PrimFunc) else None
    except Exception:  # noqa: BLE001 - a workload from anywhere may raise anything
        return None


def _is_same_kernel(function: tvm.tirx.PrimFunc, other: tvm.tirx.PrimFunc) -> bool:
    """True if both compute the same, whatever their attributes say of fusion and layouts."""
    return bool(tvm_ffi.structural_equal(*(tvm.tirx.PrimFunc(one.params, one.body, one.ret_type) for one in (function, other))))


def _candidate(sample: Sample, origin: str, *, search_s: float) -> Candidate:
    trace = json.dumps(sample.trace.as_json(), separators=(",", ":"), default=_plain_number)
    return Candidate(
        trace=trace,
        fingerprint=sample.fingerprint,
        origin=origin,
        program=_program(sample.module),
        decisions=decisions(json.loads(trace)),
        search_s=search_s,
    )


def _plain_number(value: object) -> int | float:
    """A number of TVM's in a trace as one of JSON's."""
    if isinstance(value, tvm.tirx.IntImm):
        return int(value.value)
    if isinstance(value, tvm.tirx.FloatImm):
        return float(value.value)
    raise TypeError(f"a trace holds {type(value).__name__}")


def _program(module: tvm.IRModule) -> bytes:
    return str(tvm.ir.save_json(module)).encode()


def _most_frequent(reasons: dict[str, int]) -> str:
    return max(reasons, key=lambda reason: reasons[reason]) if reasons else "it holds none"
