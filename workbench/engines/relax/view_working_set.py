"""How much data each loop of a scheduled kernel touches: the least that has to stay in a cache for a loop to find all of it there again.

For a loop, all loops outside of it stand still and all inside of it run; what the blocks then read and write is counted by tensor, as the box that
holds it. So a figure may be too large for accesses with gaps, and is never too small.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import tvm
from tvm import sym

from workbench.records.dtype_size import dtype_bits

_PARALLEL = tvm.tirx.ForKind.PARALLEL


@dataclass(frozen=True)
class LoopFootprint:
    """One loop and what it touches.

    Attributes:
        loop: Name of its variable.
        depth: Loops around it.
        extent: Its iterations; None if they depend on something.
        is_parallel: True if threads share it.
        bytes: Bytes that all its iterations touch together; None if they cannot be counted.
        tensors: The same by tensor.
    """

    loop: str
    depth: int
    extent: int | None
    is_parallel: bool
    bytes: int | None
    tensors: Mapping[str, int]


@dataclass
class _Access:
    """A block's reads and writes with the loops around it, outermost first."""

    loops: list[Any]
    realize: Any


@dataclass
class _Walk:
    """What was found on the way through a kernel."""

    loops: list[Any] = field(default_factory=list)
    order: list[tuple[Any, int]] = field(default_factory=list)
    accesses: list[_Access] = field(default_factory=list)

    def visit(self, statement: Any) -> bool:
        """Go through a statement; True if there was a block in it."""
        if isinstance(statement, tvm.tirx.For):
            self.order.append((statement, len(self.loops)))
            self.loops.append(statement)
            found = self.visit(statement.body)
            self.loops.pop()
            return found
        if isinstance(statement, tvm.s_tir.SBlockRealize):
            if not self.visit(statement.block.body):
                self.accesses.append(_Access(list(self.loops), statement))
            return True
        if isinstance(statement, tvm.tirx.SeqStmt):
            return self._visit_all(list(statement))
        if isinstance(statement, tvm.tirx.IfThenElse):
            return self._visit_all([case for case in (statement.then_case, statement.else_case) if case is not None])
        body = getattr(statement, "body", None)
        return self.visit(body) if isinstance(body, tvm.tirx.Stmt) else False

    def _visit_all(self, statements: list[Any]) -> bool:
        found = [self.visit(statement) for statement in statements]
        return True in found


def working_sets(module: tvm.IRModule) -> tuple[LoopFootprint, ...]:
    """The loops of a scheduled kernel in the order of its text, each with what it touches.

    Args:
        module: With the kernel as ``main``, in block form.
    """
    walk = _Walk()
    walk.visit(module["main"].body)
    return tuple(_footprint(loop, depth, walk.accesses) for loop, depth in walk.order)


def _footprint(loop: Any, depth: int, accesses: list[_Access]) -> LoopFootprint:
    boxes: dict[str, list[tuple[int, int]] | None] = {}
    kinds: dict[str, Any] = {}
    for access in accesses:
        if not any(outer.same_as(loop) for outer in access.loops):
            continue
        inside = access.loops.index(next(outer for outer in access.loops if outer.same_as(loop)))
        domain = _iteration_domain(access, inside)
        for region in (*access.realize.block.reads, *access.realize.block.writes):
            name = str(region.source.name)
            kinds[name] = region.source.ty
            box = _box(region, domain)
            known = boxes.get(name, box)
            boxes[name] = None if known is None or box is None else _hull(known, box)
    tensors = {name: size for name, box in boxes.items() if (size := _bytes(box, kinds[name])) is not None}
    total = sum(tensors.values()) if len(tensors) == len(boxes) else None
    extent = int(loop.extent) if isinstance(loop.extent, tvm.tirx.IntImm) else None
    return LoopFootprint(str(loop.loop_var.name), depth, extent, loop.kind == _PARALLEL, total, tensors)


def _iteration_domain(access: _Access, inside: int) -> dict[Any, Any]:
    """The range of each variable of a block while the loops from the given one on run and the others stand still."""
    analyzer = sym.Analyzer()
    loops = {
        outer.loop_var: sym.IntervalSet(outer.min, outer.min + outer.extent - 1) if place >= inside else sym.IntervalSet(outer.min, outer.min)
        for place, outer in enumerate(access.loops)
    }
    values = zip(access.realize.block.iter_vars, access.realize.iter_values, strict=True)
    return {variable.var: analyzer.int_set(value, loops) for variable, value in values} | loops


def _box(region: Any, domain: Mapping[Any, Any]) -> list[tuple[int, int]] | None:
    """First and last index that a region reaches in each dimension; None if they are not constant."""
    analyzer = sym.Analyzer()
    box = []
    for span, size in zip(region.region, region.source.ty.shape, strict=True):
        reach = analyzer.int_set(span.min, domain)
        extent = analyzer.int_set(span.extent, domain)
        low, high = _constant(getattr(reach, "min_value", None)), _constant(getattr(reach, "max_value", None))
        length, limit = _constant(getattr(extent, "max_value", None)), _constant(size)
        if low is None or high is None or length is None or limit is None:
            return None
        box.append((max(low, 0), min(high + length, limit) - 1))
    return box


def _hull(one: list[tuple[int, int]], other: list[tuple[int, int]]) -> list[tuple[int, int]]:
    return [(min(a[0], b[0]), max(a[1], b[1])) for a, b in zip(one, other, strict=True)]


def _bytes(box: list[tuple[int, int]] | None, kind: Any) -> int | None:
    bits = dtype_bits(str(kind.dtype))
    if box is None or bits is None:
        return None
    return -(-math.prod(max(high - low + 1, 0) for low, high in box) * bits // 8)


def _constant(value: Any) -> int | None:
    simple = sym.Analyzer().simplify(value) if isinstance(value, tvm.ir.Expr) else value
    return int(simple) if isinstance(simple, int | tvm.tirx.IntImm) else None
