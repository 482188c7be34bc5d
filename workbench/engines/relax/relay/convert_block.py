"""Converters of Relay operators that move blocks of space into channels or into the batch, and back."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tvm.relax import op as R

from workbench.engines.relax.relay.operation import Converter, Operation, Value, shape_of


def _blocks(operation: Operation) -> tuple[str, int, str]:
    layout, size = operation.text("layout", "NCHW"), operation.integer("block_size")
    if layout not in ("NCHW", "NHWC") or size < 1:
        operation.fail(f"has layout {layout!r} and block_size {size}, which is not supported")
    return layout, size, operation.text("mode", "DCR")


def _depth_to_space(operation: Operation) -> Value:
    layout, size, mode = _blocks(operation)
    data = operation.reordered(operation.tensor(0), layout, "NCHW")
    batch, channels, height, width = shape_of(data)
    inner = channels // (size * size)
    if inner * size * size != channels or mode not in ("DCR", "CRD"):
        operation.fail(f"with mode {mode!r} cannot split {channels} channels into blocks of {size}")
    split = [batch, size, size, inner, height, width] if mode == "DCR" else [batch, inner, size, size, height, width]
    order = [0, 3, 4, 1, 5, 2] if mode == "DCR" else [0, 1, 4, 2, 5, 3]
    spread = operation.transposed(operation.reshaped(data, split), order)
    return operation.reordered(operation.reshaped(spread, [batch, inner, height * size, width * size]), "NCHW", layout)


def _space_to_depth(operation: Operation) -> Value:
    layout, size, _ = _blocks(operation)
    data = operation.reordered(operation.tensor(0), layout, "NCHW")
    batch, channels, height, width = shape_of(data)
    if height % size or width % size:
        operation.fail(f"cannot cut {height}x{width} into blocks of {size}")
    split = operation.reshaped(data, [batch, channels, height // size, size, width // size, size])
    moved = operation.transposed(split, [0, 3, 5, 1, 2, 4])
    return operation.reordered(operation.reshaped(moved, [batch, channels * size * size, height // size, width // size]), "NCHW", layout)


def _space_to_batch(operation: Operation) -> Value:
    data = operation.tensor(0)
    block = operation.integers("block_shape")
    count = len(block)
    width = [number for pair in [(0, 0), *operation.pairs("paddings", count)] for number in pair]
    rest = len(shape_of(data)) - 1 - count
    if rest < 0 or min(block, default=1) < 1:
        operation.fail(f"has block_shape {block} on a tensor of shape {shape_of(data)}")
    if any(width):
        data = operation.emit(R.nn.pad(data, width + [0, 0] * rest, "constant", operation.number("pad_value", 0.0)))
    batch, *dims = shape_of(data)
    if any(dim % size for dim, size in zip(dims, block, strict=False)):
        operation.fail(f"cannot cut {dims[:count]} into blocks of {block}")
    outer = [dim // size for dim, size in zip(dims, block, strict=False)]
    split = [batch, *(number for pair in zip(outer, block, strict=True) for number in pair), *dims[count:]]
    order = [*range(2, 2 * count + 1, 2), 0, *range(1, 2 * count, 2), *range(2 * count + 1, len(split))]
    return operation.reshaped(operation.transposed(operation.reshaped(data, split), order), [batch * prod(block), *outer, *dims[count:]])


def _batch_to_space(operation: Operation) -> Value:
    data = operation.tensor(0)
    block = operation.integers("block_shape")
    count = len(block)
    crops = operation.pairs("crops", count)
    batch, *dims = shape_of(data)
    if count > len(dims) or min(block, default=1) < 1 or batch % prod(block):
        operation.fail(f"has block_shape {block} on a tensor of shape {shape_of(data)}")
    split = [*block, batch // prod(block), *dims]
    order = [count, *(axis for index in range(count) for axis in (count + 1 + index, index)), *range(2 * count + 1, len(split))]
    full = [size * dim for size, dim in zip(block, dims, strict=False)]
    merged = operation.reshaped(operation.transposed(operation.reshaped(data, split), order), [batch // prod(block), *full, *dims[count:]])
    if not any(number for pair in crops for number in pair):
        return merged
    ends = [dim - after for dim, (_, after) in zip(full, crops, strict=True)]
    return R.strided_slice(merged, list(range(1, count + 1)), [before for before, _ in crops], ends)


CONVERTERS: Mapping[str, Converter] = {
    "nn.batch_to_space_nd": _batch_to_space,
    "nn.depth_to_space": _depth_to_space,
    "nn.space_to_batch_nd": _space_to_batch,
    "nn.space_to_depth": _space_to_depth,
}
