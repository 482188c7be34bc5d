"""Computes operators on constants with NumPy, so that TVM need not compile and run a kernel for each.

Covers what imported models apply to their weights; what is left over goes to TVM's ``FoldConstant``. Weights can be large: an array is read
without a copy, and written once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import tvm
from tvm import relax

from workbench.engines.relax.rewriting import Binding, Scope, bindings_of, is_static, operator_name, rewrite_main

Array = np.ndarray[Any, Any]

_BLOCK = 64
_LARGE_BYTES = 2**20
_SHARED_DTYPES = frozenset([*(f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)), "float16", "float32", "float64"])
_DTYPES = _SHARED_DTYPES | {"bool"}

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
    """A Relax constant that holds a copy of the array."""
    if array.flags.c_contiguous or array.nbytes < _LARGE_BYTES or str(array.dtype) not in _SHARED_DTYPES:
        return relax.const(tvm.runtime.tensor(np.asarray(array, order="C")))
    tensor = tvm.runtime.empty(array.shape, str(array.dtype))
    _copy_in_blocks(array, np.from_dlpack(tensor))
    return relax.const(tensor)


def _copy_in_blocks(source: Array, target: Array) -> None:
    """Copy an array; a matrix, which may be a transposed view, block by block, so that the lines read and those written stay in the cache."""
    if source.ndim != 2:
        target[...] = source
        return
    rows, columns = source.shape
    for row in range(0, rows, _BLOCK):
        for column in range(0, columns, _BLOCK):
            block = np.s_[row : row + _BLOCK, column : column + _BLOCK]
            target[block] = source[block]


def array_of(value: Any) -> Array | None:
    """Value of a tensor constant, to be read only; None for any other expression, and for types that NumPy does not have."""
    if isinstance(value, tvm.ir.GenericConst) and isinstance(value.ty, relax.TensorType) and str(value.ty.dtype) in _DTYPES:
        array: Array = np.from_dlpack(value.value) if str(value.ty.dtype) in _SHARED_DTYPES else value.value.numpy()
        return array
    return None


def fold_constants(module: tvm.IRModule) -> tvm.IRModule:
    """The module with every supported operator on constants replaced by its value."""

    def fold(binding: Binding, scope: Scope) -> Any:
        del scope
        folded = _evaluate(binding.value)
        return _without_zero_divisor(binding.value) if folded is None else constant(folded)

    return rewrite_main(module, fold)


def _without_zero_divisor(value: Any) -> Any:
    """The call with a tensor of one zero where it divides by the number zero: TVM writes a number into the kernel and then refuses to divide."""
    if operator_name(value) != "relax.divide" or not isinstance(value.args[0].ty, relax.TensorType) or not value.args[0].ty.ndim:
        return value
    divisor = array_of(value.args[1])
    if divisor is None or divisor.ndim or divisor.dtype.kind != "f" or divisor != 0:
        return value
    return relax.op.divide(value.args[0], constant(divisor.reshape(1)))


def fold_with_tvm(module: tvm.IRModule) -> tvm.IRModule:
    """The module after TVM's ``FoldConstant``, which takes its time even where there is nothing to fold: then it is left out."""
    if any(isinstance(item.value, relax.Call) and _is_constant(item.value) for item in bindings_of(module["main"])):
        return relax.transform.FoldConstant()(module)
    return module


def _is_constant(value: Any) -> bool:
    """True if a value depends on no variable."""
    if isinstance(value, relax.Call):
        return all(map(_is_constant, value.args))
    if isinstance(value, relax.Tuple):
        return all(map(_is_constant, value.fields))
    return not isinstance(value, relax.Var | relax.TupleGetItem)


def _evaluate(value: Any) -> Array | None:
    """The value of a call on constants, or None if it is not one, or not one of the supported operators."""
    operator = operator_name(value)
    if operator == "relax.concat" and isinstance(value.args[0], relax.Tuple):
        fields = list(value.args[0].fields)
        parts = [array for array in map(array_of, fields) if array is not None]
        return _checked(value, np.concatenate(parts, axis=int(value.attrs.axis or 0))) if len(parts) == len(fields) else None
    if operator in _ELEMENTWISE:
        arrays = [array_of(argument) for argument in value.args]
        if any(array is None for array in arrays) or not all(np.issubdtype(array.dtype, np.floating) for array in arrays if array is not None):
            return None
        with np.errstate(all="ignore"):
            return _checked(value, _ELEMENTWISE[operator](*arrays))
    source = array_of(value.args[0]) if operator in _SHAPING else None
    if source is None or not _has_known_type(value):
        return None
    with np.errstate(all="ignore"):
        return _checked(value, _SHAPING[operator](value, source))


def _has_known_type(value: Any) -> bool:
    return isinstance(value.ty, relax.TensorType) and is_static(value.ty) and str(value.ty.dtype) in _DTYPES


def _checked(value: Any, array: Array) -> Array | None:
    """The array if it has the type that TVM inferred for the call; None otherwise, so that TVM computes it."""
    if not _has_known_type(value):
        return None
    return array if _target_shape(value) == list(array.shape) and str(value.ty.dtype) == str(array.dtype) else None


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
