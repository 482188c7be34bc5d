"""Converters of Relay operators that make tensors out of a shape, a value or a range."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod

import numpy as np
from tvm.relax import op as R

from workbench.engines.relax.relay.memory import check_size
from workbench.engines.relax.relay.operation import Converter, Operation, Value, array_of, dtype_of, shape_of


def _filled(value: int) -> Converter:
    def convert(operation: Operation) -> Value:
        shape, dtype = operation.integers("shape"), operation.dtype("dtype") or "float32"
        _check(operation, shape, dtype)
        return operation.emit(R.full(tuple(shape), operation.constant(np.array(value, dtype)), dtype))

    return convert


def _filled_like(value: int) -> Converter:
    def convert(operation: Operation) -> Value:
        like = operation.tensor(0)
        return R.full(shape_of(like), operation.constant(np.array(value, dtype_of(like))), dtype_of(like))

    return convert


def _check(operation: Operation, shape: list[int], dtype: str) -> None:
    check_size(shape, dtype, f"line {operation.line}, column {operation.column}: {operation.operator}")


def _full(operation: Operation) -> Value:
    value = operation.tensor(0)
    shape, dtype = operation.integers("shape"), operation.dtype("dtype") or dtype_of(value)
    _check(operation, shape, dtype)
    return R.full(tuple(shape), operation.reshaped(value, ()), dtype)


def _full_like(operation: Operation) -> Value:
    like = operation.tensor(0)
    return R.full(shape_of(like), operation.reshaped(operation.tensor(1), ()), dtype_of(like))


def _arange(operation: Operation) -> Value:
    numbers = [array_of(operation.tensor(index)) for index in range(3)]
    known = [array.reshape(-1)[0] for array in numbers if array is not None and array.size == 1]
    if len(known) < len(numbers):
        operation.fail("needs start, stop and step that are constants")
    start, stop, step = known
    dtype = operation.dtype("dtype") or str(start.dtype)
    if not all(np.isfinite(float(number)) for number in known) or float(step) == 0:
        operation.fail(f"has start {start}, stop {stop} and step {step}")
    _check(operation, [max(0, int((float(stop) - float(start)) / float(step)))], dtype)
    return operation.constant(np.arange(start, stop, step).astype(dtype))


def _one_hot(operation: Operation) -> Value:
    indices, on_value, off_value = (operation.tensor(index) for index in range(3))
    depth, axis = operation.integer("depth", 1), operation.integer("axis", -1)
    rank = len(shape_of(indices))
    dtype = operation.dtype("dtype") or dtype_of(on_value)
    if depth < 1 or not -1 <= axis <= rank or prod(shape_of(on_value)) != 1 or prod(shape_of(off_value)) != 1:
        operation.fail(f"has depth={depth}, axis={axis} on a tensor of rank {rank}")
    _check(operation, [*shape_of(indices), depth], dtype)
    place = rank if axis == -1 else axis
    classes = operation.constant(np.arange(depth, dtype=dtype_of(indices)).reshape([depth] + [1] * (rank - place)))
    shape = list(shape_of(indices))
    hit = operation.emit(R.equal(operation.reshaped(indices, [*shape[:place], 1, *shape[place:]]), classes))
    on, off = (R.astype(operation.reshaped(value, ()), dtype) for value in (on_value, off_value))
    return R.where(hit, on, off)


CONVERTERS: Mapping[str, Converter] = {
    "arange": _arange,
    "full": _full,
    "full_like": _full_like,
    "one_hot": _one_hot,
    "ones": _filled(1),
    "ones_like": _filled_like(1),
    "zeros": _filled(0),
    "zeros_like": _filled_like(0),
}
