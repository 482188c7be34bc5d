"""Converters of Relay's normalisations and of softmax."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tvm import relax
from tvm.relax import op as R

from workbench.engines.relax.relay.operation import Converter, Operation, Value, shape_of


def _batch_norm(operation: Operation) -> Value:
    data = operation.tensor(0)
    statistics = [operation.tensor(index) for index in range(1, 5)]
    axis = operation.axis("axis", 1, len(shape_of(data)))
    for tensor in statistics:
        if shape_of(tensor) != (shape_of(data)[axis],):
            operation.fail(f"has a parameter of shape {shape_of(tensor)} for axis {axis} of {shape_of(data)}")
    normalised = R.nn.batch_norm(
        data,
        *statistics,
        axis=axis,
        epsilon=operation.number("epsilon", 1e-5),
        center=operation.flag("center", default=True),
        scale=operation.flag("scale", default=True),
        training=False,
    )
    return operation.emit(operation.emit(normalised)[0]), statistics[2], statistics[3]


def _layer_norm(operation: Operation) -> Value:
    data = operation.tensor(0)
    axis = operation.axis("axis", -1, len(shape_of(data)))
    return R.nn.layer_norm(data, operation.tensor(1), operation.tensor(2), axes=[axis], **_norm_options(operation))


def _norm_options(operation: Operation) -> dict[str, float | bool]:
    return {
        "epsilon": operation.number("epsilon", 1e-5),
        "center": operation.flag("center", default=True),
        "scale": operation.flag("scale", default=True),
    }


def _group_norm(operation: Operation) -> Value:
    data = operation.tensor(0)
    rank = len(shape_of(data))
    axis = operation.axis("axis", 1, rank)
    groups = operation.integer("num_groups", 0)
    if groups < 1 or shape_of(data)[axis] % groups:
        operation.fail(f"has num_groups={groups} on {shape_of(data)[axis]} channels")
    spatial = [other for other in range(1, rank) if other != axis]
    return R.nn.group_norm(
        data, operation.tensor(1), operation.tensor(2), num_groups=groups, channel_axis=axis, axes=spatial, **_norm_options(operation)
    )


def _instance_norm(operation: Operation) -> Value:
    data = operation.tensor(0)
    rank = len(shape_of(data))
    axis = operation.axis("axis", 1, rank)
    spatial = [other for other in range(1, rank) if other != axis]
    return R.nn.instance_norm(data, operation.tensor(1), operation.tensor(2), channel_axis=axis, axes=spatial, **_norm_options(operation))


def _l2_normalize(operation: Operation) -> Value:
    data = operation.tensor(0)
    axes = operation.integers("axis", range(len(shape_of(data))))
    total = operation.emit(R.sum(R.multiply(data, data), axis=axes, keepdims=True))
    return R.divide(data, R.sqrt(R.maximum(total, operation.scalar(operation.number("eps"), data))))


def _lrn(operation: Operation) -> Value:
    """Data / (bias + alpha * mean of its squares over the window) ** beta; the mean pools over the channel axis, padding counted."""
    data = operation.tensor(0)
    shape = shape_of(data)
    axis = operation.axis("axis", 1, len(shape))
    size = operation.integer("size", 5)
    if size < 1 or size % 2 == 0:
        operation.fail(f"has size={size}, and only odd windows are supported")
    before, after = 1, 1
    for dim in shape[:axis]:
        before *= dim
    for dim in shape[axis + 1 :]:
        after *= dim
    squares = operation.emit(R.reshape(R.multiply(data, data), (before, 1, shape[axis], after)))
    half = size // 2
    mean = operation.emit(R.nn.avg_pool2d(squares, (size, 1), (1, 1), (half, 0, half, 0), count_include_pad=True))
    scaled = R.multiply(R.reshape(mean, shape), operation.scalar(operation.number("alpha", 0.0001), data))
    base = operation.emit(R.add(scaled, operation.scalar(operation.number("bias", 2), data)))
    return R.divide(data, R.power(base, operation.scalar(operation.number("beta", 0.75), data)))


def _softmax(function: Callable[[relax.Expr, int], relax.Expr]) -> Converter:
    def convert(operation: Operation) -> Value:
        data = operation.tensor(0)
        return function(data, operation.axis("axis", -1, len(shape_of(data))))

    return convert


CONVERTERS: Mapping[str, Converter] = {
    "nn.batch_norm": _batch_norm,
    "nn.fast_softmax": _softmax(R.nn.softmax),
    "nn.group_norm": _group_norm,
    "nn.instance_norm": _instance_norm,
    "nn.l2_normalize": _l2_normalize,
    "nn.layer_norm": _layer_norm,
    "nn.log_softmax": _softmax(R.nn.log_softmax),
    "nn.lrn": _lrn,
    "nn.softmax": _softmax(R.nn.softmax),
}
