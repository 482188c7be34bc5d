"""Converters of Relay operators that join, cut, repeat or pick parts of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

from tvm.relax import op as R

from workbench.engines.relax.relay.operation import Blocked, Converter, Operation, Value, array_of, dtype_of, shape_of


def _concatenate(operation: Operation) -> Value:
    fields = operation.arg(0)
    if not isinstance(fields, tuple) or not fields:
        operation.fail("needs a tuple of tensors")
    rank = len(operation.shape(fields[0]))
    axis = operation.axis("axis", 0, rank)
    first = fields[0]
    if isinstance(first, Blocked) and first.layout.axes[axis][0].isupper():
        same = [field.plain for field in fields if isinstance(field, Blocked) and field.layout == first.layout]
        if len(same) == len(fields):
            joined = R.concat(same, axis=first.layout.plain.index(first.layout.axes[axis][0]))
            return Blocked(operation.emit(joined), first.layout)
    return R.concat(operation.tensors(0), axis=axis)


def _split(operation: Operation) -> Value:
    data = operation.tensor(0)
    shape = shape_of(data)
    axis = operation.axis("axis", 0, len(shape))
    where = operation.attributes.get("indices_or_sections")
    if isinstance(where, int):
        if where < 1 or shape[axis] % where:
            operation.fail(f"cannot cut axis {axis} of {shape} into {where} equal parts")
        bounds = [shape[axis] // where * part for part in range(1, where)]
    else:
        bounds = operation.integers("indices_or_sections")
    if not bounds:
        return (data,)
    if bounds != sorted(bounds) or bounds[0] < 0 or bounds[-1] > shape[axis]:
        operation.fail(f"cuts axis {axis} of {shape} at {bounds}")
    parts = operation.emit(R.split(data, bounds, axis=axis))
    return tuple(operation.emit(parts[index]) for index in range(len(bounds) + 1))


def _stack(operation: Operation) -> Value:
    tensors = operation.tensors(0)
    if not tensors:
        operation.fail("needs a tuple of tensors")
    return R.stack(tensors, axis=operation.axis("axis", 0, len(shape_of(tensors[0])) + 1))


def _bounds(begin: int, end: int, stride: int, dim: int) -> tuple[int, int]:
    """Python's slice rules; an end before the first element is -1 - dim, which stays outside when it is counted from the back."""
    start, stop, _ = slice(begin, end, stride).indices(dim)
    return start, stop if stop >= 0 else -dim - 1


def _strided_slice(operation: Operation) -> Value:
    data = operation.tensor(0)
    shape = shape_of(data)
    begin, end = operation.integers("begin"), operation.integers("end")
    axes = operation.integers("axes", range(len(begin)))
    strides = operation.integers("strides", [1])
    if operation.text("slice_mode", "end") == "size":
        strides = [1] * len(begin)
        end = [shape[axis] if size == -1 else first + size for first, size, axis in zip(begin, end, axes, strict=False)]
    strides = strides + [1] * (len(begin) - len(strides))
    end = end + [shape[axis] for axis in axes[len(end) :] if axis < len(shape)]
    axes = [axis % max(len(shape), 1) for axis in axes]
    if not len(begin) == len(end) == len(axes) == len(strides) or len(axes) > len(shape) or 0 in strides:
        operation.fail(f"has begin {begin}, end {end}, strides {strides}, axes {axes} on {shape}")
    bounds = [_bounds(first, last, step, shape[axis]) for first, last, step, axis in zip(begin, end, strides, axes, strict=True)]
    return R.strided_slice(data, axes, [first for first, _ in bounds], [last for _, last in bounds], strides)


def _slice_like(operation: Operation) -> Value:
    data, like = operation.tensor(0), shape_of(operation.tensor(1))
    shape = shape_of(data)
    axes = operation.integers("axes", []) or list(range(min(len(shape), len(like))))
    axes = [axis % len(shape) for axis in axes]
    if any(axis >= len(like) or like[axis] > shape[axis] for axis in axes):
        operation.fail(f"cannot cut {shape} to {like}")
    return R.strided_slice(data, axes, [0] * len(axes), [like[axis] for axis in axes])


def _take(operation: Operation) -> Value:
    data, indices = operation.tensor(0), operation.tensor(1)
    mode = operation.text("mode", "clip")
    if mode not in ("clip", "wrap", "fast"):
        operation.fail(f"has mode={mode!r}, which is not supported")
    if operation.integer("batch_dims", 0):
        operation.fail("with batch_dims is not supported")
    if operation.attributes.get("axis") is None:
        data, axis = operation.reshaped(data, [prod(shape_of(data))]), 0
    else:
        axis = operation.axis("axis", 0, len(shape_of(data)))
    return R.take(data, indices, axis=axis, mode=mode)


def _gather(operation: Operation) -> Value:
    data = operation.tensor(0)
    return R.gather_elements(data, operation.tensor(1), axis=operation.axis("axis", 0, len(shape_of(data))))


def _gather_nd(operation: Operation) -> Value:
    """Relay keeps the coordinates in the first axis of the indices, Relax in the last."""
    indices = operation.tensor(1)
    if dtype_of(indices) != "int64":
        indices = operation.emit(R.astype(indices, "int64"))
    rank = len(shape_of(indices))
    moved = operation.transposed(indices, [*range(1, rank), 0])
    return R.gather_nd(operation.tensor(0), moved, batch_dims=operation.integer("batch_dims", 0))


def _tile(operation: Operation) -> Value:
    return R.tile(operation.tensor(0), operation.integers("reps"))


def _repeat(operation: Operation) -> Value:
    data = operation.tensor(0)
    axis = None if operation.attributes.get("axis") is None else operation.axis("axis", 0, len(shape_of(data)))
    return R.repeat(data, operation.integer("repeats"), axis=axis)


def _reverse(operation: Operation) -> Value:
    data = operation.tensor(0)
    return R.flip(data, operation.axis("axis", 0, len(shape_of(data))))


def _topk(operation: Operation) -> Value:
    data = operation.tensor(0)
    kind = operation.text("ret_type", "both")
    axis = operation.axis("axis", -1, len(shape_of(data)))
    if kind not in ("both", "values", "indices"):
        operation.fail(f"has ret_type={kind!r}")
    largest, dtype = not operation.flag("is_ascend"), operation.dtype("dtype") or "int32"
    result = operation.emit(R.topk(data, operation.integer("k", 1), axis, kind, largest=largest, dtype=dtype))
    return (operation.emit(result[0]), operation.emit(result[1])) if kind == "both" else result


def _argsort(operation: Operation) -> Value:
    data = operation.tensor(0)
    axis = operation.axis("axis", -1, len(shape_of(data)))
    dtype = operation.dtype("dtype") or "int32"
    return R.argsort(data, axis=axis, descending=not operation.flag("is_ascend", default=True), dtype=dtype)


def _sort(operation: Operation) -> Value:
    data = operation.tensor(0)
    axis = operation.axis("axis", -1, len(shape_of(data)))
    return R.sort(data, axis=axis, descending=not operation.flag("is_ascend", default=True))


def _adv_index(operation: Operation) -> Value:
    """The first tensor is indexed by the others."""
    tensors = operation.tensors(0)
    if len(tensors) < 2:
        operation.fail("needs a tensor and indices")
    return R.index_tensor(tensors[0], tensors[1:])


def _scatter_elements(operation: Operation) -> Value:
    data = operation.tensor(0)
    axis = operation.axis("axis", 0, len(shape_of(data)))
    return R.scatter_elements(data, operation.tensor(1), operation.tensor(2), axis, operation.text("reduction", "update"))


def _trilu(operation: Operation) -> Value:
    data, offset = operation.tensor(0), array_of(operation.tensor(1)) if len(operation.args) > 1 else None
    if len(operation.args) > 1 and (offset is None or offset.size != 1):
        operation.fail("needs a constant diagonal")
    diagonal = 0 if offset is None else int(offset.reshape(()))
    return R.triu(data, diagonal) if operation.flag("upper", default=True) else R.tril(data, diagonal)


CONVERTERS: Mapping[str, Converter] = {
    "adv_index": _adv_index,
    "argsort": _argsort,
    "concatenate": _concatenate,
    "gather": _gather,
    "gather_nd": _gather_nd,
    "repeat": _repeat,
    "reverse": _reverse,
    "scatter": _scatter_elements,
    "scatter_elements": _scatter_elements,
    "slice_like": _slice_like,
    "sort": _sort,
    "split": _split,
    "stack": _stack,
    "strided_slice": _strided_slice,
    "take": _take,
    "tile": _tile,
    "topk": _topk,
    "trilu": _trilu,
}
