"""A model as two graphs: the operators of the user's own model, and the kernel calls that they became.

A node's number is its place in its graph, and it reads only nodes of smaller numbers: both graphs are in an order of computation and
have no cycles. Weights are no nodes; a node says which it reads.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from workbench.records.decode import DecodeError, decode
from workbench.records.origin import Origin
from workbench.records.profile import Profile, TensorShape

GRAPH_DOCUMENT = "graph"
"""Name of the store's document that holds a `ModelGraph`."""

INPUT, OPERATOR, KERNEL, OUTPUT = "input", "operator", "kernel", "output"

CALLED, BUILTIN, ELIMINATED = "called", "builtin", "eliminated"
"""What became of a source operator: kernel calls compute it; it needs no kernel and the VM runs it; or nothing is left to run."""


@dataclass(frozen=True)
class SourceNode:
    """An operator of the source model, or one of the model's inputs or outputs.

    Attributes:
        kind: ``input``, ``operator`` or ``output``.
        origin: What it is, with the same identity as in the rows; an input or output has its name alone.
        reads: Numbers of the nodes whose values it reads, in the order of its operands.
        outputs: The tensors that it gives; an unknown dimension is -1, and empty if nothing is known.
        weights: The constant tensors that it reads.
        attributes: Its attributes as short texts.
        rows: Rows of the profile that compute it, in order.
        builtin: True if (also) the VM runs it, without a kernel.
    """

    kind: str
    origin: Origin
    reads: tuple[int, ...] = ()
    outputs: tuple[TensorShape, ...] = ()
    weights: tuple[TensorShape, ...] = ()
    attributes: Mapping[str, str] = field(default_factory=dict)
    rows: tuple[int, ...] = ()
    builtin: bool = False

    @property
    def state(self) -> str:
        """``called``, ``builtin`` or ``eliminated``; empty for inputs and outputs."""
        if self.kind != OPERATOR:
            return ""
        return CALLED if self.rows else BUILTIN if self.builtin else ELIMINATED

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values; what is empty is left out."""
        values: dict[str, Any] = {"kind": self.kind, "origin": self.origin.to_dict()}
        values.update(_lists(reads=self.reads, rows=self.rows), **_tensors(outputs=self.outputs, weights=self.weights))
        if self.attributes:
            values["attributes"] = dict(self.attributes)
        if self.builtin:
            values["builtin"] = True
        return values


@dataclass(frozen=True)
class KernelNode:
    """One row of the profile, or one of the model's inputs or outputs.

    Attributes:
        kind: ``input``, ``kernel`` or ``output``.
        name: The kernel, or the name of the input or output.
        reads: Numbers of the nodes whose values reach it, also through VM builtins that only look at a value another way.
        outputs: The tensors that it gives.
        weights: The parameters that it reads.
        row: Number of the row; None for inputs and outputs.
    """

    kind: str
    name: str
    reads: tuple[int, ...] = ()
    outputs: tuple[TensorShape, ...] = ()
    weights: tuple[TensorShape, ...] = ()
    row: int | None = None

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values; what is empty is left out."""
        values: dict[str, Any] = {"kind": self.kind, "name": self.name}
        values.update(_lists(reads=self.reads), **_tensors(outputs=self.outputs, weights=self.weights))
        if self.row is not None:
            values["row"] = self.row
        return values


@dataclass(frozen=True)
class ModelGraph:
    """The two graphs of one lowered model; `SourceNode.rows` ties them together, exactly.

    Attributes:
        source: The source model's inputs, operators and outputs.
        kernels: The lowered model's inputs, one node a row in execution order, and outputs.
    """

    source: tuple[SourceNode, ...]
    kernels: tuple[KernelNode, ...]

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON-ready values."""
        return {"source": [node.to_dict() for node in self.source], "kernels": [node.to_dict() for node in self.kernels]}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> ModelGraph:
        """The inverse of `to_dict`.

        Raises:
            DecodeError: A value is of another type, or the values are no graphs: a node reads one that is not before it, or a row is not there.
        """
        graph = decode(cls, values)
        _check_nodes("source", graph.source, {INPUT, OPERATOR, OUTPUT})
        _check_nodes("kernels", graph.kernels, {INPUT, KERNEL, OUTPUT})
        rows = [node.row for node in graph.kernels if node.kind == KERNEL]
        if rows != list(range(len(rows))) or any(node.row is not None for node in graph.kernels if node.kind != KERNEL):
            raise DecodeError("ModelGraph.kernels does not have one node a row, in order")
        for number, node in enumerate(graph.source):
            if not all(0 <= row < len(rows) for row in node.rows) or (node.rows and node.kind != OPERATOR):
                raise DecodeError(f"ModelGraph.source[{number}].rows names a row that is not there")
        return graph

    def belongs_to(self, profile: Profile) -> bool:
        """True if the kernel calls are the rows of a profile."""
        return [node.name for node in self.kernels if node.kind == KERNEL] == [row.kernel for row in profile.kernel_rows]


def _check_nodes(where: str, nodes: Sequence[SourceNode | KernelNode], kinds: set[str]) -> None:
    for number, node in enumerate(nodes):
        if node.kind not in kinds:
            raise DecodeError(f"ModelGraph.{where}[{number}].kind is unknown")
        if not all(0 <= read < number for read in node.reads):
            raise DecodeError(f"ModelGraph.{where}[{number}].reads names a node that is not before it")


def _lists(**values: tuple[int, ...]) -> dict[str, list[int]]:
    return {name: list(value) for name, value in values.items() if value}


def _tensors(**values: tuple[TensorShape, ...]) -> dict[str, list[dict[str, Any]]]:
    return {name: [{"shape": list(tensor.shape), "dtype": tensor.dtype} for tensor in value] for name, value in values.items() if value}
