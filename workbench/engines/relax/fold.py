"""Computes operators on constants with NumPy, so that TVM need not compile and run a kernel for each.

Covers what imported models apply to their weights; what is left over goes to TVM's ``FoldConstant``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from workbench.engines.relax.rewriting import Binding, Scope, operator_name, rewrite_main

Array = np.ndarray[Any, Any]

_ELEMENTWISE: dict[str, Callable[..., Array]] = {
    "relax.add": np.add,
    "relax.subtract": np.subtract,
    "relax.multiply": np.multiply,
    "relax.divide": np.true_divide,
    "relax.maximum": np.maximum,
    "relax.minimum": np.minimum,
    "relax.power": np.power,
    "relax.negative": np.negative,
    "relax.sqrt": np.sqrt,
    "relax.exp": np.exp,
    "relax.abs": np.abs,
    "relax.rsqrt": lambda x: (1 / np.sqrt(x)).astype(x.dtype),
}


def constant(array: Array) -> tvm.ir.GenericConst:
    """A Relax constant that holds the array."""
    return relax.const(tvm.runtime.tensor(np.ascontiguousarray(array)))


def array_of(value: Any) -> Array | None:
    """Value of a tensor constant; None for any other expression."""
    if isinstance(value, tvm.ir.GenericConst) and isinstance(value.ty, relax.TensorType):
        return value.value.numpy() if str(value.ty.dtype) != "bfloat16" else None
    return None


def fold_constants(module: tvm.IRModule) -> tvm.IRModule:
    """The module with every supported operator on constants replaced by its value."""

    def fold(binding: Binding, scope: Scope) -> Any:
        del scope
        folded = _evaluate(binding.value)
        return binding.value if folded is None else constant(folded)

    return rewrite_main(module, fold)


def _evaluate(value: Any) -> Array | None:
    """The value of a call on constants, or None if it is not one, or not one of the supported operators."""
    operator = operator_name(value)
    if operator == "relax.concat" and isinstance(value.args[0], relax.Tuple):
        parts = [array_of(field) for field in value.args[0].fields]
        return None if any(part is None for part in parts) else _checked(value, np.concatenate(parts, axis=int(value.attrs.axis or 0)))  # type: ignore[arg-type]
    if operator in _ELEMENTWISE:
        arrays = [array_of(argument) for argument in value.args]
        if any(array is None for array in arrays) or not all(np.issubdtype(array.dtype, np.floating) for array in arrays if array is not None):
            return None
        with np.errstate(all="ignore"):
            return _checked(value, _ELEMENTWISE[operator](*arrays))
    source = array_of(value.args[0]) if operator in _SHAPING else None
    return None if source is None else _checked(value, _SHAPING[operator](value, source))


def _checked(value: Any, array: Array) -> Array | None:
    """The array if it has the type that TVM inferred for the call; None otherwise, so that TVM computes it."""
    expected = value.ty
    if not isinstance(expected, relax.TensorType) or expected.shape is None:
        return None
    same_shape = [int(size) for size in expected.shape.values] == list(array.shape)
    return array if same_shape and str(expected.dtype) == str(array.dtype) else None


def _target_shape(value: Any) -> list[int]:
    return [int(size) for size in value.ty.shape.values]


def _permute(value: Any, source: Array) -> Array:
    axes = None if value.attrs.axes is None else [int(axis) for axis in value.attrs.axes]
    return np.transpose(source, axes)


_SHAPING: dict[str, Callable[[Any, Array], Array]] = {
    "relax.reshape": lambda value, source: source.reshape(_target_shape(value)),
    "relax.expand_dims": lambda value, source: source.reshape(_target_shape(value)),
    "relax.squeeze": lambda value, source: source.reshape(_target_shape(value)),
    "relax.flatten": lambda value, source: source.reshape(_target_shape(value)),
    "relax.broadcast_to": lambda value, source: np.broadcast_to(source, _target_shape(value)),
    "relax.permute_dims": _permute,
    "relax.astype": lambda value, source: source.astype(str(value.ty.dtype)),
}
