"""Turns batch normalisation at inference into a scale and a shift, and folds the scale into the weights of the convolution before it.

With constant statistics, ``batch_norm(x) = x * s + (beta - mean * s)`` where ``s = gamma / sqrt(variance + epsilon)``; a scale per output
channel commutes with a convolution, so ``conv2d(x, w) * s = conv2d(x, w * s)``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tvm
from tvm import relax

from workbench.engines.relax.fold import Array, array_of, constant
from workbench.engines.relax.rewriting import Binding, Scope, operator_name, rewrite_main

_KERNEL_OUTPUT_AXIS = {"OIHW": 0, "HWIO": 3, "HWOI": 2, "OHWI": 0}


def simplify_batch_norm(module: tvm.IRModule) -> tvm.IRModule:
    """The module without batch normalisations whose statistics are constants."""

    def rewrite(binding: Binding, scope: Scope) -> Any:
        call = binding.value
        if operator_name(call) != "relax.nn.batch_norm" or bool(call.attrs.training):
            return call
        scale_and_shift = _scale_and_shift(call)
        if scale_and_shift is None:
            return call
        value = _apply(call, *scale_and_shift, name=binding.name, scope=scope)
        return relax.Tuple([value, call.args[3], call.args[4]])

    return relax.transform.CanonicalizeBindings()(rewrite_main(module, rewrite))


def _scale_and_shift(call: Any) -> tuple[Array, Array] | None:
    """Per-channel factor and summand of a batch norm, or None if its parameters are not constants."""
    arrays = [array_of(argument) for argument in call.args[1:5]]
    if any(array is None for array in arrays):
        return None
    gamma, beta, mean, variance = (np.asarray(array, dtype=np.float64) for array in arrays)
    scale = (gamma if call.attrs.scale else np.ones_like(gamma)) / np.sqrt(variance + float(call.attrs.epsilon))
    shift = (beta if call.attrs.center else np.zeros_like(beta)) - mean * scale
    return scale, shift


def _apply(call: Any, scale: Array, shift: Array, *, name: str, scope: Scope) -> Any:
    """``x * scale + shift``, with the scale in the weights where `x` is a convolution that nothing else reads."""
    data = call.args[0]
    dtype = str(data.ty.dtype)
    shape = [1] * data.ty.ndim
    shape[int(call.attrs.axis)] = -1
    producer = scope.value_of(data)
    weights = None
    if operator_name(producer) == "relax.nn.conv2d" and scope.read_once(data):
        weights = _scaled_weights(producer, scale, int(call.attrs.axis) % data.ty.ndim)
    if weights is None:
        scaled = scope.emit(relax.op.multiply(data, constant(scale.reshape(shape).astype(dtype))), name)
    else:
        scaled = scope.emit(relax.Call(producer.op, [producer.args[0], constant(weights)], producer.attrs, producer.ty_args), data.name)
    return scope.emit(relax.op.add(scaled, constant(shift.reshape(shape).astype(dtype))), name)


def _scaled_weights(convolution: Any, scale: Array, axis: int) -> Array | None:
    """The convolution's weights times a factor per output channel; None if they are not constant or `axis` is not the channels'."""
    weights = array_of(convolution.args[1])
    output_axis = _KERNEL_OUTPUT_AXIS.get(str(convolution.attrs.kernel_layout))
    out_layout = str(convolution.attrs.out_layout or convolution.attrs.data_layout)
    if weights is None or output_axis is None or out_layout.find("C") != axis or weights.shape[output_axis] != scale.size:
        return None
    shape = [1] * weights.ndim
    shape[output_axis] = -1
    return (weights * scale.reshape(shape)).astype(weights.dtype)
