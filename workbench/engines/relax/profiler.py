"""The debug runtime, reborn: times every kernel call of a model, and the whole model, on the device.

Rounds of instrumented runs (a time per call) alternate with rounds of plain ones (a time for the whole), so that both see the same
machine. A round of a short model holds several runs and counts as its median. What the instrument itself costs is taken off; what the VM
itself takes is measured on the program with empty kernels.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from workbench.engines.relax.build import Built
from workbench.engines.relax.hook_cost import HookCost, measure_hook_cost
from workbench.engines.relax.instrument import Skip, Trace, run_instrumented, skip_nothing, skip_repeated, tensors_in
from workbench.records.profile import CallTime, KernelCall, Measurement

_MAX_ROUNDS = 30
_STOP_AFTER = ((2, 8.0), (3, 6.0), (5, 3.0))  # so many rounds are enough after so many seconds
_AGREEMENT = 0.03
_PATIENCE = 2.0
_ROUND_S = 0.01
_SLOW_RUN_S = 1.0
_HOLLOW_RUNS = 20
_PROGRESS_S = 0.2

Array = np.ndarray[Any, Any]
Progress = Callable[[str, float], None]
OnOutputs = Callable[[int, Sequence[Any]], None]


@dataclass
class _Samples:
    """One entry a round: times of the calls, of the VM itself, and of whole runs, in us."""

    calls_us: list[Array] = field(default_factory=list)
    runtime_us: list[float] = field(default_factory=list)
    totals_us: list[float] = field(default_factory=list)

    @property
    def agree(self) -> bool:
        """True if instrumented and plain runs give nearly the same time for the whole."""
        if not self.totals_us:
            return False
        rows_us = np.median(np.array(self.calls_us), axis=0).sum() + np.median(self.runtime_us)
        return bool(abs(rows_us / np.median(self.totals_us) - 1.0) < _AGREEMENT)


class Profiler:
    """Runs one compiled model under measurement.

    Args:
        built: The executable and its device.
        arguments: Inputs, then parameters, on the device.
        calls: The kernel calls that the module's ``main`` makes, in order.
        results: Number of output tensors of each called kernel.
        hollow: Makes a VM with the same program and kernels that do nothing, its inputs set; called by `measure`.

    Attributes:
        on_progress: Told a phase and how much of it is done (0 to 1), from between the calls, at most five times a second; it may raise
            to end the run.
    """

    def __init__(
        self,
        built: Built,
        arguments: Sequence[Any],
        calls: Sequence[KernelCall],
        *,
        results: dict[str, int],
        hollow: Callable[[], relax.VirtualMachine],
    ) -> None:
        self.on_progress: Progress = _no_progress
        self._arguments = list(arguments)
        self._device = built.device
        self._floats_only = built.floats_only
        self._calls = calls
        self._results = results
        self._hollow = hollow
        on_host = built.device.dlpack_device_type() == tvm.cpu().dlpack_device_type()
        self._synchronise: Callable[[], None] = _do_nothing if on_host else built.device.sync
        self._instrumented = relax.VirtualMachine(built.executable, built.device)
        self._plain = relax.VirtualMachine(built.executable, built.device)
        self._plain.set_input("main", *self._arguments)

    def measure(self, *, repeat: int | None) -> Measurement:
        """Warm up, calibrate, and measure.

        Args:
            repeat: Number of rounds; None measures for three to eight seconds, at least two rounds, at most thirty; for up to twice as long
                while the two kinds of run disagree (something else disturbs the machine), if a run takes less than a second.
        """
        self._run("warm up", skip=skip_repeated() if self._floats_only else skip_nothing)
        cost = measure_hook_cost(self._synchronise)
        hollow = self._hollow()
        samples = _Samples()
        started = time.perf_counter()
        trace, flags = self._run_with_flags("measure (round 1)")
        runs = max(1, round(_ROUND_S / max(trace.seconds, 1e-6)))
        if trace.seconds < _SLOW_RUN_S:  # looking at the outputs disturbed the caches; a slow run neither notices nor can be spared
            trace = self._run("measure (round 1)")
        while True:
            traces = [trace, *(self._run("measure") for _ in range(runs - 1))]
            samples.calls_us.append(np.median(np.array([cost.calls_us(one) for one in traces]), axis=0))
            samples.runtime_us.append(_time_runs(hollow, _HOLLOW_RUNS, _do_nothing))
            done = len(samples.calls_us)
            if repeat is not None or not samples.totals_us or not _enough(samples, repeat, started):
                samples.totals_us.append(self._time_plain_runs(runs))
            if _enough(samples, repeat, started):
                return self._summary(samples, flags, trace, cost)
            trace = self._run(f"measure (round {done + 1})")

    def outputs(self, rows: Sequence[int]) -> dict[int, list[Array]]:
        """Output tensors of the given kernel calls, copied to the host, in one run."""
        wanted = set(rows)
        kept: dict[int, list[Array]] = {}

        def keep(index: int, tensors: Sequence[Any]) -> None:
            if index in wanted:
                kept[index] = [tensor.numpy().copy() for tensor in tensors]

        self._run("run", on_outputs=keep)
        return kept

    def run(self, inputs: Sequence[Array]) -> list[Array]:
        """Outputs of the model for inputs of the right shapes and dtypes, in order."""
        self.on_progress("run", 0.0)
        arguments = [tvm.runtime.tensor(np.ascontiguousarray(array), self._device) for array in inputs]
        result = self._plain["main"](*arguments, *self._arguments[len(arguments) :])
        self._synchronise()
        return [tensor.numpy().copy() for tensor in tensors_in(result)]

    def _run_with_flags(self, phase: str) -> tuple[Trace, list[tuple[int, int]]]:
        """One instrumented run, and the numbers of NaN and of infinite values in the outputs of each call."""
        flags: list[tuple[int, int]] = []
        return self._run(phase, on_outputs=lambda _, tensors: flags.append(_count_flags(tensors))), flags

    def _run(self, phase: str, *, skip: Skip = skip_nothing, on_outputs: OnOutputs | None = None) -> Trace:
        """One instrumented run of the model."""
        last_progress = time.perf_counter()

        def after_call(index: int, symbol: str, arguments: tuple[Any, ...]) -> None:
            nonlocal last_progress
            if on_outputs is not None:
                on_outputs(index, arguments[-self._results.get(symbol, 1) :])
            now = time.perf_counter()
            if now - last_progress > _PROGRESS_S:
                last_progress = now
                self.on_progress(phase, (index + 1) / len(self._calls))

        self.on_progress(phase, 0.0)
        trace = run_instrumented(self._instrumented, self._arguments, synchronise=self._synchronise, skip=skip, after_call=after_call)
        expected = [call.kernel for call in self._calls]
        if trace.symbols != expected:
            raise RuntimeError(f"The VM called {len(trace.symbols)} kernels, the lowered module {len(expected)}, or in another order")
        return trace

    def _time_plain_runs(self, runs: int) -> float:
        """Median end-to-end time of runs without instrument, in us."""
        self.on_progress("measure end to end", 0.0)
        return _time_runs(self._plain, runs, self._synchronise)

    def _summary(self, samples: _Samples, flags: Sequence[tuple[int, int]], trace: Trace, cost: HookCost) -> Measurement:
        calls_us = np.array(samples.calls_us)
        return Measurement(
            calls=tuple(_call_time(calls_us[:, index], flags[index]) for index in range(len(self._calls))),
            runtime=_call_time(np.array(samples.runtime_us), None),
            builtins=tuple(sorted(trace.builtins.items())),
            total=_call_time(np.array(samples.totals_us), None),
            hook_us=float(np.median([cost.at(count) for count in trace.arguments])) if trace.arguments else cost.base_us,
            threads=int(tvm.get_global_func("runtime.NumThreads")()),
            resolution_us=cost.spread_us,
        )


def _time_runs(machine: relax.VirtualMachine, runs: int, synchronise: Callable[[], None]) -> float:
    """Median time of whole runs on the inputs that are set, in us."""
    times_us = []
    for _ in range(runs):
        synchronise()
        started = time.perf_counter()
        machine.invoke_stateful("main")
        synchronise()
        times_us.append((time.perf_counter() - started) * 1e6)
    return float(np.median(times_us))


def _enough(samples: _Samples, repeat: int | None, started: float) -> bool:
    rounds = len(samples.calls_us)
    if repeat is not None:
        return rounds >= repeat
    elapsed_s = time.perf_counter() - started
    short = samples.totals_us[-1] < _SLOW_RUN_S * 1e6 if samples.totals_us else True
    patience = _PATIENCE if short and not samples.agree else 1.0  # a slow model's next round would cost more than it tells
    return rounds >= _MAX_ROUNDS or any(rounds >= least and elapsed_s > seconds * patience for least, seconds in _STOP_AFTER)


def _call_time(values_us: Array, flags: tuple[int, int] | None) -> CallTime:
    low, median, high = np.percentile(values_us, [25, 50, 75])
    nan_count, inf_count = flags if flags is not None else (None, None)
    return CallTime(median_us=float(median), iqr_us=float(high - low), repeats=len(values_us), nan_count=nan_count, inf_count=inf_count)


def _count_flags(tensors: Sequence[Any]) -> tuple[int, int]:
    """Number of NaN and of infinite values in a call's outputs."""
    nan_count = inf_count = 0
    for tensor in tensors:
        array = tensor.numpy()
        if array.dtype.kind in "fV" and not np.isfinite(array).all():
            nan_count += int(np.isnan(array).sum())
            inf_count += int(np.isinf(array).sum())
    return nan_count, inf_count


def _no_progress(phase: str, share: float) -> None:
    del phase, share


def _do_nothing() -> None:
    """Stands where a GPU is waited for: calls on the host return when they are done."""
