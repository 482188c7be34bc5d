"""Converters of Relay operators that work element by element."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from tvm import relax
from tvm.relax import op as R

from workbench.engines.relax.relay.operation import Converter, Operation, Value, array_of, dtype_of, shape_of
from workbench.legacy.relay.roles import IDENTITIES


def _unary(function: Callable[[relax.Expr], relax.Expr]) -> Converter:
    return lambda operation: function(operation.tensor(0))


def _binary(function: Callable[[relax.Expr, relax.Expr], relax.Expr]) -> Converter:
    return lambda operation: function(operation.tensor(0), operation.tensor(1))


def _identity(operation: Operation) -> Value:
    return operation.arg(0)


def _dropout(operation: Operation) -> Value:
    data = operation.tensor(0)
    return data, operation.constant(np.ones(shape_of(data), dtype_of(data)))


def _clip(operation: Operation) -> Value:
    data = operation.tensor(0)
    low, high = operation.number("a_min"), operation.number("a_max")
    if "float" not in dtype_of(data):
        limits = np.iinfo(dtype_of(data))
        return R.clip(data, int(max(low, limits.min)), int(min(high, limits.max)))
    return R.clip(data, low, high)


def _leaky_relu(operation: Operation) -> Value:
    return R.nn.leakyrelu(operation.tensor(0), operation.number("alpha", 0.25))


def _prelu(operation: Operation) -> Value:
    data, alpha = operation.tensor(0), operation.tensor(1)
    return R.nn.prelu(data, alpha, operation.axis("axis", 1, len(shape_of(data))))


def _cast(operation: Operation) -> Value:
    dtype = operation.dtype("dtype") or operation.fail("needs attribute dtype")
    return cast(operation.tensor(0), dtype)


def _cast_like(operation: Operation) -> Value:
    return cast(operation.tensor(0), dtype_of(operation.tensor(1)))


def cast(data: relax.Expr, dtype: str) -> relax.Expr:
    """The data as another element type; the data itself if it has that type."""
    return data if dtype_of(data) == dtype else R.astype(data, dtype)


def _where(operation: Operation) -> Value:
    condition = operation.tensor(0)
    if dtype_of(condition) != "bool":
        condition = R.not_equal(condition, operation.scalar(0, condition))
    return R.where(condition, operation.tensor(1), operation.tensor(2))


def _bias_add(operation: Operation) -> Value:
    data, bias = operation.tensor(0), operation.tensor(1)
    shape = shape_of(data)
    axis = operation.axis("axis", 1, len(shape))
    if shape_of(bias) != (shape[axis],):
        operation.fail(f"adds a bias of shape {shape_of(bias)} to axis {axis} of {shape}")
    if axis == len(shape) - 1:
        return R.add(data, bias)
    return R.add(data, operation.reshaped(bias, [shape[axis]] + [1] * (len(shape) - axis - 1)))


def _power(operation: Operation) -> Value:
    """A square is a multiplication: ``power`` of a negative base goes through logarithms on some targets."""
    data, exponent = operation.tensor(0), operation.tensor(1)
    value = array_of(exponent)
    if value is not None and value.size == 1 and len(value.shape) <= len(shape_of(data)) and float(value.reshape(())) == 2.0:
        return R.multiply(data, data)
    return R.power(data, exponent)


def _log_of_base(base: float) -> Callable[[relax.Expr], relax.Expr]:
    return lambda data: R.divide(R.log(data), relax.const(math.log(base), dtype_of(data)))


_UNARY = {
    "abs": R.abs, "acos": R.acos, "acosh": R.acosh, "asin": R.asin, "asinh": R.asinh, "atan": R.atan, "atanh": R.atanh,
    "bitwise_not": R.bitwise_not, "ceil": R.ceil, "cos": R.cos, "cosh": R.cosh, "erf": R.erf, "exp": R.exp, "fast_erf": R.erf, "fast_exp": R.exp,
    "fast_tanh": R.tanh, "floor": R.floor, "isfinite": R.isfinite, "isinf": R.isinf, "isnan": R.isnan, "log": R.log, "log10": _log_of_base(10),
    "log2": _log_of_base(2), "logical_not": R.logical_not, "negative": R.negative, "nn.relu": R.nn.relu, "round": R.round, "rsqrt": R.rsqrt,
    "sigmoid": R.sigmoid, "sign": R.sign, "sin": R.sin, "sinh": R.sinh, "sqrt": R.sqrt, "tan": R.tan, "tanh": R.tanh, "trunc": R.trunc,
}  # fmt: skip

_BINARY = {
    "add": R.add, "bitwise_and": R.bitwise_and, "bitwise_or": R.bitwise_or, "bitwise_xor": R.bitwise_xor, "divide": R.divide,
    "equal": R.equal, "floor_divide": R.floor_divide, "floor_mod": R.floor_mod, "greater": R.greater,
    "greater_equal": R.greater_equal, "left_shift": R.left_shift, "less": R.less, "less_equal": R.less_equal,
    "logical_and": R.logical_and, "logical_or": R.logical_or, "logical_xor": R.logical_xor, "maximum": R.maximum,
    "minimum": R.minimum, "mod": R.mod, "multiply": R.multiply, "not_equal": R.not_equal, "right_shift": R.right_shift,
    "subtract": R.subtract,
}  # fmt: skip

# These do the same to every element wherever it stands, so they may work on the plain form of a blocked tensor.
POINTWISE: Mapping[str, Converter] = {
    **{name: _unary(function) for name, function in _UNARY.items()},
    **{name: _binary(function) for name, function in _BINARY.items()},
    **dict.fromkeys(IDENTITIES, _identity),
    "cast": _cast,
    "clip": _clip,
    "nn.dropout": _dropout,
    "nn.leaky_relu": _leaky_relu,
    "power": _power,
    "where": _where,
}

CONVERTERS: Mapping[str, Converter] = {**POINTWISE, "cast_like": _cast_like, "nn.bias_add": _bias_add, "nn.prelu": _prelu}
