"""Shapes of operators whose type a Relay text does not tell: the operators of common networks; of others nothing is claimed."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

Shape: TypeAlias = tuple[int, ...]
_Attributes: TypeAlias = Mapping[str, Any]
_SAME = {
    "nn.relu", "nn.leaky_relu", "nn.prelu", "nn.softmax", "nn.log_softmax", "nn.dropout", "nn.batch_norm", "nn.bias_add", "nn.lrn", "nn.layer_norm",
    "nn.instance_norm", "sigmoid", "tanh", "exp", "log", "sqrt", "rsqrt", "negative", "abs", "clip", "cast", "erf", "copy", "round", "floor", "ceil",
    "nn.l2_normalize", "nn.group_norm", "annotation.stop_fusion",
}  # fmt: skip
_BROADCAST = {
    "add", "subtract", "multiply", "divide", "maximum", "minimum", "power", "equal", "less", "greater", "mod", "floor_divide", "not_equal",
}  # fmt: skip


def infer_shape(name: str, inputs: Sequence[Shape | None], attributes: _Attributes) -> Shape | None:
    """The shape of an operator's first output; None if it is not known."""
    if not inputs or any(shape is None for shape in inputs):
        return None
    known = [shape for shape in inputs if shape is not None]
    try:
        if name in _SAME:
            return known[0]
        if name in _BROADCAST and len(known) == 2:
            return broadcast(known[0], known[1])
        rule = _RULES.get(name)
        return None if rule is None else rule(known, attributes)
    except (IndexError, KeyError, TypeError, ValueError, ZeroDivisionError):
        return None  # a text that contradicts itself has no shape to tell


def broadcast(first: Shape, second: Shape) -> Shape | None:
    """The shape of two that are broadcast; None if they do not fit."""
    rank = max(len(first), len(second))
    padded = [(1,) * (rank - len(shape)) + shape for shape in (first, second)]
    sizes = list(zip(*padded, strict=True))
    if any(one != other and 1 not in (one, other) for one, other in sizes):
        return None
    return tuple(max(pair) if 0 not in pair else 0 for pair in sizes)


def _pair(value: Any, default: int) -> tuple[int, int]:
    if value is None:
        return default, default
    items = value if isinstance(value, tuple) else (value, value)
    return (int(items[0]), int(items[-1] if len(items) < 3 else items[1]))


def _pads(value: Any) -> tuple[int, int]:
    """Rows and columns that a padding of one, two or four numbers adds."""
    if value is None:
        return 0, 0
    items = value if isinstance(value, tuple) else (value,)
    if len(items) == 4:
        return int(items[0]) + int(items[2]), int(items[1]) + int(items[3])
    return 2 * int(items[0]), 2 * int(items[-1])


def _window(size: int, kernel: int, *, stride: int, pad: int, dilation: int = 1, ceil: bool = False) -> int:
    steps = (size + pad - dilation * (kernel - 1) - 1) / stride
    return (math.ceil(steps) if ceil else math.floor(steps)) + 1


def _conv2d(inputs: Sequence[Shape], attributes: _Attributes) -> Shape | None:
    data, weight = inputs[:2]
    layout, kernel_layout = attributes.get("data_layout", "NCHW"), attributes.get("kernel_layout", "OIHW")
    if layout not in ("NCHW", "NHWC") or kernel_layout not in ("OIHW", "HWIO", "HWOI", "OHWI"):
        return None
    height, width = (data[2], data[3]) if layout == "NCHW" else (data[1], data[2])
    kernel = tuple(weight[kernel_layout.index(axis)] for axis in "HW")
    strides, pads, dilation = _pair(attributes.get("strides"), 1), _pads(attributes.get("padding")), _pair(attributes.get("dilation"), 1)
    rows = _window(height, kernel[0], stride=strides[0], pad=pads[0], dilation=dilation[0])
    columns = _window(width, kernel[1], stride=strides[1], pad=pads[1], dilation=dilation[1])
    declared = attributes.get("channels")
    channels = int(declared) if declared else weight[kernel_layout.index("O")]
    return (data[0], channels, rows, columns) if layout == "NCHW" else (data[0], rows, columns, channels)


def _pool2d(inputs: Sequence[Shape], attributes: _Attributes) -> Shape | None:
    data, layout = inputs[0], attributes.get("layout", "NCHW")
    if layout not in ("NCHW", "NHWC"):
        return None
    first = 2 if layout == "NCHW" else 1
    kernel, strides, pads = _pair(attributes.get("pool_size"), 1), _pair(attributes.get("strides"), 1), _pads(attributes.get("padding"))
    ceil = bool(attributes.get("ceil_mode", False))
    sizes = [_window(data[first + axis], kernel[axis], stride=strides[axis], pad=pads[axis], ceil=ceil) for axis in (0, 1)]
    return (*data[:first], *sizes, *data[first + 2 :])


def _global_pool(inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    data = inputs[0]
    return (*data[:2], 1, 1) if attributes.get("layout", "NCHW") == "NCHW" else (data[0], 1, 1, data[3])


def _dense(inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    return (*inputs[0][:-1], int(attributes.get("units") or inputs[1][0]))


def _batch_matmul(inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    first, second = inputs
    rows = first[2] if attributes.get("transpose_a", False) else first[1]
    columns = second[1] if attributes.get("transpose_b", True) else second[2]
    return (max(first[0], second[0]), rows, columns)


def _flatten(inputs: Sequence[Shape], _attributes: _Attributes) -> Shape:
    return (inputs[0][0], math.prod(inputs[0][1:]))


def _reshape(inputs: Sequence[Shape], attributes: _Attributes) -> Shape | None:
    wanted = attributes["newshape"]
    if not isinstance(wanted, tuple) or any(size < -1 for size in wanted):
        return None
    sizes = [inputs[0][place] if size == 0 else int(size) for place, size in enumerate(wanted)]
    if -1 in sizes:
        rest = math.prod(size for size in sizes if size != -1)
        sizes[sizes.index(-1)] = math.prod(inputs[0]) // rest
    return tuple(sizes)


def _transpose(inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    axes = attributes.get("axes")
    return tuple(inputs[0][axis] for axis in axes) if axes else inputs[0][::-1]


def _concatenate(inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    axis = int(attributes.get("axis", 0)) % len(inputs[0])
    return (*inputs[0][:axis], sum(shape[axis] for shape in inputs), *inputs[0][axis + 1 :])


def _pad(inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    return tuple(size + int(pad[0]) + int(pad[1]) for size, pad in zip(inputs[0], attributes["pad_width"], strict=True))


def _reduced(inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    axes = attributes.get("axis")
    rank = len(inputs[0])
    listed = range(rank) if axes is None else [axis % rank for axis in (axes if isinstance(axes, tuple) else (axes,))]
    kept = bool(attributes.get("keepdims", False))
    return tuple(1 if axis in listed else size for axis, size in enumerate(inputs[0]) if kept or axis not in listed)


def _expand_dims(inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    rank = len(inputs[0]) + 1
    axis = int(attributes["axis"]) % rank
    return (*inputs[0][:axis], *(1,) * int(attributes.get("num_newaxis", 1)), *inputs[0][axis:])


def _squeeze(inputs: Sequence[Shape], attributes: _Attributes) -> Shape:
    axes = attributes.get("axis")
    rank = len(inputs[0])
    listed = [axis % rank for axis in axes] if axes else [axis for axis, size in enumerate(inputs[0]) if size == 1]
    return tuple(size for axis, size in enumerate(inputs[0]) if axis not in listed)


_RULES: dict[str, Callable[[Sequence[Shape], _Attributes], Shape | None]] = {
    "nn.conv2d": _conv2d,
    "nn.max_pool2d": _pool2d,
    "nn.avg_pool2d": _pool2d,
    "nn.global_avg_pool2d": _global_pool,
    "nn.global_max_pool2d": _global_pool,
    "nn.dense": _dense,
    "nn.batch_matmul": _batch_matmul,
    "nn.batch_flatten": _flatten,
    "reshape": _reshape,
    "transpose": _transpose,
    "concatenate": _concatenate,
    "nn.pad": _pad,
    "mean": _reduced,
    "sum": _reduced,
    "max": _reduced,
    "min": _reduced,
    "expand_dims": _expand_dims,
    "squeeze": _squeeze,
}
