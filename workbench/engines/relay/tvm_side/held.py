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
    """

    name: str
    symbol: str
    function: Any
    structural_hash: str
    parameters: list[tuple[list[int], str]] = field(default_factory=list)
    results: list[tuple[list[int], str]] = field(default_factory=list)


@dataclass
class Operator:
    """An operator of the source model.

    Attributes:
        op: Its type in the source's own words.
        name: Its name there.
        location: Where it stands in a text; empty without one.
        calls: Numbers of the Relay calls that it became.
    """

    op: str
    name: str
    location: str
    calls: list[int] = field(default_factory=list)


@dataclass
class Source:
    """The imported model, before optimisation.

    Attributes:
        module: The `IRModule`; the span of each call has its number, plus 1, as its line.
        params: Weights by name, as NumPy arrays.
        operators: The source model's operators, in an order of computation.
        inputs: Names of the parameters of ``main`` that are no weights, in order.
        outputs: Names of the outputs, where the source gives them some.
        notes: What a reader of the results has to know.
        is_operator: True for a TE workload, whose kernel stands alone: it keeps its layout, and with it the arguments that its author gave it.
    """

    module: Any
    params: dict[str, Any]
    operators: list[Operator]
    inputs: list[str]
    outputs: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    is_operator: bool = False


@dataclass
class Lowered:
    """The optimised model: its kernels, and their calls in execution order.

    Attributes:
        module: The optimised `IRModule`; generating code of it again gives the same kernels.
        kernels: By name.
        calls: Names of kernels in execution order; the rows.
        nodes: Numbers of the graph executor's nodes of these calls.
        graph: The graph executor's graph, as JSON.
        params: What the graph executor needs beside the inputs, by the graph's names, as NumPy arrays.
        inputs: Name, shape and dtype of each input of the model.
        facts: Links, operators and data flow, as JSON has them; see `graph`.
    """

    module: Any
    kernels: dict[str, Kernel] = field(default_factory=dict)
    calls: list[str] = field(default_factory=list)
    nodes: list[int] = field(default_factory=list)
    graph: str = ""
    params: dict[str, Any] = field(default_factory=dict)
    inputs: list[tuple[str, list[int], str]] = field(default_factory=list)
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass
class Held:
    """The state of one process; a call sets what it makes, and asks for what it needs.

    Attributes:
        target: The `tvm.target.Target`, with its host.
        source: The imported model.
        lowered: What became of it.
        tasks: Whatever search and measurement keep, by their own keys.
    """

    target: Any = None
    source: Source | None = None
    lowered: Lowered | None = None
    tasks: dict[str, Any] = field(default_factory=dict)

    def ready(self) -> Lowered:
        """What was lowered or loaded."""
        if self.lowered is None:
            raise Refusal(SESSION, "The old Python holds no lowered model.", "Profile the model first.")
        return self.lowered
