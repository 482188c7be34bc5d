"""Forms of ONNX operators for which TVM's converter computes something else without a word; found by comparing with ONNX's reference."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx
from onnx import helper

Array = np.ndarray[Any, Any]
Constants = Mapping[str, Array]
Shapes = Mapping[str, Sequence[int]]

_TOLERANCE = 1e-4  # of an element: a scale like 1.1 is not exact in float32


def wrong_form(node: onnx.NodeProto, constants: Constants, shapes: Shapes) -> str:
    """What about a node TVM would not do as ONNX says, e.g. "with antialias=1"; "" if nothing is known to be wrong.

    Args:
        node: A node of ONNX's own domain.
        constants: Values of the constants that the nodes read, as far as they are known.
        shapes: Shapes of the graph's values, as far as they are known.
    """
    check = _WRONG_FORMS.get(node.op_type)
    return "" if check is None else check(node, constants, shapes)


def _attribute(node: onnx.NodeProto, name: str, default: Any) -> Any:
    value = next((helper.get_attribute_value(attribute) for attribute in node.attribute if attribute.name == name), default)
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _resize(node: onnx.NodeProto, constants: Constants, shapes: Shapes) -> str:
    if _attribute(node, "antialias", 0):
        return "with antialias=1"
    return _scaled(node, constants.get(node.input[2]) if len(node.input) > 2 else None, shapes)


def _upsample(node: onnx.NodeProto, constants: Constants, shapes: Shapes) -> str:
    if _attribute(node, "mode", "nearest") == "nearest":  # TVM rounds to the nearest, ONNX rounds down
        return "with mode=nearest"
    given = _attribute(node, "scales", None)
    return _scaled(node, constants.get(node.input[1]) if given is None and len(node.input) > 1 else given, shapes)


def _scaled(node: onnx.NodeProto, scales: Array | Sequence[float] | None, shapes: Shapes) -> str:
    """TVM divides the sizes instead of taking the scale, which is the same only if no fraction of an element is cut off."""
    sizes = shapes.get(node.input[0])
    if sizes is None or scales is None or len(scales) != len(sizes):
        return ""
    for size, scale in zip(sizes[2:], np.asarray(scales, np.float64).tolist()[2:], strict=True):
        if abs(size * scale - np.floor(np.float32(size) * np.float32(scale))) > _TOLERANCE:
            return f"by {scale:g}, no whole number for a size of {size}"
    return ""


def _is_inf(node: onnx.NodeProto, constants: Constants, shapes: Shapes) -> str:
    del constants, shapes
    return next((f"with {name}=0" for name in ("detect_positive", "detect_negative") if not _attribute(node, name, 1)), "")


def _roi_align(node: onnx.NodeProto, constants: Constants, shapes: Shapes) -> str:
    del constants, shapes
    return "with mode=max" if _attribute(node, "mode", "avg") == "max" else ""


def _space_to_depth(node: onnx.NodeProto, constants: Constants, shapes: Shapes) -> str:
    del constants, shapes
    mode = _attribute(node, "mode", "DCR")
    return "" if mode == "DCR" else f"with mode={mode}"


def _sequence_insert(node: onnx.NodeProto, constants: Constants, shapes: Shapes) -> str:
    del shapes
    position = constants.get(node.input[2]) if len(node.input) > 2 else None
    return "at a position counted from the end" if position is not None and np.any(position < 0) else ""  # TVM is one too far


_WRONG_FORMS: Mapping[str, Callable[[onnx.NodeProto, Constants, Shapes], str]] = {
    "IsInf": _is_inf,
    "Resize": _resize,
    "RoiAlign": _roi_align,
    "SequenceInsert": _sequence_insert,
    "SpaceToDepth": _space_to_depth,
    "Upsample": _upsample,
}
