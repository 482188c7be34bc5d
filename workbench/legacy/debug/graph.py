"""The graph that old TVM compiled to: ``graph.json`` of the graph executor, and ``_tvmdbg_graph_dump.json`` of the debug runtime."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.legacy.lines import LineError, integer, integers, items, json_value, member, text

MAX_NODES = 10**6
_PARAMETER = "null"
_DUMPED_PARAMETER = "param"
_DUMPED_DTYPE = "type: "
_REMEDY = "Give the graph.json of the compiled library, or the _tvmdbg_graph_dump.json of the debug runtime, as old TVM wrote it."


@dataclass(frozen=True)
class GraphNode:
    """One node, in execution order.

    Attributes:
        name: Its name; unique in the graph.
        function: The compiled function that it calls; empty for an input or parameter.
        inputs: Places of the nodes that it reads.
        shapes: Shapes of its outputs; empty where the graph does not say.
        structural_hash: Hash of its fused function, from TVM 0.8 on; empty without one.
        outputs: Number of outputs.
        dtypes: Dtypes of its outputs; empty where the graph does not say.
    """

    name: str
    function: str
    inputs: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    structural_hash: str
    outputs: int
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True)
class ExecutedGraph:
    """All nodes in execution order, and the places of those that give the results; empty where the graph does not say."""

    nodes: tuple[GraphNode, ...]
    results: tuple[int, ...] = ()

    @property
    def calls(self) -> tuple[GraphNode, ...]:
        """The nodes that call a function."""
        return tuple(node for node in self.nodes if node.function)


def parse_graph(content: str) -> ExecutedGraph:
    """Read either form; the dump names its inputs, the graph numbers them.

    Raises:
        ModelError: It is neither.
    """
    try:
        value = json_value(content)
        nodes = items(member(value, "nodes", "the graph"), "its nodes", most=MAX_NODES)
        found = _named(nodes) if _is_dump(nodes) else _numbered(value, nodes)
        heads = items(value["heads"], "the results") if "heads" in value else []
        return ExecutedGraph(found, tuple(_earlier(items(head, "a result", least=1)[0], len(found)) for head in heads))
    except LineError as error:
        raise ModelError(f"This is no graph of old TVM: {error}.", _REMEDY) from error


def _is_dump(nodes: list[Any]) -> bool:
    """True if inputs are names; the dump keeps what else the graph has."""
    return any(
        isinstance(node, dict) and (node.get("op") == _DUMPED_PARAMETER or any(isinstance(item, str) for item in node.get("inputs") or ()))
        for node in nodes
    )


def _numbered(value: Any, nodes: list[Any]) -> tuple[GraphNode, ...]:
    """Nodes of ``graph.json``: inputs are ``[node, output, version]``, shapes stand together under ``attrs``."""
    shapes, dtypes = _all_shapes(value), _all_dtypes(value)
    starts = integers(value["node_row_ptr"], "node_row_ptr") if "node_row_ptr" in value else tuple(range(len(nodes) + 1))
    if len(starts) != len(nodes) + 1:
        raise LineError("node_row_ptr does not fit the nodes")
    result = []
    for place, node in enumerate(nodes):
        attributes = node.get("attrs", {}) if isinstance(node, dict) else {}
        is_call = text(member(node, "op", "a node"), "an operator") != _PARAMETER
        inputs = tuple(_earlier(items(item, "an input", least=1)[0], place) for item in items(node.get("inputs", []), "inputs"))
        name = text(member(node, "name", "a node"), "a name")
        function = text(attributes.get("func_name", name), "func_name") if is_call else ""
        entries = slice(starts[place], starts[place + 1])
        own = shapes[entries]
        result.append(GraphNode(name, function, inputs, own, _hash(attributes), len(own) or _outputs(attributes), dtypes[entries]))
    return tuple(result)


def _all_shapes(value: Any) -> tuple[tuple[int, ...], ...]:
    """Shapes of all entries: ``attrs.shape`` is ``["list_shape", [...]]``; empty if the graph has none."""
    return tuple(integers(shape, "a shape") for shape in _entries(value, "shape"))


def _all_dtypes(value: Any) -> tuple[str, ...]:
    """Dtypes of all entries: ``attrs.dltype`` is ``["list_str", [...]]``; empty if the graph has none."""
    return tuple(text(dtype, "a dtype") for dtype in _entries(value, "dltype"))


def _entries(value: Any, name: str) -> list[Any]:
    typed = value.get("attrs", {}).get(name) if isinstance(value.get("attrs", {}), dict) else None
    return [] if typed is None else items(items(typed, f"attrs.{name}", least=2)[1], f"attrs.{name}")


def _named(nodes: list[Any]) -> tuple[GraphNode, ...]:
    """Nodes of the dump: inputs are names, each node has its shape."""
    places: dict[str, int] = {}
    result = []
    for place, node in enumerate(nodes):
        name = text(member(node, "name", "a node"), "a name")
        operator = text(member(node, "op", "a node"), "an operator")
        names = [text(item, "an input") for item in items(node.get("inputs", []), "inputs")]
        unknown = [item for item in names if item not in places]
        if unknown:
            raise LineError(f"node {plain(name)} reads {plain(unknown[0])}, which does not come before it")
        attributes = node.get("attrs", {}) if isinstance(node.get("attrs", {}), dict) else {}
        shape = (integers(node["shape"], "a shape"),) if "shape" in node else ()
        function = "" if operator == _DUMPED_PARAMETER else operator
        dtype = (attributes["T"].removeprefix(_DUMPED_DTYPE),) if isinstance(attributes.get("T"), str) else ()
        reads = tuple(places[item] for item in names)
        result.append(GraphNode(name, function, reads, shape, _hash(attributes), _outputs(attributes), dtype))
        places[name] = place
    return tuple(result)


def _earlier(value: Any, place: int) -> int:
    node = integer(value, "an input's node")
    if not 0 <= node < place:
        raise LineError(f"node {place} reads node {node}, which does not come before it")
    return node


def _hash(attributes: Any) -> str:
    value = attributes.get("hash", "") if isinstance(attributes, dict) else ""
    return value if isinstance(value, str) else ""


def _outputs(attributes: Any) -> int:
    value = attributes.get("num_outputs", "1") if isinstance(attributes, dict) else "1"
    return int(value) if isinstance(value, str) and value.isdecimal() and len(value) < 6 else 1
