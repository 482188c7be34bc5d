"""All converters by the name of the Relay operator, and how one is applied to blocked operands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from workbench.engines.relax.relay import (
    convert_block,
    convert_conv,
    convert_create,
    convert_elementwise,
    convert_image,
    convert_index,
    convert_matmul,
    convert_norm,
    convert_pool,
    convert_reduce,
    convert_shape,
)
from workbench.engines.relax.relay.layouts import Layout
from workbench.engines.relax.relay.operation import Blocked, Converter, Operation, Value, shape_of

CONVERTERS: Mapping[str, Converter] = {
    **convert_block.CONVERTERS,
    **convert_conv.CONVERTERS,
    **convert_create.CONVERTERS,
    **convert_elementwise.CONVERTERS,
    **convert_image.CONVERTERS,
    **convert_index.CONVERTERS,
    **convert_matmul.CONVERTERS,
    **convert_norm.CONVERTERS,
    **convert_pool.CONVERTERS,
    **convert_reduce.CONVERTERS,
    **convert_shape.CONVERTERS,
}


def convert(operation: Operation) -> Value:
    """Apply the converter of an operation.

    An operator that works element by element is applied to the plain form of its blocked operands, if all operands have one.
    """
    converter = CONVERTERS[operation.operator]
    blocked = next((value for value in operation.args if isinstance(value, Blocked)), None)
    pointwise = operation.operator in convert_elementwise.POINTWISE
    if blocked is None or not pointwise or not all(_fits(operation, value, blocked) for value in operation.args):
        return converter(operation)
    plain = [value if _is_scalar(operation, value) else operation.plain(value, blocked.layout) for value in operation.args]
    return _blocked(operation, converter(replace(operation, args=plain)), blocked.layout)


def _is_scalar(operation: Operation, value: Value) -> bool:
    return not isinstance(value, tuple | Blocked) and operation.shape(value) == ()


def _fits(operation: Operation, value: Value, blocked: Blocked) -> bool:
    if isinstance(value, tuple) or (isinstance(value, Blocked) and value.layout != blocked.layout):
        return False
    return _is_scalar(operation, value) or blocked.layout.broadcasts(operation.shape(value), operation.shape(blocked))


def _blocked(operation: Operation, value: Value, layout: Layout) -> Value:
    """The result with the layout of its operands."""
    if isinstance(value, tuple):
        return tuple(_blocked(operation, field, layout) for field in value)
    if isinstance(value, Blocked):
        return value
    tensor = operation.emit(value)
    try:
        layout.packed_shape(shape_of(tensor))
    except ValueError as error:
        operation.fail(f"cannot be converted: {error}")
    return Blocked(tensor, layout)
