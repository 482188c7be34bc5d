"""Reads an ONNX file and says, before TVM sees it, what in it cannot be used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.inliner
from google.protobuf.message import DecodeError
from onnx import defs, numpy_helper, shape_inference
from tvm.relax.frontend.onnx import onnx_frontend

from workbench.engines.relax.onnx.wrong_forms import wrong_form
from workbench.errors import ModelError
from workbench.escaping import plain

Array = np.ndarray[Any, Any]

_OLDEST_OPSET = 7
_CONTROL_FLOW = ("If", "Loop", "Scan")
_STANDARD_DOMAINS = ("", "ai.onnx")
_CONTRIBUTED = "com.microsoft"
_CONVERTED_AS_CONTRIBUTED = {"Attention"}
_SHAPE_DATA_ELEMENTS = 1024


def read_onnx(path: Path) -> onnx.ModelProto:
    """Parse an ONNX file with its external data; functions are inlined, sparse weights made dense, and every node gets a name of its own.

    Raises:
        ModelError: The file is cut off, is no ONNX, its external data are missing, or a node reads what no node before it computes.
    """
    model = _parsed(path)
    if model.functions:
        try:
            model = onnx.inliner.inline_local_functions(model)
        except Exception as error:  # the inliner raises any class of error on a malformed function
            raise ModelError(f"The functions of the model cannot be inlined: {plain(str(error), 200)}.", "Export the model again.") from error
    _make_dense(model.graph)
    name_nodes(model.graph)
    _check_references(model.graph)
    return model


def _parsed(path: Path) -> onnx.ModelProto:
    try:
        model = onnx.load(str(path))
    except DecodeError as error:
        raise ModelError(
            f"{plain(path.name)} is no ONNX model, or it is cut off ({path.stat().st_size} bytes).",
            "Export or download it again.",
        ) from error
    except (OSError, onnx.checker.ValidationError) as error:
        reason = plain(str(error).rstrip("."), 200)
        raise ModelError(f"{plain(path.name)} or its external data cannot be read: {reason}.", "Copy all of its files.") from error
    if not model.graph.node or not model.graph.output:
        raise ModelError(f"{plain(path.name)} holds no ONNX graph: it has no nodes or no outputs.", "Export or download it again.")
    return model


def _make_dense(graph: onnx.GraphProto) -> None:
    """Turn sparse initializers into ordinary ones."""
    for sparse in graph.sparse_initializer:
        graph.initializer.append(numpy_helper.from_array(dense_value(sparse), sparse.values.name))
    del graph.sparse_initializer[:]


def dense_value(sparse: onnx.SparseTensorProto) -> Array:
    """All elements of a sparse tensor.

    Raises:
        ModelError: Its indices do not fit its shape.
    """
    try:
        values = numpy_helper.to_array(sparse.values)
        indices = numpy_helper.to_array(sparse.indices)
        dense = np.zeros(list(sparse.dims), dtype=values.dtype)
        dense[np.unravel_index(indices, dense.shape) if indices.ndim == 1 else tuple(indices.T)] = values
    except (IndexError, ValueError) as error:
        raise ModelError(f"The sparse weight {plain(sparse.values.name)} is damaged: {plain(str(error), 120)}.", "Export the model again.") from error
    return dense


def name_nodes(graph: onnx.GraphProto) -> None:
    """Give each node a name that no other has: its own, or its first output's where it has none or shares it."""
    counts = Counter(node.name for node in graph.node)
    taken = {name for name, count in counts.items() if count == 1}
    for node in graph.node:
        if node.name and counts[node.name] == 1:
            continue
        base = next((name for name in node.output if name), node.op_type)
        name, number = base, 1
        while name in taken:
            number += 1
            name = f"{base}#{number}"
        taken.add(name)
        node.name = name


def _check_references(graph: onnx.GraphProto) -> None:
    known = {"", *(value.name for value in graph.input), *(tensor.name for tensor in graph.initializer)}
    for node in graph.node:
        missing = next((name for name in node.input if name not in known), None)
        if missing is not None:
            raise ModelError(
                f"Node {plain(node.name)} ({plain(node.op_type)}) reads {plain(missing)}, which nothing before it computes.",
                "Export the model again: its nodes must stand in the order of computation.",
            )
        known.update(node.output)
    missing = next((output.name for output in graph.output if output.name not in known), None)
    if missing is not None:
        raise ModelError(f"No node computes the output {plain(missing)}.", "Export the model again.")


def is_standard(node: onnx.NodeProto) -> bool:
    """True if a node's operator is one of ONNX's own."""
    return node.domain in _STANDARD_DOMAINS


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
    if not _OLDEST_OPSET <= opset <= newest:
        raise ModelError(
            f"The model needs ONNX opset {opset}; this installation supports {_OLDEST_OPSET} to {newest}.",
            "Export it with one of these, or convert it with onnx.version_converter.",
        )
    return opset


def check_operators(model: onnx.ModelProto, constants: Mapping[str, Array] | None) -> None:
    """Raise ModelError that lists all operators which cannot be converted, with their counts.

    Args:
        model: The simplified model.
        constants: Values that its nodes read; None where they are not known yet, and modes that depend on them are not looked at.
    """
    missing: dict[str, list[str]] = {}
    for node, label in _unsupported(model.graph, constants):
        missing.setdefault(label, []).append(node.name)
    if missing:
        listing = ", ".join(f"{plain(op)} (x{len(names)}, first at {plain(names[0])})" for op, names in sorted(missing.items()))
        raise ModelError(
            f"{len(missing)} operators of the model are not supported: {listing}.",
            "Replace them in the exporting framework, or cut the model around them.",
        )


def _unsupported(graph: onnx.GraphProto, constants: Mapping[str, Array] | None) -> Iterator[tuple[onnx.NodeProto, str]]:
    """Nodes that have no converter, or one that would compute something else; and how to call their operator."""
    values = {value.name: static_shape(value) for value in [*graph.input, *graph.value_info, *graph.output]}
    shapes = {name: shape for name, shape in values.items() if shape is not None}
    for node in graph.node:
        if not _has_converter(node):
            yield node, node.op_type if is_standard(node) else f"{node.domain}.{node.op_type}"
        elif trains(node, constants):
            yield node, f"{node.op_type} in training mode"
        elif is_standard(node) and (form := wrong_form(node, constants or {}, shapes)):
            yield node, f"{node.op_type} {form}"


def _has_converter(node: onnx.NodeProto) -> bool:
    """True if TVM's converter is for this operator, and not for another domain's of the same name."""
    if node.op_type not in onnx_frontend._get_convert_map():  # noqa: SLF001 - TVM offers no public list of its converters
        return node.op_type == "Constant" and is_standard(node)
    if is_standard(node):
        return node.op_type not in _CONTROL_FLOW and node.op_type not in _CONVERTED_AS_CONTRIBUTED and defs.has(node.op_type)
    return node.domain == _CONTRIBUTED and (node.op_type in _CONVERTED_AS_CONTRIBUTED | {"Gelu"} or not defs.has(node.op_type))


def trains(node: onnx.NodeProto, constants: Mapping[str, Array] | None) -> bool:
    """True if a node was exported in training mode, or its mode is computed by the model."""
    if node.op_type == "BatchNormalization":
        return any(attribute.name == "training_mode" and attribute.i for attribute in node.attribute)
    if node.op_type != "Dropout" or constants is None or len(node.input) < 3 or not node.input[2]:
        return False
    mode = constants.get(node.input[2])
    return mode is None or bool(np.any(mode))


def fix_input_shapes(model: onnx.ModelProto, shapes: Mapping[str, tuple[int, ...]]) -> None:
    """Write the given shapes into the graph's inputs, in place.

    Raises:
        ModelError: A shape names no input, does not fit it, an input keeps a dynamic dimension, or is no tensor of numbers.
    """
    weights = {tensor.name for tensor in model.graph.initializer}
    inputs = {value.name: value for value in model.graph.input if value.name not in weights}
    _check_types(inputs)
    unknown = [name for name in shapes if name not in inputs]
    if unknown:
        listing = ", ".join(f"{plain(name)} {_dimensions(value)}" for name, value in inputs.items())
        raise ModelError(f"The model has no input named {plain(unknown[0])}.", f"Its inputs are: {listing}.")
    empty, dynamic = [], []
    for name, value in inputs.items():
        if name in shapes:
            _set_shape(value, shapes[name])
        elif any(_is_zero(dim) for dim in value.type.tensor_type.shape.dim):
            empty.append(value)
        elif not _is_static(value):
            dynamic.append(value)
    if empty:
        listing = ", ".join(f"{plain(value.name)} {_dimensions(value)}" for value in empty)
        example = f"--shape {plain(empty[0].name)}={_example(empty[0])}"
        raise ModelError(
            f"The model has inputs without any element, with a dimension of size 0: {listing}.",
            f"Export it with sizes of 1 or more, or give them, e.g. {example}.",
        )
    if dynamic:
        listing = ", ".join(f"{plain(value.name)} {_dimensions(value)}" for value in dynamic)
        example = f"--shape {plain(dynamic[0].name)}={_example(dynamic[0])}"
        raise ModelError(f"The model has dynamic dimensions: {listing}.", f"Give them numbers, e.g. {example}.")


def _check_types(inputs: Mapping[str, onnx.ValueInfoProto]) -> None:
    for name, value in inputs.items():
        kind = str(value.type.WhichOneof("value") or "").removesuffix("_type")
        if kind != "tensor":
            raise ModelError(f"Input {plain(name)} is no tensor but of the type {kind or 'unknown'}.", "Export the model with tensors as inputs.")
        if value.type.tensor_type.elem_type in (onnx.TensorProto.STRING, onnx.TensorProto.UNDEFINED):
            raise ModelError(f"Input {plain(name)} is a tensor of strings or of no known type.", "Cut the model behind its text processing.")


def infer_shapes(model: onnx.ModelProto) -> None:
    """Write the inferred shapes of all values into the model, in place.

    Raises:
        ModelError: The shapes contradict each other, e.g. because a given input shape does not fit the weights.
    """
    light = _without_weights(model)
    try:
        inferred = shape_inference.infer_shapes(light, strict_mode=True, data_prop=True)
    except shape_inference.InferenceError as error:
        reason = plain(str(error).strip().splitlines()[-1], 240)
        raise ModelError(f"The shapes of the model do not fit together: {reason}", "Check --shape, or export the model again.") from error
    for field in ("value_info", "output"):
        values = getattr(model.graph, field)
        del values[:]
        values.extend(getattr(inferred.graph, field))


def _without_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """A copy for shape inference, which needs the values of small initializers only: without the large ones, and without declared shapes."""
    light = onnx.ModelProto(ir_version=model.ir_version, opset_import=model.opset_import)
    light.graph.name = model.graph.name
    light.graph.node.extend(model.graph.node)
    light.graph.input.extend(model.graph.input)
    for output in model.graph.output:
        copy = light.graph.output.add()
        copy.CopyFrom(output)
        if output.type.HasField("tensor_type"):
            copy.type.tensor_type.ClearField("shape")
    for tensor in model.graph.initializer:
        if np.prod(tensor.dims) <= _SHAPE_DATA_ELEMENTS:
            light.graph.initializer.append(tensor)
        else:
            light.graph.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
    return light


def _set_shape(value: onnx.ValueInfoProto, shape: tuple[int, ...]) -> None:
    tensor = value.type.tensor_type
    declared = list(tensor.shape.dim) if tensor.HasField("shape") else None
    if any(size <= 0 for size in shape):
        raise ModelError(f"Shape {shape} of input {plain(value.name)} has a dimension that is not positive.", "Give sizes of 1 or more.")
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


def static_shape(value: onnx.ValueInfoProto | None) -> list[int] | None:
    """Shape of a value if every dimension is a number, else None."""
    if value is None or not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value for dim in dims] if all(dim.HasField("dim_value") for dim in dims) else None


def _is_static(value: onnx.ValueInfoProto) -> bool:
    shape = static_shape(value)
    return shape is not None and all(size > 0 for size in shape)


def _is_zero(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return dim.HasField("dim_value") and dim.dim_value == 0


def _dimensions(value: onnx.ValueInfoProto) -> str:
    if not value.type.tensor_type.HasField("shape"):
        return "(unknown rank)"
    dims = value.type.tensor_type.shape.dim
    return "(" + ", ".join(str(dim.dim_value) if dim.dim_value > 0 or _is_zero(dim) else plain(dim.dim_param or "?") for dim in dims) + ")"


def _example(value: onnx.ValueInfoProto) -> str:
    dims = value.type.tensor_type.shape.dim
    return ",".join(str(dim.dim_value) if dim.dim_value > 0 else "1" for dim in dims) or "1,3,224,224"
