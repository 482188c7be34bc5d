"""Converters of Relay's convolutions, in any layout, blocked ones included."""

from __future__ import annotations

from collections.abc import Mapping

from tvm import relax
from tvm.relax import op as R

from workbench.engines.relax.relay.layouts import Layout
from workbench.engines.relax.relay.operation import Converter, Operation, Value, shape_of

_SPATIAL = {1: "W", 2: "HW", 3: "DHW"}
_CONV = {1: R.nn.conv1d, 2: R.nn.conv2d, 3: R.nn.conv3d}
_CONV_TRANSPOSE = {1: R.nn.conv1d_transpose, 2: R.nn.conv2d_transpose, 3: R.nn.conv3d_transpose}


def in_layout(operation: Operation, value: Value, layout_text: str, keep: tuple[str, ...]) -> tuple[relax.Expr, Layout, str]:
    """Data brought into a layout that Relax has kernels for.

    Args:
        operation: The call.
        value: Its data.
        layout_text: The layout of the data by the text.
        keep: The layouts that Relax has; the first one is used if the data has none of them.

    Returns:
        The data, its layout by the text, and its layout now.
    """
    layout = operation.layout(layout_text, value)
    plain = operation.plain(value, layout)
    if layout.plain in keep:
        return plain, layout, layout.plain
    return operation.reordered(plain, layout.plain, keep[0]), layout, keep[0]


def out_of_layout(operation: Operation, result: relax.Expr, now: str, text: str) -> Value:
    """The result of a kernel, from the layout it has now to the one of the text."""
    return operation.in_layout(operation.emit(result), now, text)


def padding_of(operation: Operation, rank: int) -> list[int]:
    """The padding of the spatial dimensions: all begins, then all ends."""
    padding = operation.integers("padding", [0] * rank)
    if len(padding) == 1:
        return padding * (2 * rank)
    if len(padding) == rank and rank > 1:
        return padding * 2
    if len(padding) != 2 * rank:
        operation.fail(f"has padding {padding} on {rank} dimensions")
    return padding


def spread(operation: Operation, name: str, default: int, rank: int) -> list[int]:
    """An attribute with one number for every spatial dimension, or one for all."""
    values = operation.integers(name, [default] * rank)
    if len(values) == 1:
        return values * rank
    if len(values) != rank:
        operation.fail(f"has {name} {values} on {rank} dimensions")
    return values


def _weight(operation: Operation, channels: int, groups: int, rank: int, default: str) -> tuple[relax.Expr, int]:
    """The weight as OIHW (or OIW, OIDHW), and the number of groups that Relax means.

    Relay may write a depthwise weight with a channel multiplier as (channels, multiplier, ...); Relax wants (channels * multiplier, 1, ...).
    """
    layout = operation.layout(operation.text("kernel_layout", default), operation.arg(1))
    plain = operation.plain(operation.arg(1), layout)
    weight = operation.reordered(plain, layout.plain, "OI" + _SPATIAL[rank])
    outputs, inputs, *window = shape_of(weight)
    if groups > 1 and outputs == channels and groups in (channels, channels * inputs) and (inputs > 1 or groups > channels):
        return operation.reshaped(weight, [outputs * inputs, 1, *window]), channels
    if groups < 1 or inputs * groups != channels or outputs % groups:
        operation.fail(f"has a weight for {inputs * groups} input and {outputs} output channels in {groups} groups, and data of {channels} channels")
    return weight, groups


def _check_window(operation: Operation, weight: relax.Expr, outputs: int) -> None:
    """The attributes that repeat what the weight's shape says must agree with it."""
    window = list(shape_of(weight)[2:])
    declared = operation.optional_integers("kernel_size")
    if declared is not None and declared != window and declared * len(window) != window:
        operation.fail(f"has kernel_size {declared} and a weight with a window of {window}")
    channels = operation.optional_integers("channels")
    if channels is not None and channels != [outputs]:
        operation.fail(f"has channels={channels[0]} and a weight for {outputs}")


def _conv(rank: int) -> Converter:
    spatial = _SPATIAL[rank]
    first, last = "NC" + spatial, "N" + spatial + "C"

    def convert(operation: Operation) -> Value:
        text = operation.text("data_layout", first)
        data, layout, now = in_layout(operation, operation.arg(0), text, (first, last))
        channels = shape_of(data)[now.index("C")]
        weight, groups = _weight(operation, channels, operation.integer("groups", 1), rank, "OI" + spatial)
        _check_window(operation, weight, shape_of(weight)[0])
        kernel_layout = "OI" + spatial if now == first else spatial + "IO"
        result = _CONV[rank](
            data,
            operation.reordered(weight, "OI" + spatial, kernel_layout),
            strides=spread(operation, "strides", 1, rank),
            padding=padding_of(operation, rank),
            dilation=spread(operation, "dilation", 1, rank),
            groups=groups,
            data_layout=now,
            kernel_layout=kernel_layout,
            out_dtype=operation.dtype("out_dtype"),
        )
        return out_of_layout(operation, result, now, operation.text("out_layout", str(layout)))

    return convert


def _conv_transpose(rank: int) -> Converter:
    spatial = _SPATIAL[rank]
    first, kernel = "NC" + spatial, "IO" + spatial

    def convert(operation: Operation) -> Value:
        text = operation.text("data_layout", first)
        data, layout, now = in_layout(operation, operation.arg(0), text, (first,))
        kernel_layout = operation.layout(operation.text("kernel_layout", kernel), operation.arg(1))
        weight = operation.reordered(operation.plain(operation.arg(1), kernel_layout), kernel_layout.plain, kernel)
        groups = operation.integer("groups", 1)
        if shape_of(weight)[0] != shape_of(data)[1]:
            operation.fail(f"has a weight for {shape_of(weight)[0]} input channels and data of {shape_of(data)[1]}")
        _check_window(operation, weight, shape_of(weight)[1] * groups)
        result = _CONV_TRANSPOSE[rank](
            data,
            weight,
            strides=spread(operation, "strides", 1, rank),
            padding=padding_of(operation, rank),
            output_padding=spread(operation, "output_padding", 0, rank),
            dilation=spread(operation, "dilation", 1, rank),
            groups=groups,
            data_layout=first,
            kernel_layout=kernel,
            out_dtype=operation.dtype("out_dtype"),
        )
        return out_of_layout(operation, result, now, operation.text("out_layout", str(layout)))

    return convert


def _required_layout(converter: Converter) -> Converter:
    """The blocked operators have no default layout that would say the factors: the text must."""

    def convert(operation: Operation) -> Value:
        for name in ("data_layout", "kernel_layout"):
            operation.text(name, "") or operation.fail(f"needs attribute {name}")
        return converter(operation)

    return convert


_BLOCKED = _required_layout(_conv(2))

CONVERTERS: Mapping[str, Converter] = {
    "nn.contrib_conv2d_NCHWc": _BLOCKED,
    "nn.contrib_depthwise_conv2d_NCHWc": _BLOCKED,
    "nn.conv1d": _conv(1),
    "nn.conv1d_transpose": _conv_transpose(1),
    "nn.conv2d": _conv(2),
    "nn.conv2d_transpose": _conv_transpose(2),
    "nn.conv3d": _conv(3),
    "nn.conv3d_transpose": _conv_transpose(3),
}
