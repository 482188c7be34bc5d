"""Graphs made of plain records, for the graph's widget without TVM: the same in unit tests, in a notebook's kernel, and in benchmarks."""

from __future__ import annotations

import random

from tests.notebook_samples import HOSTILE, profile_of
from workbench.records.graph import INPUT, KERNEL, OPERATOR, OUTPUT, KernelNode, ModelGraph, SourceNode
from workbench.records.origin import Origin
from workbench.records.profile import Profile, TensorShape

TENSOR = TensorShape((1, 64, 56, 56), "float32")
OPS = ("Conv", "BatchNormalization", "Relu", "MatMul", "Add", "Softmax", "Concat", "Transpose")


def network(rows: int = 12, *, hostile: bool = False) -> tuple[ModelGraph, Profile]:
    """A chain of convolutions with a skip over each third, each with its activation fused; a dropout and a constant."""
    tail = HOSTILE if hostile else ""
    profile = profile_of(rows, hostile=hostile)
    source = [SourceNode(INPUT, Origin("", f"x{tail}"), outputs=(TENSOR,)), SourceNode(OPERATOR, Origin("Constant", "/k"), outputs=(TENSOR,))]
    kernels = [KernelNode(INPUT, f"x{tail}", outputs=(TENSOR,))]
    last, skipped = 0, 0
    for row in profile.kernel_rows:
        reads = (last, skipped, 1) if row.row % 3 == 2 else (last,)
        attributes = {"kernel_shape": "[3, 3]", f"note{tail}": tail or "none"}
        source.append(SourceNode(OPERATOR, row.origins[0], reads, (TENSOR,), (TENSOR,), attributes, (row.row,)))
        source.append(SourceNode(OPERATOR, row.origins[1], (len(source) - 1,), (TENSOR,), rows=(row.row,)))
        kernels.append(KernelNode(KERNEL, str(row.kernel), (row.row, max(0, row.row - 2)), (TENSOR,), (TENSOR,), row.row))
        last = len(source) - 1
        if row.row % 3 == 2:
            skipped = last
        if row.row == 1:
            source.append(SourceNode(OPERATOR, Origin("Dropout", "/drop"), (last,), (TENSOR,)))
            last = len(source) - 1
    source.append(SourceNode(OUTPUT, Origin("", f"y{tail}"), (last,), (TENSOR,)))
    kernels.append(KernelNode(OUTPUT, f"y{tail}", (rows,), (TENSOR,)))
    return ModelGraph(tuple(source), tuple(kernels)), profile


def tangle(operators: int, *, seed: int = 0) -> tuple[ModelGraph, Profile]:
    """A graph that repeats nothing: each operator reads one or two of the ten before it, two operators a row."""
    draw = random.Random(seed)
    rows = operators // 2
    profile = profile_of(rows, kernels=40)
    source = [SourceNode(INPUT, Origin("", "x"), outputs=(TENSOR,))]
    for number in range(1, operators + 1):
        before = number - 1 if number % 2 == 0 else max(0, number - draw.randint(1, 10))
        other = max(0, number - draw.randint(1, 40)) if draw.random() < 0.2 else before
        row = ((number - 1) // 2,) if number <= 2 * rows else ()
        name = f"/layer{number // 60}/block.{number // 10}/node_{number}"
        source.append(SourceNode(OPERATOR, Origin(draw.choice(OPS), name), (before, other), (TENSOR,), attributes={"n": str(number)}, rows=row))
    source.append(SourceNode(OUTPUT, Origin("", "y"), (operators,), (TENSOR,)))
    kernels = [KernelNode(INPUT, "x", outputs=(TENSOR,))]
    for row in profile.kernel_rows:
        reads = (max(0, row.row + 1 - draw.randint(1, 4)), max(0, row.row + 1 - draw.randint(1, 12)))
        kernels.append(KernelNode(KERNEL, str(row.kernel), reads, (TENSOR,), (TENSOR,), row.row))
    kernels.append(KernelNode(OUTPUT, "y", (rows,)))
    return ModelGraph(tuple(source), tuple(kernels)), profile


def transformer(layers: int, *, heads: int = 4) -> tuple[ModelGraph, Profile]:
    """Equal layers with heads, of which every operator is a row, and a mask that every layer reads."""
    source = [SourceNode(INPUT, Origin("", "ids"), outputs=(TENSOR,)), SourceNode(INPUT, Origin("", "mask"), outputs=(TENSOR,))]
    rows = 0

    def add(op: str, *reads: int, layer: int) -> int:
        nonlocal rows
        name = f"/encoder/layer.{layer}/{op}_{len(source)}"
        source.append(SourceNode(OPERATOR, Origin(op, name), reads, (TENSOR,), rows=(rows,)))
        rows += 1
        return len(source) - 1

    x = add("Gather", 0, layer=0)
    for layer in range(layers):
        norm = add("LayerNormalization", x, layer=layer)
        parts = []
        for _ in range(heads):
            scores = add("MatMul", add("MatMul", norm, layer=layer), add("MatMul", norm, layer=layer), layer=layer)
            weights = add("Softmax", add("Add", scores, 1, layer=layer), layer=layer)
            parts.append(add("MatMul", weights, add("MatMul", norm, layer=layer), layer=layer))
        attended = add("Add", add("MatMul", add("Concat", *parts, layer=layer), layer=layer), x, layer=layer)
        inner = add("Gelu", add("MatMul", add("LayerNormalization", attended, layer=layer), layer=layer), layer=layer)
        x = add("Add", add("MatMul", inner, layer=layer), attended, layer=layer)
    source.append(SourceNode(OUTPUT, Origin("", "y"), (x,), (TENSOR,)))
    profile = profile_of(rows, kernels=(rows - 1) // layers)
    kernels = [
        KernelNode(INPUT if node.kind == INPUT else OUTPUT, node.origin.name, node.reads, node.outputs)
        if node.kind != OPERATOR
        else KernelNode(KERNEL, str(profile.rows[node.rows[0]].kernel), node.reads, node.outputs, row=node.rows[0])
        for node in source
    ]
    return ModelGraph(tuple(source), tuple(kernels)), profile
