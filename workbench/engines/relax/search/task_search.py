"""The search of one kernel: its baseline, its candidates, and what was learned of them."""

from __future__ import annotations

import functools
import json
import math
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import Executor

import tvm
import tvm_ffi
from tvm.s_tir.meta_schedule.database import Workload
from tvm.s_tir.meta_schedule.space_generator import ScheduleFn

from workbench.engines.relax.ansor.stages import OtherWorkload, Untranslatable
from workbench.engines.relax.ansor.translate import translate
from workbench.engines.relax.build import with_default_schedules
from workbench.engines.relax.search.cost_model import WITHOUT_XGBOOST, CostModel
from workbench.engines.relax.search.evolution import Evolution
from workbench.engines.relax.search.sampling import Sample, Sampler
from workbench.engines.relax.search.sketches import Genome, trace_json
from workbench.engines.relax.search_spaces import SearchSpace
from workbench.engines.relax.space import design_size
from workbench.engines.relax.workload_module import as_main, fingerprint
from workbench.engines.search_protocol import Candidate, Experience, Outcome, Translation
from workbench.errors import InputError, InternalError
from workbench.escaping import plain
from workbench.legacy.auto_scheduler.workloads import LoggedWorkload
from workbench.records.trial import DEVICE_LOST, UNMEASURED
from workbench.tuning_database import TuningRecord, decisions
from workbench.tuning_database import Workload as RecordedWorkload

_MOST_INHERITED = 16
_MOST_OF_ANOTHER = 4
_MOST_ADAPTED = 8
_MOST_LOADED = 1024
_MOST_TRANSLATED = 64
"""Records of a log that are tried until as many as may be inherited are translated."""

_SAY_NOTHING = (UNMEASURED, DEVICE_LOST)
_LAYOUT_CHANGE = "meta_schedule.layout_rewrite_preproc"  # stock TVM times such a schedule without the change


class RelaxTaskSearch:
    """Implements `workbench.engines.search_protocol.TaskSearch`.

    Args:
        function: The kernel, unscheduled.
        target: What it is for.
        make_space: Makes the search space: one for each task, since a space keeps what it learned of its kernel.
        seed: Seed of everything random.
        pool: Threads that replay schedules; None replays them in the thread that asks.
        checked_on_cpu: True if the device is not here, so that candidates are checked on a processor.
        trust: True allows recorded schedules that bring code of their own into the kernel.
    """

    def __init__(
        self,
        function: tvm.tirx.PrimFunc,
        target: tvm.target.Target,
        make_space: Callable[[], SearchSpace],
        *,
        seed: int,
        pool: Executor | None = None,
        checked_on_cpu: bool = False,
        trust: bool = False,
    ) -> None:
        self._module = as_main(function)
        self._target = target
        space = make_space()
        self._origin = "user" if isinstance(space.generator, ScheduleFn) else "search"
        self._sampler = Sampler(self._module, target, space, pool=pool, untensorized=checked_on_cpu, trust=trust)
        self._model = CostModel(self._sampler.sketches, seed=seed)
        self._evolution = Evolution(self._sampler, self._model, seed=seed)
        self._proposed: dict[str, Sample] = {}
        self._inherited: list[Sample] = []
        self._is_known_to_work = False  # some recorded schedule was valid
        self.note = WITHOUT_XGBOOST
        self.space_size: int | None = design_size(self._sampler.schedules, self._module)
        structural_hash, module_text = Workload(self._module).as_json()
        self.workload = (str(structural_hash), str(module_text))
        self.arguments: list[object] = [
            ["TENSOR", str(parameter.ty.dtype), [int(size) for size in parameter.ty.shape]] for parameter in self._module["main"].params
        ]

    @property
    def rejected(self) -> int:
        """How often decisions gave no valid schedule so far."""
        return self._sampler.rejected

    def baseline(self) -> Candidate:
        """The untuned kernel; on a GPU with dlight's default schedule."""
        module = with_default_schedules(self._module, self._target)
        key = fingerprint(module)
        self._evolution.forbid(key)
        return Candidate(trace="", fingerprint=key, origin="baseline", program=_program(module), cpu_program=_program(self._module))

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
        if reasons and not (self._sampler.has_made or self._is_known_to_work):
            raise InternalError(f"The search space gave no valid schedule: {plain(_most_frequent(reasons), 300)}.")
        seconds = (time.perf_counter() - started) / max(len(samples), 1)
        for sample in (*inherited, *samples):
            self._proposed[sample.fingerprint] = sample
        return (
            *(_candidate(sample, "transfer", search_s=0.0) for sample in inherited),
            *(_candidate(sample, self._origin, search_s=seconds) for sample in samples),
        )

    def learn(self, outcomes: Sequence[Outcome]) -> None:
        """Fit the cost model to what was measured, and let the fastest have children."""
        for outcome in outcomes:
            sample = self._proposed.pop(outcome.fingerprint, None)
            if sample is not None and sample.genome is not None:
                self._evolution.take_note(sample.genome, outcome.time_us, build_s=outcome.build_s)
        self._model.fit()

    def restore(self, known: Sequence[Experience]) -> None:
        """Take up recorded trials: their schedules are known by their fingerprints, their decisions by their traces."""
        for experience in known:
            trial = experience.trial
            if trial.status != DEVICE_LOST:  # that schedule was never tried
                self._evolution.forbid(trial.fingerprint)
            genome = self._sampler.genome(experience.trace) if experience.trace else None
            if genome is None or trial.status in _SAY_NOTHING:
                continue
            self._is_known_to_work = True
            self._evolution.take_note(genome, trial.time_us, build_s=trial.build_s)
        self._model.fit()

    def transfer(self, records: Sequence[TuningRecord]) -> Sequence[TuningRecord]:
        """Have schedules that others found proposed first: for this very kernel the fastest ones, for like kernels theirs, fitted to its loops."""
        by_workload: dict[str, list[TuningRecord]] = {}
        for record in records:
            if record.time_us is not None and _LAYOUT_CHANGE not in record.trace_json:
                by_workload.setdefault(record.workload.module, []).append(record)
        own: list[TuningRecord] = []
        others: list[tuple[int, int, Genome, TuningRecord]] = []
        for found in by_workload.values():
            fastest = sorted(found, key=lambda record: record.time_us or math.inf)
            if self._is_own(fastest[0]) or self._fits(fastest[0]):
                own.extend(fastest)
                continue
            near = [(rank, record, self._sampler.adapted(record.trace_json)) for rank, record in enumerate(fastest[:_MOST_OF_ANOTHER])]
            others.extend((-fit[1], rank, fit[0], record) for rank, record, fit in near if fit is not None)
        own.sort(key=lambda record: record.time_us or math.inf)
        others.sort(key=lambda item: item[:2])
        adapted: dict[Genome, TuningRecord] = {}
        for _, _, genome, record in others:
            adapted.setdefault(genome, record)
        genomes = list(adapted)[:_MOST_ADAPTED]
        chosen = [*own[:_MOST_INHERITED], *(adapted[genome] for genome in genomes)]
        samples = [*self._sampler.replayed([record.trace_json for record in own[:_MOST_INHERITED]]), *self._sampler.made(genomes)]
        return self._inherit(chosen, samples)

    def _inherit(self, records: Sequence[TuningRecord], samples: Sequence[Sample | None]) -> list[TuningRecord]:
        """Keep the schedules that are new, to be proposed first; returns the records that they are from."""
        return [record for record, sample in zip(records, samples, strict=True) if sample is not None and self._take(sample)]

    def _take(self, sample: Sample) -> bool:
        """Keep a schedule to be proposed first; False if it is not new."""
        self._is_known_to_work = True
        is_new = all(sample.fingerprint != other.fingerprint for other in self._inherited) and self._evolution.is_new(sample.fingerprint)
        if is_new:
            self._inherited.append(sample)
        return is_new

    def translate(self, workload: LoggedWorkload) -> Translation:
        """Have the fastest schedules of an auto_scheduler log proposed first, if they are of this kernel."""
        claimed_us: dict[str, float] = {}
        untranslatable: Counter[str] = Counter()
        tried = 0
        for item in workload.records[:_MOST_TRANSLATED]:
            if len(claimed_us) >= _MOST_INHERITED:
                break
            tried += 1
            try:
                trace = json.dumps(trace_json(translate(self._module, item.record.steps).trace))
            except OtherWorkload as error:
                return Translation(unlike=str(error), fitting=error.fitting)
            except Untranslatable as error:
                untranslatable[str(error)] += 1
                continue
            (sample,) = self._sampler.replayed([trace])
            if sample is None:
                untranslatable["the schedule cannot be made again from its trace"] += 1
            elif sample.fingerprint not in claimed_us:
                claimed_us[sample.fingerprint] = item.time_us
                self._take(sample)
        return Translation("", 0, tried, claimed_us, untranslatable)

    def rebuild(self, trace: str) -> Candidate:
        """The candidate of a recorded trace; the baseline's is empty."""
        if not trace:
            return self.baseline()
        try:
            sample = self._sampler.replay(trace)
        except InputError:
            raise
        except Exception as error:  # a trace from anywhere may raise anything
            raise InternalError("A recorded schedule does not fit the kernel any more.", "Search the task again.") from error
        return _candidate(sample, self._origin, search_s=0.0)

    def _is_own(self, record: TuningRecord) -> bool:
        """True if a record is of this kernel."""
        if record.workload.module == self.workload[1]:
            return True
        module = _loaded(record.workload)
        return module is not None and _is_same_kernel(module["main"], self._module["main"])

    def _fits(self, record: TuningRecord) -> bool:
        """True if a record of an older TVM, whose kernel cannot be read any more, has this kernel's arguments and its schedule can be made of it."""
        if _loaded(record.workload) is not None or record.args_info != self.arguments:
            return False
        return self._sampler.replayed([record.trace_json])[0] is not None


@functools.lru_cache(_MOST_LOADED)
def _loaded(workload: RecordedWorkload) -> tvm.IRModule | None:
    """The kernel of records, as ``main``; None if it is none that can be read. Every task asks for the same ones."""
    try:
        module = Workload.from_json([workload.structural_hash, workload.module]).mod
        return module if isinstance(module["main"], tvm.tirx.PrimFunc) else None
    except Exception:  # noqa: BLE001 - a workload from anywhere may raise anything
        return None


def _is_same_kernel(function: tvm.tirx.PrimFunc, other: tvm.tirx.PrimFunc) -> bool:
    """True if both compute the same, whatever their attributes say of fusion and layouts."""
    return bool(tvm_ffi.structural_equal(*(tvm.tirx.PrimFunc(one.params, one.body, one.ret_type) for one in (function, other))))


def _candidate(sample: Sample, origin: str, *, search_s: float) -> Candidate:
    trace = trace_json(sample.trace)
    return Candidate(
        trace=json.dumps(trace, separators=(",", ":")),
        fingerprint=sample.fingerprint,
        origin=origin,
        program=_program(sample.module),
        cpu_program=b"" if sample.untensorized is None else _program(sample.untensorized),
        decisions=decisions(trace),
        search_s=search_s,
    )


def _program(module: tvm.IRModule) -> bytes:
    return str(tvm.ir.save_json(module)).encode()


def _most_frequent(reasons: dict[str, int]) -> str:
    return max(reasons, key=lambda reason: reasons[reason]) if reasons else "it holds none"
