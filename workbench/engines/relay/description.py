"""What the old TVM told of a lowered model, as records."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from workbench.engines.reference import KernelFacts
from workbench.engines.relay.task_search import AUTO_SCHEDULER
from workbench.records.decode import DecodeError
from workbench.records.graph import INPUT, KERNEL, OPERATOR, OUTPUT, KernelNode, ModelGraph, SourceNode
from workbench.records.origin import Origin
from workbench.records.profile import Kernel, KernelCall, TensorShape


class Description:
    """The kernels, rows and graphs of a lowered model.

    Args:
        facts: As `tvm_side.graph.describe` gives them; from a session, anybody may have written them.

    Raises:
        DecodeError: They are damaged.
    """

    def __init__(self, facts: Mapping[str, Any]) -> None:
        try:
            self._facts = facts
            self.origins = tuple(Origin(str(item["op"]), str(item["name"]), str(item["location"])) for item in facts["operators"])
            self.calls = tuple(KernelCall(str(row["kernel"]), tuple(self.origins[place] for place in row["operators"])) for row in facts["rows"])
            self.builtins = tuple(self.origins[place] for place in facts["builtins"])
            self.eliminated = tuple(self.origins[place] for place in facts["eliminated"])
            self.inputs = tuple((str(item["name"]), _tensor(item["tensor"])) for item in facts["inputs"])
            self._kernels = {str(item["name"]): item for item in facts["kernels"]}
            self._described = tuple(kernel_of(item, {}) for item in facts["kernels"])
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            raise DecodeError(f"the description of the kernels is damaged: {type(error).__name__}") from error

    def kernels(self, extracted: Sequence[Mapping[str, Any]]) -> tuple[Kernel, ...]:
        """The kernels, with what `tvm_side.extraction` found out about each, in the same order."""
        return tuple(kernel_of(item, found) for item, found in zip(self._facts["kernels"], extracted, strict=True))

    def facts_of(self, name: str) -> KernelFacts:
        """What measuring needs to know of a kernel."""
        item = self._kernels[name]
        tensors = [_tensor(tensor) for tensor in (*item["parameters"], *item["results"])]
        return KernelFacts(tuple((tensor.shape, tensor.dtype) for tensor in tensors), len(item["results"]), _longest_sum(item))

    def graph(self) -> ModelGraph:
        """Both graphs."""
        return ModelGraph(source=self._source_nodes(), kernels=self._kernel_nodes())

    def _source_nodes(self) -> tuple[SourceNode, ...]:
        nodes: list[SourceNode] = []
        places: dict[str, int] = {}
        for name, tensor in self.inputs:
            places[f"input {name}"] = len(nodes)
            nodes.append(SourceNode(INPUT, Origin("", name), outputs=(tensor,)))
        rows: dict[int, list[int]] = {}
        for row, item in enumerate(self._facts["rows"]):
            for operator in item["operators"]:
                rows.setdefault(operator, []).append(row)
        builtins = set(self._facts["builtins"])
        for number, item in enumerate(self._facts["operators"]):
            reads = tuple(places[read] for read in item["reads"] if read in places)
            places[f"operator {number}"] = len(nodes)
            nodes.append(
                SourceNode(
                    OPERATOR,
                    self.origins[number],
                    reads=reads,
                    outputs=_tensors(item["outputs"]),
                    weights=_tensors(item["weights"]),
                    attributes={str(name): str(value) for name, value in item["attributes"].items()},
                    rows=tuple(rows.get(number, ())),
                    builtin=number in builtins,
                )
            )
        for item, reads in zip(self._facts["outputs"], self._facts["results"], strict=True):
            known = tuple(places[read] for read in reads if read in places)
            nodes.append(SourceNode(OUTPUT, Origin("", str(item["name"])), reads=known, outputs=_tensors(item["tensors"])))
        return tuple(nodes)

    def _kernel_nodes(self) -> tuple[KernelNode, ...]:
        nodes: list[KernelNode] = []
        places: dict[str, int] = {}
        for name, tensor in self.inputs:
            places[f"input {name}"] = len(nodes)
            nodes.append(KernelNode(INPUT, name, outputs=(tensor,)))
        for row, item in enumerate(self._facts["rows"]):
            reads = tuple(dict.fromkeys(places[read] for read in item["reads"]))
            places[f"row {row}"] = len(nodes)
            nodes.append(KernelNode(KERNEL, str(item["kernel"]), reads, _tensors(item["results"]), _tensors(item["weights"]), row))
        for item in self._facts["outputs"]:
            reads = tuple(dict.fromkeys(places[read] for read in item["reads"]))
            nodes.append(KernelNode(OUTPUT, str(item["name"]), reads, _tensors(item["tensors"])))
        return tuple(nodes)


def kernel_of(item: Mapping[str, Any], found: Mapping[str, Any]) -> Kernel:
    """A kernel, with what is known of its search spaces."""
    spaces = {str(name): int(size) for name, size in found.get("spaces", {}).items()}
    return Kernel(
        name=str(item["name"]),
        structural_hash=str(item["hash"]),
        ops=tuple(str(op) for op in item["ops"]),
        parameters=_tensors(item["parameters"]),
        results=_tensors(item["results"]),
        flop=found.get("flop"),
        space_size=spaces.get(AUTO_SCHEDULER) or next(iter(spaces.values()), None),
        untunable=str(found.get("untunable", "")),
        spaces=spaces,
    )


def _longest_sum(item: Mapping[str, Any]) -> int:
    """Terms of the longest sum of a kernel; as many as its largest parameter has elements while that was not looked at."""
    known = item.get("reduction")
    return int(known) if known is not None else max([1, *(math.prod(_tensor(tensor).shape) for tensor in item["parameters"])])


def _tensor(value: Sequence[Any]) -> TensorShape:
    shape, dtype = value
    return TensorShape(tuple(int(size) for size in shape), str(dtype))


def _tensors(values: Sequence[Sequence[Any]]) -> tuple[TensorShape, ...]:
    return tuple(_tensor(value) for value in values)
