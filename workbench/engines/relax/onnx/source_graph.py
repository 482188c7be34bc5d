"""What the nodes of an ONNX graph read and give, before anything of it is simplified."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import onnx
from onnx import helper, numpy_helper

from workbench.engines.relax.onnx.reading import static_shape
from workbench.engines.relax.source_graph import Described, SourceGraph, with_attributes
from workbench.records.profile import TensorShape

_SHOWN_ELEMENTS = 8


def describe_onnx(model: onnx.ModelProto, numbers: Mapping[str, int]) -> SourceGraph:
    """The graph of a model whose shapes were inferred.

    Args:
        model: The model.
        numbers: Number of each node in the table of origins, by its name.
    """
    graph = SourceGraph()
    weights = {tensor.name: TensorShape(tuple(tensor.dims), _dtype(tensor.data_type)) for tensor in model.graph.initializer}
    known = {value.name: value for value in [*model.graph.value_info, *model.graph.output, *model.graph.input]}
    sources: dict[str, int] = {}
    for value in model.graph.input:
        if value.name not in weights:
            sources[value.name] = graph.add_input(value.name, _tensors(value))
    for node in model.graph.node:
        described = Described(
            reads=tuple(sources[name] for name in node.input if name in sources),
            outputs=tuple(tensor for name in node.output if name for tensor in _tensors(known.get(name))),
            weights=tuple(weights[name] for name in node.input if name in weights),
        )
        number = numbers[node.name]
        graph.describe(number, with_attributes(described, {attribute.name: _value(attribute) for attribute in node.attribute}))
        sources.update((name, number) for name in node.output if name)
    for value in model.graph.output:
        graph.add_output(value.name, tuple(sources[name] for name in [value.name] if name in sources), _tensors(value))
    return graph


def _tensors(value: onnx.ValueInfoProto | None) -> tuple[TensorShape, ...]:
    """The tensor of a value; none if its type or rank is not known."""
    if value is None or not value.type.HasField("tensor_type") or not value.type.tensor_type.elem_type:
        return ()
    shape = static_shape(value)
    if shape is None and not value.type.tensor_type.HasField("shape"):
        return ()
    sizes = shape if shape is not None else [dim.dim_value if dim.HasField("dim_value") else -1 for dim in value.type.tensor_type.shape.dim]
    return (TensorShape(tuple(sizes), _dtype(value.type.tensor_type.elem_type)),)


def _dtype(element: int) -> str:
    """NumPy's name of an element type; ONNX's own where NumPy has none."""
    try:
        return str(helper.tensor_dtype_to_np_dtype(element))
    except KeyError:
        return str(onnx.TensorProto.DataType.Name(element)).lower()


def _value(attribute: onnx.AttributeProto) -> Any:
    """An attribute's value as something that has a short text."""
    if attribute.type == onnx.AttributeProto.TENSOR:
        tensor = attribute.t
        count = 1
        for size in tensor.dims:
            count *= size
        inline = count <= _SHOWN_ELEMENTS and tensor.data_location != onnx.TensorProto.EXTERNAL and tensor.data_type != onnx.TensorProto.STRING
        values = f" = {numpy_helper.to_array(tensor).tolist()}" if inline else ""
        return f"{_dtype(tensor.data_type)} ({', '.join(map(str, tensor.dims))}){values}"
    if attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS):
        return "a graph"
    if attribute.type in (onnx.AttributeProto.SPARSE_TENSOR, onnx.AttributeProto.SPARSE_TENSORS, onnx.AttributeProto.TENSORS):
        return "tensors"
    value = helper.get_attribute_value(attribute)
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, str | int | float):
        return value
    items = list(value) if hasattr(value, "__iter__") else [str(value)]
    return [item.decode("utf-8", "replace") if isinstance(item, bytes) else item for item in items]
