"""Turns batch normalisation at inference into a scale and a shift, and folds the scale into the weights of the convolution before it.

With constant statistics, ``batch_norm(x) = x * s + (beta - mean * s)`` where ``s = gamma / sqrt(variance + epsilon)``; a scale per output
channel commutes with a convolution and its bias, so ``(conv(x, w) + b) * s = conv(x, w * s) + b * s``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import tvm
from tvm import relax

from workbench.engines.relax.fold import Array, array_of, constant
from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.rewriting import Binding, Scope, operator_name, rewrite_main

_CONVOLUTIONS = ("relax.nn.conv1d", "relax.nn.conv2d", "relax.nn.conv3d")


@dataclass(frozen=True)
class _Affine:
    """A factor and a summand per channel, in float64, shaped to broadcast over the data; `axis` is the channels'."""

    scale: Array
    shift: Array
    axis: int


@dataclass(frozen=True)
class _Convolution:
    """A convolution that nothing but the batch normalisation reads, perhaps through a bias.

    Attributes:
        call: The convolution.
        weights: Its constant weights times the scale.
        names: Names of the bindings that the batch normalisation is folded into.
        bias: What is added per channel, shaped to broadcast over the data; zero where there is none.
    """

    call: Any
    weights: Array
    names: tuple[str, ...]
    bias: Array


def simplify_batch_norm(module: tvm.IRModule, origins: OriginTable) -> tvm.IRModule:
    """The module without batch normalisations whose statistics are constants; `origins` learns what was folded into a convolution."""

    def rewrite(binding: Binding, scope: Scope) -> Any:
        call = binding.value
        if operator_name(call) != "relax.nn.batch_norm" or bool(call.attrs.training):
            return call
        affine = _affine(call)
        if affine is None:
            return call
        value = _apply(call.args[0], affine, name=binding.name, scope=scope, origins=origins)
        return relax.Tuple([value, call.args[3], call.args[4]])

    module = relax.transform.CanonicalizeBindings()(rewrite_main(module, rewrite))
    return relax.transform.DeadCodeElimination()(module)  # the convolutions whose weights were scaled


def _affine(call: Any) -> _Affine | None:
    """What a batch norm does per channel, or None if its parameters are not constants."""
    arrays = [array_of(argument) for argument in call.args[1:5]]
    if any(array is None for array in arrays):
        return None
    gamma, beta, mean, variance = (np.asarray(array, dtype=np.float64) for array in arrays)
    with np.errstate(all="ignore"):
        scale = (gamma if call.attrs.scale else np.ones_like(gamma)) / np.sqrt(variance + float(call.attrs.epsilon))
        shift = (beta if call.attrs.center else np.zeros_like(beta)) - mean * scale
    axis = int(call.attrs.axis) % call.args[0].ty.ndim
    shape = [1] * call.args[0].ty.ndim
    shape[axis] = -1
    return _Affine(scale.reshape(shape), shift.reshape(shape), axis)


def _apply(data: Any, affine: _Affine, *, name: str, scope: Scope, origins: OriginTable) -> Any:
    """``data * scale + shift``, with the scale in the weights where `data` is a convolution that nothing else reads."""
    dtype = str(data.ty.dtype)
    convolution = _convolution_before(data, affine, scope)
    if convolution is None:
        scaled = scope.emit(relax.op.multiply(data, constant(affine.scale.astype(dtype))), name)
        return scope.emit(relax.op.add(scaled, constant(affine.shift.astype(dtype))), name)
    call = convolution.call
    joined = origins.join(*convolution.names, name)
    scaled = scope.emit(relax.Call(call.op, [call.args[0], constant(convolution.weights)], call.attrs, call.ty_args), joined)
    shift = convolution.bias * affine.scale + affine.shift
    return scope.emit(relax.op.add(scaled, constant(shift.astype(dtype))), joined if len(convolution.names) > 1 else name)


def _convolution_before(data: Any, affine: _Affine, scope: Scope) -> _Convolution | None:
    """The convolution that a batch norm can be folded into, if `data` is one, or one plus a bias."""
    producer = scope.value_of(data)
    names: list[str] = []
    bias = np.zeros_like(affine.scale)
    variable = data
    if operator_name(producer) == "relax.add" and scope.read_once(data):
        added = array_of(producer.args[1])
        if added is None or _broadcast(added, affine.scale.shape) is None:
            return None
        bias = np.broadcast_to(added.astype(np.float64), affine.scale.shape)
        names.append(data.name)
        variable = producer.args[0]
        producer = scope.value_of(variable)
    if operator_name(producer) not in _CONVOLUTIONS or not scope.read_once(variable):
        return None
    weights = _scaled_weights(producer, affine)
    return None if weights is None else _Convolution(producer, weights, (variable.name, *names), bias)


def _broadcast(array: Array, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """`shape` if the array can be broadcast to it; None otherwise."""
    try:
        return shape if np.broadcast_shapes(array.shape, shape) == shape else None
    except ValueError:
        return None


def _scaled_weights(convolution: Any, affine: _Affine) -> Array | None:
    """The convolution's weights times a factor per output channel; None if they are not constant or the axis is not the channels'."""
    weights = array_of(convolution.args[1])
    kernel_layout = str(convolution.attrs.kernel_layout)
    out_layout = str(convolution.attrs.out_layout or convolution.attrs.data_layout)
    plain_layout = kernel_layout.isupper() and kernel_layout.isalpha() and out_layout.isalpha() and out_layout.isupper()
    if weights is None or not plain_layout or out_layout.find("C") != affine.axis:
        return None
    output_axis = kernel_layout.index("O")
    if weights.shape[output_axis] != affine.scale.size:
        return None
    shape = [1] * weights.ndim
    shape[output_axis] = -1
    with np.errstate(all="ignore"):
        return (weights * affine.scale.reshape(shape)).astype(weights.dtype)
