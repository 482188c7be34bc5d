"""The rows of an optimised model with the operators of its source that they compute, and both as graphs."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tvm import relay

from .held import Lowered, Source
from .importing import dataflow, number_of, tensors_of
from .linking import Nodes, link


def describe(source: Source, lowered: Lowered) -> dict[str, Any]:
    """Kernels, rows and both graphs as JSON."""
    source = replace(source, module=relay.transform.InferType()(source.module))  # optimising it may have taken types from its variables
    made = _Optimised(lowered)
    owners = {number: place for place, operator in enumerate(source.operators) for number in operator.calls}
    links = link(_Calls(source).graph(), made.graph(), made.rows)
    rows: list[list[int]] = [[] for _ in lowered.calls]
    builtins: set[int] = set()
    for place, numbers in links.items():
        row = made.rows[place]
        for number in numbers:
            if row is None:
                builtins.add(owners[number])
            elif owners[number] not in rows[row]:
                rows[row].append(owners[number])
    linked = {operator for row in rows for operator in row}
    return {
        "kernels": [
            {
                "name": kernel.name,
                "hash": kernel.structural_hash,
                "ops": ops_of(kernel.function),
                "parameters": kernel.parameters,
                "results": kernel.results,
            }
            for kernel in lowered.kernels.values()
        ],
        "rows": [{"kernel": name, "operators": sorted(row), **made.flow(place)} for place, (name, row) in enumerate(zip(lowered.calls, rows))],
        "inputs": [{"name": name, "tensor": [shape, dtype]} for name, shape, dtype in lowered.inputs],
        "outputs": made.outputs(source.outputs),
        "builtins": sorted(builtins - linked),
        "eliminated": [place for place in range(len(source.operators)) if place not in linked | builtins],
        **_source_graph(source, owners),
    }


def is_reshape(function: Any) -> bool:
    """True for a function that only looks at its value another way: no kernel runs."""
    return "relay.reshape_only" in function.attrs.keys() and bool(int(function.attrs["relay.reshape_only"]))


def ops_of(function: Any) -> list[str]:
    """Operators of a fused function, in order, without the module of their names."""
    return [str(node.op.name) for node in dataflow(function.body) if isinstance(node, relay.Call)]


class _Calls:
    """The calls of the source, by number: what reads what, through tuples."""

    def __init__(self, source: Source) -> None:
        self.ops: list[str] = []
        self.reads: list[list[int]] = []
        self.weights: list[list[tuple[list[int], str]]] = []
        self.inputs: list[list[str]] = []
        self.nodes: list[Any] = []
        found: dict[Any, tuple[list[int], list[str]]] = {}
        tensors: dict[Any, list[tuple[list[int], str]]] = {}
        body = source.module["main"].body
        for node in dataflow(body):
            if isinstance(node, relay.Var):
                is_input = node.name_hint in source.inputs
                found[node] = ([], [node.name_hint] if is_input else [])
                tensors[node] = [] if is_input else tensors_of(node.checked_type)
            elif isinstance(node, relay.Constant):
                found[node] = ([], [])
                tensors[node] = tensors_of(node.checked_type)
            elif isinstance(node, relay.TupleGetItem):
                found[node] = found[node.tuple_value]
            else:
                items = node.args if isinstance(node, relay.Call) else node.fields
                calls = [number for item in items for number in found[item][0]]
                names = [name for item in items for name in found[item][1]]
                tensors[node] = [tensor for item in items for tensor in tensors.get(item, [])] if isinstance(node, relay.Tuple) else []
                if isinstance(node, relay.Tuple):
                    found[node] = (calls, names)
                    continue
                found[node] = ([len(self.ops)], [])
                self.ops.append(str(node.op.name))
                self.reads.append(calls)
                self.inputs.append(names)
                self.weights.append([tensor for item in items for tensor in tensors.get(item, [])])
                self.nodes.append(node)
        self.results = [found[item] for item in (body.fields if isinstance(body, relay.Tuple) else [body])]

    def graph(self) -> Nodes:
        """The calls as a graph of names."""
        return Nodes(self.ops, self.reads, list(range(len(self.ops))), [numbers for numbers, _ in self.results])


class _Optimised:
    """The single operators of the optimised model, out of their fused functions, with the row that runs each."""

    def __init__(self, lowered: Lowered) -> None:
        self.ops: list[str] = []
        self.numbers: list[int | None] = []
        self.reads: list[list[int]] = []
        self.rows: list[int | None] = []
        self._flows: list[dict[str, Any]] = []
        self._sources: dict[Any, list[str]] = {}
        producers: dict[Any, list[int]] = {}
        tensors: dict[Any, list[Any]] = {}
        body = lowered.module["main"].body
        for node in dataflow(body):
            if isinstance(node, relay.Var):
                producers[node], self._sources[node] = [], [f"input {node.name_hint}"]
            elif isinstance(node, relay.Constant):
                producers[node], self._sources[node] = [], []
                tensors[node] = tensors_of(node.checked_type)
            elif isinstance(node, relay.TupleGetItem):
                producers[node], self._sources[node] = producers[node.tuple_value], self._sources[node.tuple_value]
            elif isinstance(node, relay.Tuple):
                producers[node] = [item for field in node.fields for item in producers[field]]
                self._sources[node] = [item for field in node.fields for item in self._sources[field]]
            else:
                runs = not is_reshape(node.op)
                row = len(self._flows) if runs else None
                reads = [item for argument in node.args for item in self._sources[argument]]
                producers[node] = self._enter(node, producers, row)
                self._sources[node] = [f"row {row}"] if runs else reads
                if runs:
                    weights = [tensor for argument in node.args for tensor in tensors.get(argument, [])]
                    self._flows.append({"reads": reads, "weights": weights, "results": tensors_of(node.checked_type)})
        self.results = [producers[item] for item in (body.fields if isinstance(body, relay.Tuple) else [body])]
        self._body = body

    def graph(self) -> Nodes:
        """The operators as a graph of names."""
        return Nodes(self.ops, self.reads, self.numbers, self.results)

    def flow(self, row: int) -> dict[str, Any]:
        """What a row reads and gives."""
        return self._flows[row]

    def outputs(self, names: list[str]) -> list[dict[str, Any]]:
        """The model's outputs: what each reads, and its tensor."""
        items = list(self._body.fields) if isinstance(self._body, relay.Tuple) else [self._body]
        if len(names) != len(items):
            names = ["output"] if len(items) == 1 else [f"output {place}" for place in range(len(items))]
        return [{"name": name, "reads": self._sources[item], "tensors": tensors_of(item.checked_type)} for name, item in zip(names, items)]

    def _enter(self, call: Any, producers: dict[Any, list[int]], row: int | None) -> list[int]:
        inside = {parameter: producers[argument] for parameter, argument in zip(call.op.params, call.args)}
        for node in dataflow(call.op.body):
            if isinstance(node, relay.Call):
                self.ops.append(str(node.op.name))
                self.numbers.append(number_of(node))
                self.reads.append([item for argument in node.args for item in inside[argument]])
                self.rows.append(row)
                inside[node] = [len(self.ops) - 1]
            elif isinstance(node, relay.Tuple):
                inside[node] = [item for field in node.fields for item in inside[field]]
            elif isinstance(node, relay.TupleGetItem):
                inside[node] = inside[node.tuple_value]
            elif isinstance(node, relay.Constant):
                inside[node] = []
        return inside[call.op.body]


def _source_graph(source: Source, owners: dict[int, int]) -> dict[str, Any]:
    calls = _Calls(source)
    operators = []
    for place, operator in enumerate(source.operators):
        reads, weights = [], []
        for number in operator.calls:
            reads += [f"input {name}" for name in calls.inputs[number]]
            reads += [f"operator {owners[read]}" for read in calls.reads[number] if owners[read] != place]
            weights += calls.weights[number]
        last = calls.nodes[operator.calls[-1]] if operator.calls else None
        operators.append(
            {
                "op": operator.op,
                "name": operator.name,
                "location": operator.location,
                "reads": list(dict.fromkeys(reads)),
                "outputs": tensors_of(last.checked_type) if last is not None else [],
                "weights": weights,
                "attributes": _attributes(last) if last is not None else {},
            }
        )
    results = [[f"operator {owners[number]}" for number in numbers] or [f"input {name}" for name in names] for numbers, names in calls.results]
    return {"operators": operators, "results": results}


def _attributes(call: Any) -> dict[str, str]:
    """The attributes of a call as short texts."""
    if call.attrs is None or not hasattr(call.attrs, "keys"):
        return {}
    return {str(name): str(call.attrs[name])[:80] for name in call.attrs.keys() if call.attrs[name] is not None and str(call.attrs[name]) != ""}
