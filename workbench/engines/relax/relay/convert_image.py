"""Converters of Relay's paddings and resizings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from tvm import relax
from tvm.relax import op as R

from workbench.engines.relax.relay.convert_conv import in_layout, out_of_layout
from workbench.engines.relax.relay.operation import Blocked, Converter, Operation, Value, array_of, dtype_of, shape_of

_RESIZE_METHODS = {
    "bicubic": "cubic",
    "bilinear": "linear",
    "cubic": "cubic",
    "linear": "linear",
    "nearest_neighbor": "nearest_neighbor",
    "nearest": "nearest_neighbor",
}
_PAD_MODES = {"constant": "constant", "edge": "replicate", "reflect": "reflect", "REFLECT": "reflect", "SYMMETRIC": "symmetric"}


def _fill(operation: Operation, data: relax.Expr) -> float:
    if len(operation.args) < 2:
        return operation.number("pad_value", 0.0)
    array = array_of(operation.tensor(1))
    if array is None or array.size != 1:
        operation.fail(f"of a {dtype_of(data)} tensor needs a constant scalar to pad with")
    return float(array.reshape(()))


def _pad(operation: Operation) -> Value:
    value = operation.arg(0)
    if isinstance(value, Blocked):
        return _blocked_pad(operation, value)
    return _padded(operation, operation.text("pad_mode", "constant"))


def _blocked_pad(operation: Operation, value: Blocked) -> Value:
    """Where no split axis is padded, the plain form is padded."""
    axes = value.layout.axes
    pairs = {letter: pair for (letter, _), pair in zip(axes, operation.pairs("pad_width", len(axes)), strict=True)}
    if any(sum(pair) and (letter.islower() or letter.lower() in pairs) for letter, pair in pairs.items()):
        return _padded(operation, operation.text("pad_mode", "constant"))
    attributes = {**operation.attributes, "pad_width": tuple(pairs[letter] for letter in value.layout.plain)}
    plain = replace(operation, args=[value.plain, *operation.args[1:]], attributes=attributes)
    return Blocked(operation.emit(_padded(plain, operation.text("pad_mode", "constant"))), value.layout)


def _mirror_pad(operation: Operation) -> Value:
    return _padded(operation, operation.text("mode", "SYMMETRIC"))


def _padded(operation: Operation, mode_text: str) -> relax.Expr:
    data = operation.tensor(0)
    width = [number for pair in operation.pairs("pad_width", len(shape_of(data))) for number in pair]
    mode = _PAD_MODES.get(mode_text)
    if mode == "symmetric":  # mirroring with the edge is repeating the edge if only one element is added
        mode = "replicate" if max(width, default=0) <= 1 else None
    if mode is None:
        operation.fail(f"has mode {mode_text} and pad_width {width}, which is not supported")
    if mode == "constant":
        return R.nn.pad(data, width, "constant", _fill(operation, data))
    if mode == "reflect" and any(max(width[2 * axis : 2 * axis + 2]) >= dim for axis, dim in enumerate(shape_of(data))):
        operation.fail(f"mirrors more of {shape_of(data)} than there is: {width}")
    return R.nn.pad(data, width, mode)


def _resize(operation: Operation, size: list[int], mode: str, rounding: str, cubic_alpha: float) -> Value:
    data, layout, now = in_layout(operation, operation.arg(0), operation.text("layout", "NCHW"), ("NCHW",))
    method = _RESIZE_METHODS.get(operation.text("method", "linear"))
    if method is None or len(size) != 2 or min(size) < 1:
        operation.fail(f"has method {operation.attributes.get('method')} and size {size}, which is not supported")
    result = R.image.resize2d(
        data,
        tuple(size),
        roi=[0.0] * 4,
        layout="NCHW",
        method=method,
        coordinate_transformation_mode=mode,
        rounding_method=rounding,
        cubic_alpha=cubic_alpha,
        cubic_exclude=operation.integer("cubic_exclude", 0),
        extrapolation_value=operation.number("extrapolation_value", 0.0),
        out_dtype=operation.dtype("out_dtype"),
    )
    return out_of_layout(operation, result, now, str(layout))


def _resize2d(operation: Operation) -> Value:
    mode = operation.text("coordinate_transformation_mode", "half_pixel")
    if mode not in ("half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel", "tf_half_pixel_for_nn"):
        operation.fail(f"has coordinate_transformation_mode={mode!r}, which is not supported")
    return _resize(operation, operation.integers("size"), mode, operation.text("rounding_method", "round"), operation.number("cubic_alpha", -0.5))


def _upsampling(operation: Operation) -> Value:
    layout = operation.layout(operation.text("layout", "NCHW"), operation.arg(0))
    extent = dict(zip((letter for letter, _ in layout.axes), operation.shape(operation.arg(0)), strict=True))
    if not {"H", "W"} <= set(extent) or {"h", "w"} & set(extent):
        operation.fail(f"has layout {layout}, which is not supported")
    size = [round(extent[letter] * operation.number(f"scale_{letter.lower()}")) for letter in "HW"]
    aligned = operation.flag("align_corners")
    complete = replace(operation, attributes={"method": "nearest_neighbor", **operation.attributes})
    return _resize(complete, size, "align_corners" if aligned else "asymmetric", "round" if aligned else "floor", -0.5)


CONVERTERS: Mapping[str, Converter] = {
    "image.resize2d": _resize2d,
    "nn.mirror_pad": _mirror_pad,
    "nn.pad": _pad,
    "nn.upsampling": _upsampling,
}
