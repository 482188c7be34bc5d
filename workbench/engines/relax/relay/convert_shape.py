"""Converters of Relay operators that only change the shape or the order of axes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod

import numpy as np
from tvm.relax import op as R

from workbench.engines.relax.relay.operation import Converter, Operation, Value, shape_of


def new_shape(old: Sequence[int], codes: Sequence[int], *, allow_zero: bool = False) -> list[int]:
    """The shape that Relay's codes mean: 0 copies a dimension, -1 is the rest, -2 copies all that remain, -3 merges two, -4 splits one.

    Raises:
        ValueError: The codes do not fit the old shape.
    """
    result: list[int] = []
    unknown: int | None = None
    source = position = 0
    while position < len(codes):
        code, span, used = codes[position], 1, 1
        if code == -1 and unknown is not None:
            raise ValueError("more than one -1")
        if code == -1:
            unknown, dims = len(result), [1]
        elif code == -2:
            dims = list(old[source:])
            used = len(dims)
        elif code == -3:
            dims, used = [_at(old, source) * _at(old, source + 1)], 2
        elif code == -4:
            dims, span = _split(_at(old, source), list(codes[position + 1 : position + 3])), 3
        elif code < 0:
            raise ValueError(f"the code {code} has no meaning")
        else:
            dims = [_at(old, source) if code == 0 and not allow_zero else code]
        result += dims
        source, position = source + used, position + span
    if unknown is not None:
        known = prod(result)
        if known == 0 or prod(old) % known:
            raise ValueError("-1 stands for no whole number")
        result[unknown] = prod(old) // known
    if prod(result) != prod(old):
        raise ValueError("the number of elements changes")
    return result


def _at(shape: Sequence[int], index: int) -> int:
    if index >= len(shape):
        raise ValueError("the old shape has too few dimensions")
    return shape[index]


def _split(dim: int, parts: list[int]) -> list[int]:
    if len(parts) != 2 or parts.count(-1) > 1 or min(parts) < -1 or 0 in parts:
        raise ValueError("-4 needs two sizes after it, one of which may be -1")
    if -1 in parts:
        parts[parts.index(-1)] = dim // -prod(parts)
    if prod(parts) != dim:
        raise ValueError(f"{dim} cannot be split into {parts}")
    return parts


def _reshape(operation: Operation) -> Value:
    data = operation.tensor(0)
    codes = operation.integers("newshape")
    try:
        return operation.reshaped(data, new_shape(shape_of(data), codes, allow_zero=operation.flag("allowzero")))
    except ValueError as error:
        return operation.fail(f"of {shape_of(data)} to {codes} is impossible: {error}")


def _reverse_reshape(operation: Operation) -> Value:
    """The codes are read from right to left."""
    data = operation.tensor(0)
    codes = operation.integers("newshape")
    if -4 in codes:
        operation.fail("with the code -4 is not supported")
    try:
        return operation.reshaped(data, new_shape(shape_of(data)[::-1], codes[::-1])[::-1])
    except ValueError as error:
        return operation.fail(f"of {shape_of(data)} to {codes} is impossible: {error}")


def _reshape_like(operation: Operation) -> Value:
    if any(operation.attributes.get(name) not in (None, 0) for name in ("lhs_begin", "lhs_end", "rhs_begin", "rhs_end")):
        operation.fail("of a part of the dimensions is not supported")
    data, like = operation.tensor(0), shape_of(operation.tensor(1))
    if prod(shape_of(data)) != prod(like):
        operation.fail(f"of {shape_of(data)} to {like} is impossible")
    return operation.reshaped(data, like)


def _transpose(operation: Operation) -> Value:
    data = operation.tensor(0)
    rank = len(shape_of(data))
    axes = operation.integers("axes", range(rank - 1, -1, -1)) or list(range(rank - 1, -1, -1))
    positive = [axis + rank if axis < 0 else axis for axis in axes]
    if sorted(positive) != list(range(rank)):
        operation.fail(f"has axes {axes} on a tensor of rank {rank}")
    return operation.transposed(data, positive)


def _squeeze(operation: Operation) -> Value:
    data = operation.tensor(0)
    shape = shape_of(data)
    axes = operation.optional_integers("axis")
    chosen = [index for index, dim in enumerate(shape) if dim == 1] if axes is None else [axis % max(len(shape), 1) for axis in axes]
    if any(axis >= len(shape) or shape[axis] != 1 for axis in chosen):
        operation.fail(f"removes axes {axes} of {shape}, and not all have one element")
    return operation.reshaped(data, [dim for index, dim in enumerate(shape) if index not in chosen])


def _expand_dims(operation: Operation) -> Value:
    data = operation.tensor(0)
    shape, axis, count = shape_of(data), operation.integer("axis"), operation.integer("num_newaxis", 1)
    rank = len(shape)
    if not -rank - 1 <= axis <= rank or not 0 <= count <= 16:
        operation.fail(f"has axis={axis}, num_newaxis={count} on a tensor of rank {rank}")
    start = axis if axis >= 0 else axis + rank + 1
    return operation.reshaped(data, [*shape[:start], *([1] * count), *shape[start:]])


def _batch_flatten(operation: Operation) -> Value:
    data = operation.tensor(0)
    return operation.reshaped(data, [shape_of(data)[0], prod(shape_of(data)[1:])])


def _broadcast_to(operation: Operation) -> Value:
    return _broadcast(operation, operation.integers("shape"))


def _broadcast_to_like(operation: Operation) -> Value:
    return _broadcast(operation, shape_of(operation.tensor(1)))


def _broadcast(operation: Operation, shape: Sequence[int]) -> Value:
    data = operation.tensor(0)
    return data if shape_of(data) == tuple(shape) else R.broadcast_to(data, tuple(shape))


def _layout_transform(operation: Operation) -> Value:
    """A blocked layout becomes a note on the plain tensor: nothing is moved until an operator needs the blocked form."""
    value = operation.arg(0)
    source = operation.layout(operation.text("src_layout", ""), value)
    return operation.in_layout(operation.plain(value, source), source.plain, operation.text("dst_layout", ""))


def _size(operation: Operation) -> Value:
    return operation.constant(np.array(prod(operation.shape(operation.arg(0))), operation.dtype("dtype") or "int32"))


def _shape_of(operation: Operation) -> Value:
    return operation.constant(np.array(operation.shape(operation.arg(0)), operation.dtype("dtype") or "int32"))


CONVERTERS: Mapping[str, Converter] = {
    "broadcast_to": _broadcast_to,
    "broadcast_to_like": _broadcast_to_like,
    "contrib_reverse_reshape": _reverse_reshape,
    "expand_dims": _expand_dims,
    "layout_transform": _layout_transform,
    "ndarray_size": _size,
    "nn.batch_flatten": _batch_flatten,
    "reshape": _reshape,
    "reshape_like": _reshape_like,
    "shape_of": _shape_of,
    "squeeze": _squeeze,
    "transpose": _transpose,
}
