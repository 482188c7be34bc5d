"""Distinct fused functions of a program: what becomes a task of a tuner, and what they cost."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass

from workbench.matching.fusion import FusedCall
from workbench.matching.names import canonical
from workbench.matching.shapes import Shape
from workbench.matching.simplify import TUPLE, Node, Simplified

_BYTES = 4
_MOST_WORK = 10**30
_FLOP_PER_BYTE = 8
"""What a processor computes while it moves a byte; only orders the functions of one network."""


@dataclass(frozen=True)
class Structure:
    """One distinct fused function with its calls.

    Attributes:
        identifier: Readable and stable: operators and a digest.
        operators: Canonical names, in order.
        optional: Places among them that constant folding may have taken away.
        shape: Of its output; None where it is not known.
        input_shapes: Of what it reads, weights included.
        flop: Arithmetic operations of one call; None where shapes are not known.
        work: What a call costs, in operations: arithmetic or memory, whichever takes longer.
        calls: The origins of each call, as places in the source graph, in execution order.
        order: Place of each call among all calls.
        depthwise: True if it has a convolution of each channel alone.
        hashes: Hashes that old TVM gave it; empty in a source program.
    """

    identifier: str
    operators: tuple[str, ...]
    optional: frozenset[int]
    shape: Shape | None
    input_shapes: tuple[Shape | None, ...]
    flop: int | None
    work: float
    calls: tuple[tuple[int, ...], ...]
    order: tuple[int, ...]
    depthwise: bool = False
    hashes: frozenset[str] = frozenset()

    @property
    def first(self) -> int:
        """Place of its first call among all calls."""
        return self.order[0]


def structures(program: Simplified, calls: Sequence[FusedCall]) -> tuple[Structure, ...]:
    """The distinct functions in the order of their first calls."""
    found: dict[str, list[tuple[int, FusedCall]]] = {}
    for place, call in enumerate(calls):
        found.setdefault(_key(program, call), []).append((place, call))
    return tuple(_structure(program, key, members) for key, members in found.items())


def _key(program: Simplified, call: FusedCall) -> str:
    """What makes two calls one function: operators, attributes, shapes, and how they are tied."""
    inner = {place: number for number, place in enumerate(call.nodes)}
    parts = []
    for place in call.nodes:
        node = program.nodes[place]
        attributes = sorted((name, str(value)) for name, value in node.attributes.items())
        sources = [inner.get(source) if source is not None else None for source in node.inputs]
        parts.append((node.name, attributes, node.shape, node.input_shapes, sources, node.items))
    return repr(parts)


def _structure(program: Simplified, key: str, members: Sequence[tuple[int, FusedCall]]) -> Structure:
    first = members[0][1]
    nodes = [program.nodes[place] for place in first.nodes if program.nodes[place].name != TUPLE]
    inner = set(first.nodes)
    outside = [
        shape
        for place in first.nodes
        for source, shape in zip(program.nodes[place].inputs, program.nodes[place].input_shapes, strict=False)
        if source not in inner and program.nodes[place].name != TUPLE
    ]
    names = tuple(canonical(node.name) for node in nodes)
    flops = [_flop(node) for node in nodes]
    flop = None if any(item is None for item in flops) else sum(item or 0 for item in flops)
    moved = sum(math.prod(shape) for shape in (*outside, nodes[-1].shape) if shape is not None) * _BYTES
    digest = hashlib.sha256(key.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return Structure(
        identifier=f"{'_'.join(names)[:40]}-{digest}",
        operators=names,
        optional=frozenset(place for place, node in enumerate(nodes) if node.optional),
        shape=nodes[-1].shape,
        input_shapes=tuple(outside),
        flop=flop,
        work=float(min(max(flop or 0, moved * _FLOP_PER_BYTE, 1), _MOST_WORK)),
        calls=tuple(_origins(program, call) for _, call in members),
        order=tuple(place for place, _ in members),
        depthwise=any(_is_depthwise(node) for node in nodes),
    )


def _is_depthwise(node: Node) -> bool:
    groups = node.attributes.get("groups")
    return canonical(node.name) == "conv2d" and isinstance(groups, int) and groups > 1 and groups == node.attributes.get("channels", groups)


def _origins(program: Simplified, call: FusedCall) -> tuple[int, ...]:
    return tuple(dict.fromkeys(origin for place in call.nodes for origin in program.nodes[place].origins))


def _flop(node: Node) -> int | None:
    """Operations of one operator: two for each multiplication with its sum, one for each element of anything else."""
    try:
        return _known_flop(node)
    except (IndexError, KeyError, TypeError, ValueError):
        return None  # a text that contradicts itself tells no work


def _known_flop(node: Node) -> int | None:
    if node.shape is None:
        return None
    size = math.prod(node.shape)
    weight = node.input_shapes[1] if len(node.input_shapes) > 1 else None
    name = canonical(node.name)
    if name.startswith("conv") and weight is not None and len(weight) >= 3:
        layout = str(node.attributes.get("kernel_layout", "OIHW"))
        outputs = weight[layout.index("O")] if "O" in layout and len(layout) == len(weight) else weight[0]
        return 2 * size * math.prod(weight) // max(outputs, 1)
    if name == "dense" and node.input_shapes[0]:
        return 2 * size * node.input_shapes[0][-1]
    if name == "batch_matmul" and node.input_shapes[0]:
        return 2 * size * node.input_shapes[0][1 if node.attributes.get("transpose_a") else 2]
    if "pool" in name and node.input_shapes[0]:
        window = node.attributes.get("pool_size")
        return size * math.prod(window) if isinstance(window, tuple) else math.prod(node.input_shapes[0])
    return size
