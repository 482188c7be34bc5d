"""Converters of Relay's reductions and scans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod
from typing import Any

from tvm import relax
from tvm.relax import op as R

from workbench.engines.relax.relay.convert_elementwise import cast
from workbench.engines.relax.relay.operation import Converter, Operation, Value, dtype_of, shape_of


def _axes(operation: Operation, rank: int) -> list[int]:
    """The axes that are reduced: ``axis``, all if it is None, all others with ``exclude``."""
    given = operation.optional_integers("axis")
    if given is None:
        return list(range(rank))
    if any(not -rank <= axis < rank for axis in given):
        operation.fail(f"has axis {given} on a tensor of rank {rank}")
    chosen = sorted({axis % rank for axis in given})
    return [axis for axis in range(rank) if axis not in chosen] if operation.flag("exclude") else chosen


def _reduce(function: Callable[..., relax.Expr]) -> Converter:
    def convert(operation: Operation) -> Value:
        data = operation.tensor(0)
        axes = _axes(operation, len(shape_of(data)))
        if not axes:
            return data
        return function(data, axis=axes, keepdims=operation.flag("keepdims"))

    return convert


def _logical(function: Callable[..., relax.Expr]) -> Converter:
    """``any`` and ``all`` as a maximum and a minimum of bytes."""

    def convert(operation: Operation) -> Value:
        data = R.astype(operation.tensor(0), "int8")
        axes = _axes(operation, len(shape_of(operation.tensor(0))))
        return R.astype(function(data, axis=axes, keepdims=operation.flag("keepdims")), "bool")

    return convert


def _variance(operation: Operation) -> Value:
    """The mean is an operand, with the reduced axes kept."""
    data = operation.tensor(0)
    shape = shape_of(data)
    axes = _axes(operation, len(shape))
    mean = operation.tensor(1) if len(operation.args) > 1 else R.mean(data, axis=axes, keepdims=True)
    difference = operation.emit(R.subtract(data, mean))
    count = prod(shape[axis] for axis in axes) - int(operation.flag("unbiased"))
    if count < 1:
        operation.fail(f"of one element of {shape} cannot be unbiased")
    total = R.sum(R.multiply(difference, difference), axis=axes, keepdims=operation.flag("keepdims"))
    return R.divide(total, operation.scalar(count, data))


def _arg_reduce(function: Callable[..., relax.Expr]) -> Converter:
    """Relay's indices are int32. Several axes are brought to the end and merged into one, because Relax takes one axis or all."""

    def convert(operation: Operation) -> Value:
        data = operation.tensor(0)
        shape = shape_of(data)
        axes = _axes(operation, len(shape))
        if operation.flag("select_last_index"):
            operation.fail("with select_last_index is not supported")
        if not axes:
            operation.fail("over no axis is not supported")
        if len(axes) == 1:
            return cast(operation.emit(function(data, axis=axes[0], keepdims=operation.flag("keepdims"))), "int32")
        kept = [axis for axis in range(len(shape)) if axis not in axes]
        merged = operation.reshaped(operation.transposed(data, [*kept, *axes]), [*(shape[axis] for axis in kept), prod(shape[axis] for axis in axes)])
        result = operation.emit(R.astype(operation.emit(function(merged, axis=len(kept), keepdims=False)), "int32"))
        if not operation.flag("keepdims"):
            return result
        return operation.reshaped(result, [1 if axis in axes else dim for axis, dim in enumerate(shape)])

    return convert


def _scan(function: Callable[..., relax.Expr]) -> Converter:
    def convert(operation: Operation) -> Value:
        data = operation.tensor(0)
        options: dict[str, Any] = {"dtype": operation.dtype("dtype") or dtype_of(data), "exclusive": operation.flag("exclusive")}
        if operation.attributes.get("axis") is None:
            return function(operation.reshaped(data, [prod(shape_of(data))]), axis=0, **options)
        return function(data, axis=operation.axis("axis", 0, len(shape_of(data))), **options)

    return convert


CONVERTERS: Mapping[str, Converter] = {
    "all": _logical(R.min),
    "any": _logical(R.max),
    "argmax": _arg_reduce(R.argmax),
    "argmin": _arg_reduce(R.argmin),
    "cumprod": _scan(R.cumprod),
    "cumsum": _scan(R.cumsum),
    "max": _reduce(R.max),
    "mean": _reduce(R.mean),
    "min": _reduce(R.min),
    "prod": _reduce(R.prod),
    "sum": _reduce(R.sum),
    "variance": _variance,
}
