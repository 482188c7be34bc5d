"""Reads an ONNX file and says, before TVM sees it, what in it cannot be used."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import defs, shape_inference
from tvm.relax.frontend.onnx import onnx_frontend

from workbench.errors import ModelError
from workbench.escaping import plain

_LARGEST_PROTOBUF_BYTES = 2**31 - 1
_CONTROL_FLOW = ("If", "Loop", "Scan")


def read_onnx(path: Path) -> onnx.ModelProto:
    """Parse an ONNX file with its external data.

    Raises:
        ModelError: The file is cut off, is no ONNX, or its external data are missing.
    """
    try:
        model = onnx.load(str(path))
    except DecodeError as error:
        raise ModelError(
            f"{plain(path.name)} is no ONNX model, or it is cut off ({path.stat().st_size} bytes).",
            "Export or download it again.",
        ) from error
    except (OSError, onnx.checker.ValidationError) as error:
        raise ModelError(f"{plain(path.name)} or its external data cannot be read: {plain(str(error), 200)}.", "Copy all of its files.") from error
    if not model.graph.node or not model.graph.output:
        raise ModelError(f"{plain(path.name)} holds no ONNX graph: it has no nodes or no outputs.", "Export or download it again.")
    return model


def opset_of(model: onnx.ModelProto) -> int:
    """Version of the default operator set.

    Raises:
        ModelError: The version is newer than this installation knows, or the format is too old.
    """
    newest = defs.onnx_opset_version()
    versions = [entry.version for entry in model.opset_import if entry.domain in ("", "ai.onnx")]
    opset = int(versions[0]) if versions else 1
    if model.ir_version < 3:
        raise ModelError(f"The model's ONNX IR version {model.ir_version} is too old.", "Convert it to IR version 3 or newer.")
    if not 1 <= opset <= newest:
        raise ModelError(
            f"The model needs ONNX opset {opset}; this installation supports 1 to {newest}.",
            f"Export it with opset {newest} or older.",
        )
    return opset


def check_operators(model: onnx.ModelProto) -> None:
    """Raise ModelError that lists all operators which have no converter, with their counts."""
    known = onnx_frontend._get_convert_map()  # noqa: SLF001 - TVM offers no public list of its converters
    missing: dict[str, list[str]] = {}
    for node in model.graph.node:
        foreign = node.domain not in ("", "ai.onnx") and node.op_type not in known
        if foreign or node.op_type in _CONTROL_FLOW or (node.op_type not in known and node.op_type != "Constant"):
            label = f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            missing.setdefault(label, []).append(node_name(node))
    if missing:
        listing = ", ".join(f"{plain(op)} (x{len(names)}, first at {plain(names[0])})" for op, names in sorted(missing.items()))
        raise ModelError(
            f"{len(missing)} operators of the model are not supported: {listing}.",
            "Replace them in the exporting framework, or cut the model around them.",
        )


def node_name(node: onnx.NodeProto) -> str:
    """A node's name, or the name of its first output where it has none."""
    return str(node.name or next((name for name in node.output if name), node.op_type))


def fix_input_shapes(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write the given shapes into the graph's inputs, in place.

    Raises:
        ModelError: A shape names no input, does not fit it, or an input keeps a dynamic dimension.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in weights}
    unknown = [name for name in shapes if name not in inputs]
    if unknown:
        listing = ", ".join(f"{plain(name)} {_dimensions(value)}" for name, value in inputs.items())
        raise ModelError(f"The model has no input named {plain(unknown[0])}.", f"Its inputs are: {listing}.")
    dynamic = []
    for name, value in inputs.items():
        if name in shapes:
            _set_shape(value, shapes[name])
        elif not _is_static(value):
            dynamic.append(value)
    if dynamic:
        listing = ", ".join(f"{plain(value.name)} {_dimensions(value)}" for value in dynamic)
        example = f"--shape {plain(dynamic[0].name)}={_example(dynamic[0])}"
        raise ModelError(f"The model has dynamic dimensions: {listing}.", f"Give them numbers, e.g. {example}.")


def infer_shapes(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with inferred shapes of all values.

    Raises:
        ModelError: The shapes contradict each other, e.g. because a given input shape does not fit the weights.
    """
    del model.graph.value_info[:]
    if model.ByteSize() > _LARGEST_PROTOBUF_BYTES:
        return model
    for output in model.graph.output:
        if output.type.HasField("tensor_type"):
            output.type.tensor_type.ClearField("shape")
    try:
        return shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError as error:
        reason = plain(str(error).strip().splitlines()[-1], 240)
        raise ModelError(f"The shapes of the model do not fit together: {reason}", "Check --shape, or export the model again.") from error


def _set_shape(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    tensor = value.type.tensor_type
    declared = list(tensor.shape.dim) if tensor.HasField("shape") else None
    fits = declared is None or (
        len(declared) == len(shape)
        and all(not dim.HasField("dim_value") or dim.dim_value <= 0 or dim.dim_value == size for dim, size in zip(declared, shape, strict=True))
    )
    if not fits:
        raise ModelError(
            f"Shape {shape} does not fit input {plain(value.name)}, which is declared as {_dimensions(value)}.",
            "Give as many dimensions as declared, and change only the named ones.",
        )
    tensor.shape.ClearField("dim")
    for size in shape:
        tensor.shape.dim.add().dim_value = size


def _is_static(value: onnx.ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(dim.HasField("dim_value") and dim.dim_value > 0 for dim in tensor.shape.dim)


def _dimensions(value: onnx.ValueInfoProto) -> str:
    if not value.type.tensor_type.HasField("shape"):
        return "(unknown rank)"
    dims = value.type.tensor_type.shape.dim
    return "(" + ", ".join(str(dim.dim_value) if dim.dim_value > 0 else plain(dim.dim_param or "?") for dim in dims) + ")"


def _example(value: onnx.ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return ",".join(str(dim.dim_value) if dim.dim_value > 0 else "1" for dim in dims) or "1,3,224,224"
