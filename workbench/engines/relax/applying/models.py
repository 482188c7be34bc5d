"""The two models that are compared, loaded from their files: the untuned one and the one with schedules."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import tvm
from tvm import relax

from workbench.analysis.tolerance import tolerance
from workbench.engines.apply_protocol import OutputsCompared, Round
from workbench.engines.arrays import Array, poisoned
from workbench.engines.differences import UNTUNED, model_tolerance, output_name, overflow, tensor_difference, why_it_says_nothing
from workbench.engines.onnx_reference import compared_with_onnxruntime
from workbench.engines.relax.applying.announcing import announce
from workbench.engines.relax.hook_cost import HookCost, measure_hook_cost
from workbench.engines.relax.inputs import on_device, random_parameters
from workbench.engines.relax.instrument import AfterCall, ignore_call, run_instrumented, skip_nothing, tensors_in
from workbench.engines.relax.kernels import longest_reduction, tensors_of
from workbench.engines.relax.lowering import Lowered
from workbench.records.comparison import Difference

_FLOATS = ("float", "bfloat")


class _Beside:
    """Runs each kernel with a schedule on the tensors that the untuned model gives to that kernel, right after its own call.

    Attributes:
        checked: How many calls were compared.
        wrong: Outputs that differ.
    """

    def __init__(self, models: Models, seed: int, *, random_weights: bool) -> None:
        self.checked = 0
        self.wrong: list[Difference] = []
        self._models = models
        self._seed = seed
        self._random_weights = random_weights

    def after_call(self, row: int, symbol: str, given: tuple[Any, ...]) -> None:
        """Compare one call."""
        function = self._models.scheduled.get(symbol)
        if function is None:
            return
        self.checked += 1
        count = self._models.lowered.result_counts[symbol]
        inputs, results = given[:-count], given[-count:]
        device = self._models.device
        again = [tvm.runtime.tensor(poisoned([int(size) for size in item.shape], str(item.dtype)), device) for item in results]
        announce(symbol)
        function(*inputs, *again)
        self._models.synchronise()
        for place, (got, want) in enumerate(zip(again, results, strict=True)):
            array = want.numpy()
            allowed = tolerance(str(array.dtype), self._models.reductions[symbol])
            name = output_name(place, random_weights=self._random_weights)
            found = tensor_difference(got.numpy(), array, allowed, place=name, against=UNTUNED, seed=self._seed, kernel=symbol, row=row)
            if not found.passed:
                self.wrong.append(found)


class Models:
    """Both models, ready to run on the same inputs.

    Args:
        lowered: The program of both.
        device: Where they run.
        untuned: Library of the untuned one.
        tuned: Library of the one with schedules.
        scheduled: Names of the kernels with a schedule.
        seed: Of the inputs that they are timed on.

    Attributes:
        scheduled: The called kernels with a schedule, as functions of the model's library.
        reductions: Terms of each called kernel's longest sum.
        tolerance: How far outputs of the model may differ.
        synchronise: Waits for the device.
    """

    def __init__(self, lowered: Lowered, device: Any, *, untuned: Path, tuned: Path, scheduled: Iterable[str], seed: int) -> None:
        self.lowered = lowered
        self.device = device
        self._seed = seed
        self._libraries = (tvm.runtime.load_module(str(untuned)), tvm.runtime.load_module(str(tuned)))
        self._machines = tuple(relax.VirtualMachine(library, device) for library in self._libraries)
        self._plain: tuple[Any, Any] | None = None
        self._arguments: list[Any] = []
        self._cost: HookCost | None = None
        on_host = device.dlpack_device_type() == tvm.cpu().dlpack_device_type()
        self.synchronise: Callable[[], None] = _do_nothing if on_host else device.sync
        self.reductions = {call.kernel: longest_reduction(lowered.module[call.kernel]) for call in lowered.calls}
        called = [name for name in scheduled if name in self.reductions]
        self.scheduled = {name: self._libraries[1].get_function(name, query_imports=True) for name in called}
        dtypes = [result.dtype for name in self.reductions for result in tensors_of(lowered.module[name], lowered.result_counts[name])[1]]
        terms = sum(self.reductions[call.kernel] for call in lowered.calls)
        self.tolerance = model_tolerance([dtype for dtype in dtypes if dtype.startswith(_FLOATS)], terms)

    def compare_outputs(self, seed: int, *, each_kernel: bool, random_weights: bool) -> OutputsCompared:
        """Run both on random inputs; see `workbench.engines.apply_protocol.Application.compare_outputs`."""
        arguments = on_device(self.lowered, self.device, seed=seed, weights=random_parameters(self.lowered, seed=seed) if random_weights else None)
        beside = _Beside(self, seed, random_weights=random_weights) if each_kernel else None
        expected = self._outputs(0, arguments, ignore_call if beside is None else beside.after_call)
        if random_weights and (why := overflow(expected)):
            return OutputsCompared((), says_nothing=why)
        found = self._outputs(1, arguments)
        outputs = [
            tensor_difference(got, want, self.tolerance, place=output_name(place, random_weights=random_weights), against=UNTUNED, seed=seed)
            for place, (got, want) in enumerate(zip(found, expected, strict=True))
        ]
        wrong, checked = ([], 0) if beside is None else (beside.wrong, beside.checked)
        return OutputsCompared(tuple(outputs), tuple(wrong), checked, why_it_says_nothing(expected))

    def compare_with_onnxruntime(self, expected: Sequence[Array], seed: int) -> OutputsCompared | str:
        """Compare the model with schedules with what onnxruntime gave on the same random inputs; says why not, if the two cannot be compared."""
        found = self._outputs(1, on_device(self.lowered, self.device, seed=seed))
        return compared_with_onnxruntime(found, expected, self.tolerance, seed=seed)

    def _outputs(self, which: int, arguments: Sequence[Any], after_call: AfterCall = ignore_call) -> list[Array]:
        announced = announce if which else skip_nothing
        trace = run_instrumented(self._machines[which], arguments, synchronise=self.synchronise, skip=announced, after_call=after_call)
        return [tensor.numpy() for tensor in tensors_in(trace.result)]

    def time_round(self, *, runs: int, tuned_first: bool) -> Round:
        """Time both by turns, each call and the whole; see `workbench.engines.apply_protocol.Application.time_round`."""
        if self._plain is None:
            self._arguments = on_device(self.lowered, self.device, seed=self._seed)
            self._cost = measure_hook_cost(self.synchronise)
            self._plain = (self._timed_machine(0), self._timed_machine(1))
        order = (1, 0) if tuned_first else (0, 1)
        calls: dict[int, list[list[float]]] = {0: [], 1: []}
        totals: dict[int, list[float]] = {0: [], 1: []}
        for _ in range(runs):  # by turns within a round too: both meet the same disturbances
            for which in order:
                calls[which].append(self._calls_us(which))
        for _ in range(runs):
            for which in order:
                totals[which].append(self._total_us(self._plain[which]))
        medians = [tuple(map(statistics.median, zip(*calls[which], strict=True))) for which in (0, 1)]
        return Round((medians[0], medians[1]), (statistics.median(totals[0]), statistics.median(totals[1])))

    def _timed_machine(self, which: int) -> Any:
        machine = relax.VirtualMachine(self._libraries[which], self.device)
        machine.set_input("main", *self._arguments)
        self._total_us(machine)  # warms it up
        self._calls_us(which)
        return machine

    def _calls_us(self, which: int) -> list[float]:
        trace = run_instrumented(self._machines[which], self._arguments, synchronise=self.synchronise)
        expected = [call.kernel for call in self.lowered.calls]
        if trace.symbols != expected or self._cost is None:
            raise RuntimeError(f"The VM called {len(trace.symbols)} kernels, the lowered module {len(expected)}, or in another order")
        return [float(time_us) for time_us in self._cost.calls_us(trace)]

    def _total_us(self, machine: Any) -> float:
        self.synchronise()
        started = time.perf_counter()
        machine.invoke_stateful("main")
        self.synchronise()
        return (time.perf_counter() - started) * 1e6


def _do_nothing() -> None:
    """Stands where a GPU is waited for: calls on the host return when they are done."""
