"""The debug runtime, reborn: times every kernel call of a model, and the whole model, on the device.

The Relax VM calls an instrument before and after each call. Instrumented runs (one time per call) alternate with plain ones (one time for
the whole), so that both see the same machine. What the instrument itself costs is measured on kernels that do nothing, and taken off.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import tvm
from tvm import relax

from workbench.engines.relax.build import Built
from workbench.engines.relax.hook_cost import HookCost, measure_hook_cost
from workbench.records.profile import CallTime, KernelCall, Measurement

_RUN = 0
_SKIP = 1
_MAX_REPEATS = 30
_STOP_AFTER = ((2, 8.0), (3, 6.0), (5, 3.0))  # so many repeats are enough after so many seconds
_PROGRESS_S = 0.2
_PLAIN_RUN_MIN_S = 0.01

Progress = Callable[[str, float], None]
Skip = Callable[[str], bool]
OnOutputs = Callable[[int, Sequence[Any]], None]


@dataclass
class _Trace:
    """What one instrumented run recorded."""

    calls_ns: list[int] = field(default_factory=list)
    arguments: list[int] = field(default_factory=list)
    symbols: list[str] = field(default_factory=list)
    builtins_ns: list[int] = field(default_factory=list)
    builtins: Counter[str] = field(default_factory=Counter)
    flags: list[tuple[int, int]] = field(default_factory=list)


class Profiler:
    """Runs one compiled model under measurement.

    Args:
        built: The executable and its device.
        arguments: Inputs, then parameters, on the device.
        calls: The kernel calls that the module's ``main`` makes, in order.
        results: Number of output tensors of each called kernel.

    Attributes:
        on_progress: Told a phase and how much of it is done (0 to 1), from between the calls, at most five times a second; it may raise
            to end the run.
    """

    def __init__(self, built: Built, arguments: Sequence[Any], calls: Sequence[KernelCall], *, results: dict[str, int]) -> None:
        self._device = built.device
        self._arguments = list(arguments)
        self._calls = calls
        self._results = results
        self.on_progress: Progress = _no_progress
        self._synchronise = built.device.sync if built.device.dlpack_device_type() != tvm.cpu().dlpack_device_type() else _do_nothing
        self._instrumented = relax.VirtualMachine(built.executable, built.device)
        self._plain = relax.VirtualMachine(built.executable, built.device)

    def measure(self, *, repeat: int | None) -> Measurement:
        """Warm up, calibrate, and measure.

        Args:
            repeat: Number of instrumented and of plain runs; None repeats for three to eight seconds, at least twice, at most thirty times.
        """
        self._plain.set_input("main", *self._arguments)
        self._run("warm up", skip=_repeated_kernels(), flags=False)
        cost = measure_hook_cost(self._time_null_calls, self._device)
        traces: list[_Trace] = []
        totals_us: list[float] = []
        started = time.perf_counter()
        while not _enough(len(traces), repeat, time.perf_counter() - started):
            traces.append(self._run(f"measure (run {len(traces) + 1})", skip=_nothing, flags=not traces))
            enough = _enough(len(traces), repeat, time.perf_counter() - started)
            if not totals_us or not enough or repeat is not None:
                totals_us.append(self._time_plain_run(_seconds(traces[-1])))
        return self._summary(traces, totals_us, cost)

    def outputs(self, rows: Sequence[int]) -> dict[int, list[np.ndarray[Any, Any]]]:
        """Output tensors of the given kernel calls, copied to the host, in one run."""
        wanted = set(rows)
        kept: dict[int, list[np.ndarray[Any, Any]]] = {}

        def keep(index: int, tensors: Sequence[Any]) -> None:
            if index in wanted:
                kept[index] = [tensor.numpy().copy() for tensor in tensors]

        self._run("run", skip=_nothing, flags=False, on_outputs=keep)
        return kept

    def _run(self, phase: str, *, skip: Skip, flags: bool, on_outputs: OnOutputs | None = None) -> _Trace:
        """One instrumented run of the model."""
        found: list[tuple[int, int]] = []
        last_progress = time.perf_counter()

        def after_call(index: int, symbol: str, arguments: tuple[Any, ...]) -> None:
            nonlocal last_progress
            tensors = arguments[-self._results.get(symbol, 1) :]
            if flags:
                found.append(_count_flags(tensors))
            if on_outputs is not None:
                on_outputs(index, tensors)
            now = time.perf_counter()
            if now - last_progress > _PROGRESS_S:
                last_progress = now
                self.on_progress(phase, (index + 1) / len(self._calls))

        self.on_progress(phase, 0.0)
        trace = self._run_instrumented(self._instrumented, self._arguments, skip=skip, after_call=after_call)
        trace.flags = found
        expected = [call.kernel for call in self._calls]
        if trace.symbols != expected:
            raise RuntimeError(f"The VM called {len(trace.symbols)} kernels, the lowered module {len(expected)}, or in another order")
        return trace

    def _run_instrumented(
        self, machine: relax.VirtualMachine, arguments: Sequence[Any], *, skip: Skip, after_call: Callable[[int, str, tuple[Any, ...]], None]
    ) -> _Trace:
        """Run ``main``; time every call that is not skipped."""
        trace = _Trace()
        clock = time.perf_counter_ns
        synchronise = self._synchronise
        started_ns = 0

        def instrument(function: Any, symbol: str, before: bool, result: Any, *values: Any) -> int:
            nonlocal started_ns
            del function, result
            builtin = symbol.startswith("vm.builtin.")
            if before:
                if not builtin:
                    trace.symbols.append(symbol)
                    if skip(symbol):
                        return _SKIP
                synchronise()
                started_ns = clock()
                return _RUN
            synchronise()
            elapsed_ns = clock() - started_ns
            if builtin:
                trace.builtins_ns.append(elapsed_ns)
                trace.builtins[symbol] += 1
            else:
                trace.calls_ns.append(elapsed_ns)
                trace.arguments.append(len(values))
                after_call(len(trace.symbols) - 1, symbol, values)
            return _RUN

        machine.set_instrument(instrument)
        machine["main"](*arguments)
        return trace

    def _time_null_calls(self, machine: relax.VirtualMachine, arguments: list[Any]) -> list[tuple[int, int]]:
        """Number of arguments and time of each call of a machine whose kernels do nothing."""
        trace = self._run_instrumented(machine, arguments, skip=_nothing, after_call=_ignore)
        return list(zip(trace.arguments, trace.calls_ns, strict=True))

    def _time_plain_run(self, expected_s: float) -> float:
        """End-to-end time of a run without instrument, in us; short runs are repeated and averaged."""
        self.on_progress("measure end to end", 0.0)
        number = max(1, round(_PLAIN_RUN_MIN_S / max(expected_s, 1e-6)))
        self._synchronise()
        started = time.perf_counter()
        for _ in range(number):
            self._plain.invoke_stateful("main")
        self._synchronise()
        return (time.perf_counter() - started) / number * 1e6

    def _summary(self, traces: list[_Trace], totals_us: list[float], cost: HookCost) -> Measurement:
        overhead_us = np.array([cost.at(count) for count in traces[0].arguments])
        times_us = np.maximum(np.array([trace.calls_ns for trace in traces]) / 1e3 - overhead_us, 0.0)
        builtins_us = [sum(max(elapsed / 1e3 - cost.base_us, 0.0) for elapsed in trace.builtins_ns) for trace in traces]
        flags = traces[0].flags
        return Measurement(
            calls=tuple(_call_time(times_us[:, index], flags[index]) for index in range(times_us.shape[1])),
            runtime=_call_time(np.array(builtins_us), None),
            builtins=tuple(sorted(traces[0].builtins.items())),
            total=_call_time(np.array(totals_us), None),
            hook_us=float(np.median(overhead_us)) if overhead_us.size else 0.0,
            threads=int(tvm.get_global_func("runtime.NumThreads")()),
        )


def _enough(done: int, repeat: int | None, elapsed_s: float) -> bool:
    if repeat is not None:
        return done >= repeat
    return done >= _MAX_REPEATS or any(done >= repeats and elapsed_s > seconds for repeats, seconds in _STOP_AFTER)


def _seconds(trace: _Trace) -> float:
    return (sum(trace.calls_ns) + sum(trace.builtins_ns)) / 1e9


def _call_time(values_us: np.ndarray[Any, Any], flags: tuple[int, int] | None) -> CallTime:
    low, median, high = np.percentile(values_us, [25, 50, 75])
    nan_count, inf_count = flags if flags is not None else (None, None)
    return CallTime(median_us=float(median), iqr_us=float(high - low), repeats=len(values_us), nan_count=nan_count, inf_count=inf_count)


def _count_flags(tensors: Sequence[Any]) -> tuple[int, int]:
    """Number of NaN and of infinite values in a call's outputs."""
    nan_count = inf_count = 0
    for tensor in tensors:
        array = tensor.numpy()
        if np.issubdtype(array.dtype, np.floating) and not np.isfinite(array.sum(dtype=np.float64)):
            nan_count += int(np.isnan(array).sum())
            inf_count += int(np.isinf(array).sum())
    return nan_count, inf_count


def _nothing(symbol: str) -> bool:
    del symbol
    return False


def _no_progress(phase: str, share: float) -> None:
    del phase, share


def _do_nothing() -> None:
    """Stands where a GPU is synchronised."""


def _ignore(index: int, symbol: str, arguments: tuple[Any, ...]) -> None:
    del index, symbol, arguments


def _repeated_kernels() -> Callable[[str], bool]:
    """Skips all but the first call of each kernel: enough to warm code, threads and memory up, in a fraction of the time."""
    seen: set[str] = set()

    def skip(symbol: str) -> bool:
        if symbol in seen:
            return True
        seen.add(symbol)
        return False

    return skip
