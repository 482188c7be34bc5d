"""Converters of Relay's matrix products."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax
from tvm.relax import op as R

from workbench.engines.relax.relay.operation import Converter, Operation, Value, shape_of


def _swap_last(operation: Operation, tensor: relax.Expr) -> relax.Expr:
    rank = len(shape_of(tensor))
    if rank < 2:
        operation.fail(f"needs matrices, not a tensor of shape {shape_of(tensor)}")
    return operation.transposed(tensor, [*range(rank - 2), rank - 1, rank - 2])


def _product(operation: Operation, left: relax.Expr, right: relax.Expr) -> Value:
    if shape_of(left)[-1] != shape_of(right)[-2]:
        operation.fail(f"multiplies {shape_of(left)} by {shape_of(right)}")
    units = operation.attributes.get("units")
    if isinstance(units, int) and units != shape_of(right)[-1]:
        operation.fail(f"has units={units} and a weight for {shape_of(right)[-1]}")
    return R.matmul(left, right, out_dtype=operation.dtype("out_dtype"))


def _dense(operation: Operation) -> Value:
    return _product(operation, operation.tensor(0), _swap_last(operation, operation.tensor(1)))


def _dense_pack(operation: Operation) -> Value:
    """The weight is blocked, as ``NC32n``: (units / 32, inputs, 32)."""
    weight = operation.arg(1)
    layout = operation.layout(operation.text("weight_layout", "NC"), weight)
    plain = operation.reordered(operation.plain(weight, layout), layout.plain, "NC")
    return _product(operation, operation.tensor(0), _swap_last(operation, plain))


def _matmul(operation: Operation) -> Value:
    """``nn.matmul`` and ``nn.batch_matmul``: printed text names a transposition wherever there is one (the C++ default is none)."""
    left, right = operation.tensor(0), operation.tensor(1)
    if operation.flag("transpose_a"):
        left = _swap_last(operation, left)
    if operation.flag("transpose_b"):
        right = _swap_last(operation, right)
    return _product(operation, left, right)


def _einsum(operation: Operation) -> Value:
    return R.einsum(tuple(operation.tensors(0)), operation.text("equation", "") or operation.fail("needs attribute equation"))


CONVERTERS: Mapping[str, Converter] = {
    "einsum": _einsum,
    "nn.batch_matmul": _matmul,
    "nn.contrib_dense_pack": _dense_pack,
    "nn.dense": _dense,
    "nn.matmul": _matmul,
}
