"""What the calls of a Relay text read and give: the same walk as the emitter's, with wires for values."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from workbench.engines.relax.relay.emitter import Emitter
from workbench.engines.relax.source_graph import Described, SourceGraph, with_attributes
from workbench.legacy.relay import syntax
from workbench.legacy.relay.interpreter import Closure, Interpreter, Item
from workbench.records.profile import TensorShape


@dataclass(frozen=True)
class Wire:
    """Where a value comes from: an operator or an input; or it is a constant, of which the tensor is known."""

    source: int | None
    tensors: tuple[TensorShape, ...] = ()


def describe_relay(module: syntax.Module, emitter: Emitter, inputs: Collection[str], parameters: Mapping[str, TensorShape]) -> SourceGraph:
    """The graph of a text that was emitted.

    Args:
        module: The text.
        emitter: Has emitted it, and so knows what each call gave.
        inputs: Names of the parameters that are inputs; the others are weights.
        parameters: Shapes of all parameters of ``main``.
    """
    graph = SourceGraph()
    walk = _Wiring(module, graph, emitter.results)
    sources = {name: graph.add_input(name, (parameters[name],)) for name in inputs}
    arguments: dict[str, Item[Wire]] = {name: Wire(sources.get(name), (tensor,)) for name, tensor in parameters.items()}
    result = walk.run(module.main, arguments)
    is_bound_apart = walk.count < len(emitter.origins.operators)  # as an operator of its own, `return`
    if is_bound_apart:
        graph.describe(walk.count, Described(reads=_reads(result), outputs=_tensors(result)))
    fields = result if isinstance(result, tuple) else (result,)
    for index, item in enumerate(fields):
        reads = (walk.count,) if is_bound_apart else _reads(item)
        graph.add_output(f"output {index}" if len(fields) > 1 else "output", reads, _tensors(item))
    return graph


class _Wiring(Interpreter[Wire]):
    """Numbers the calls as the emitter did, and describes each."""

    def __init__(self, module: syntax.Module, graph: SourceGraph, results: Sequence[syntax.Type | None]) -> None:
        super().__init__(module)
        self.count = 0
        self._graph = graph
        self._results = results

    def constant(self, node: syntax.Constant | syntax.MetaRef) -> Item[Wire]:
        """A wire to nothing."""
        return Wire(None, _of_type(node.type) if isinstance(node, syntax.MetaRef) else ())

    def operator(self, call: syntax.Call, operator: str, args: Sequence[Item[Wire]], name: str) -> Item[Wire]:
        """Describe a call."""
        del operator, name
        number, self.count = self.count, self.count + 1
        outputs = _of_type(self._results[number])
        wires = [wire for arg in args for wire in _wires(arg)]
        described = Described(
            reads=tuple(wire.source for wire in wires if wire.source is not None),
            outputs=outputs,
            weights=tuple(tensor for wire in wires if wire.source is None for tensor in wire.tensors),
        )
        self._graph.describe(number, with_attributes(described, call.attributes))
        result = self._results[number]
        if isinstance(result, syntax.TupleType):
            return tuple(Wire(number, _of_type(field)) for field in result.fields)
        return Wire(number, outputs)

    def item(self, node: syntax.TupleGet, value: Item[Wire]) -> Item[Wire]:
        """A field of what is no tuple here comes from where the whole does."""
        del node
        return value


def _wires(item: Item[Wire]) -> list[Wire]:
    if isinstance(item, Closure):
        return []
    return [wire for field in item for wire in _wires(field)] if isinstance(item, tuple) else [item]


def _reads(item: Item[Wire]) -> tuple[int, ...]:
    return tuple(wire.source for wire in _wires(item) if wire.source is not None)


def _tensors(item: Item[Wire]) -> tuple[TensorShape, ...]:
    return tuple(tensor for wire in _wires(item) for tensor in wire.tensors)


def _of_type(kind: syntax.Type | None) -> tuple[TensorShape, ...]:
    if isinstance(kind, syntax.TupleType):
        return tuple(tensor for field in kind.fields for tensor in _of_type(field))
    if not isinstance(kind, syntax.TensorType):
        return ()
    return (TensorShape(tuple(-1 if size is None else size for size in kind.shape), kind.dtype),)
