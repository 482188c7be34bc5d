"""What the VM's instrument costs per call, measured on kernels that do nothing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from workbench.engines.relax.hollow import kernel_without_body
from workbench.engines.relax.instrument import Trace, run_instrumented

_CALLS = 40
_RUNS = 5
_FEW, _MANY = 1, 9
_SPREAD_PERCENTILES = (5, 95)


@dataclass(frozen=True)
class HookCost:
    """Time between the instrument's two calls around a kernel that does nothing, as a line over its number of arguments.

    Attributes:
        base_us: Cost at a call without arguments.
        per_argument_us: What each argument adds.
        spread_us: How far the cost is from call to call, from its 5th to its 95th percentile: a kernel that takes less cannot be told from none.
    """

    base_us: float
    per_argument_us: float
    spread_us: float = 0.0

    def at(self, arguments: int) -> float:
        """Cost in us at a call with so many arguments."""
        return self.base_us + self.per_argument_us * arguments

    def calls_us(self, trace: Trace) -> np.ndarray[Any, Any]:
        """Times of a trace's kernel calls in us, the instrument's cost taken off."""
        cost_us = np.array([self.at(count) for count in trace.arguments])
        times_us: np.ndarray[Any, Any] = np.maximum(np.array(trace.calls_ns, dtype=np.float64) / 1e3 - cost_us, 0.0)
        return times_us


def measure_hook_cost(synchronise: Callable[[], None]) -> HookCost:
    """Fit the cost of the instrument, the waiting for the device included.

    Args:
        synchronise: As for `run_instrumented`.
    """
    machine = relax.VirtualMachine(relax.build(_null_module(), tvm.target.Target({"kind": "llvm"})), tvm.cpu())
    argument = tvm.runtime.tensor(np.zeros(1, dtype=np.float32))
    samples: dict[int, list[int]] = {}
    for _ in range(_RUNS):
        trace = run_instrumented(machine, [argument], synchronise=synchronise)
        for count, elapsed_ns in zip(trace.arguments, trace.calls_ns, strict=True):
            samples.setdefault(count, []).append(elapsed_ns)
    (few, few_us), (many, many_us) = ((count, float(np.median(values)) / 1e3) for count, values in sorted(samples.items()))
    slope_us = max((many_us - few_us) / (many - few), 0.0)
    spread_us = max(float(np.subtract(*np.percentile(values, _SPREAD_PERCENTILES[::-1]))) / 1e3 for values in samples.values())
    return HookCost(base_us=max(few_us - slope_us * few, 0.0), per_argument_us=slope_us, spread_us=spread_us)


def _null_module() -> tvm.IRModule:
    """A module that calls kernels which do nothing, some with few arguments and some with many."""
    tensor = relax.TensorType([1], "float32")
    builder = relax.BlockBuilder()
    data = relax.Var("data", tensor)
    with builder.function("main", [data]):
        with builder.dataflow():
            value: Any = data
            for inputs in (_FEW, _MANY):
                kernel = builder.add_func(kernel_without_body(inputs + 1), f"nothing_{inputs}")
                for _ in range(_CALLS):
                    value = builder.emit(relax.op.call_tir(kernel, [value] * inputs, tensor))
            result = builder.emit_output(value)
        builder.emit_func_output(result)
    return builder.get()
