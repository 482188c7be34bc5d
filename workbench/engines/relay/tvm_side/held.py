"""What one process of the old Python holds between calls; knows no TVM itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from .failing import SESSION, Refusal


@dataclass
class Kernel:
    """One primitive fused Relay function of the optimised model.

    Attributes:
        name: As shown: ``fused_nn_conv2d_add_nn_relu``, without TVM's prefix, with TVM's suffix where several have the same operators.
        symbol: What the graph executor calls: ``tvmgen_default_fused_...``.
        function: The `relay.Function`.
        structural_hash: Of the function, equal in every run.
        parameters: Shape and dtype of each parameter, in the order of the call.
        results: Shape and dtype of each result.
        workload_key: Its auto_scheduler workload, as TVM asked for it while it lowered this very function; None without one.
        autotvm: Its AutoTVM workloads: (task name, arguments), as TVM asked for them while it lowered this very function.
    """

    name: str
    symbol: str
    function: Any
    structural_hash: str
    parameters: tuple[tuple[tuple[int, ...], str], ...] = ()
    results: tuple[tuple[tuple[int, ...], str], ...] = ()
    workload_key: str | None = None
    autotvm: list[tuple[str, Any]] = field(default_factory=list)


@dataclass
class Lowered:
    """The optimised model: its kernels, and their calls in execution order.

    Attributes:
        module: The optimised `IRModule`; building it again gives the same kernels.
        params: Weights by name, as NumPy arrays.
        kernels: By name.
        calls: Names of kernels in execution order; the rows.
    """

    module: Any
    params: dict[str, Any]
    kernels: dict[str, Kernel] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)


@dataclass
class Held:
    """The state of one process; a call sets what it makes, and asks for what it needs.

    Attributes:
        target: The `tvm.target.Target`, with its host.
        module: The imported `IRModule`, before optimisation.
        params: Its weights by name, as NumPy arrays.
        lowered: What became of it.
        tasks: Whatever search and measurement keep, by their own keys.
    """

    target: Any = None
    module: Any = None
    params: dict[str, Any] = field(default_factory=dict)
    lowered: Lowered | None = None
    tasks: dict[str, Any] = field(default_factory=dict)

    def ready(self) -> Lowered:
        """What was lowered or loaded."""
        if self.lowered is None:
            raise Refusal(SESSION, "The old Python holds no lowered model.", "Profile the model first.")
        return self.lowered
