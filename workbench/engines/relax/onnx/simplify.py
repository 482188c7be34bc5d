"""Rewrites an ONNX graph into the form that lowers best, without changing what it computes.

Constant sub-graphs are computed here (TVM's own folding compiles every folded operator: 30 s for a DenseNet-121); operators that do
nothing at inference are removed; an n-ary ``Sum`` becomes a chain of ``Add``, which TVM can fuse into the producer. A node that stays, or
that stands in for one, keeps the name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from workbench.engines.relax.memory import memory_limit
from workbench.engines.relax.onnx.reading import Array, dense_value, is_standard, static_shape, trains
from workbench.errors import ModelError
from workbench.escaping import plain

_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
_OF_ONE_INPUT = {"Sum", "Max", "Min", "Mean", "Concat"}


def simplify(model: onnx.ModelProto) -> dict[str, Array]:
    """Simplify the graph in place; return the values of its constants (initializers and folded nodes) that the graph still reads.

    Raises:
        ModelError: The constants do not fit into memory, or an initializer is damaged.
    """
    graph = model.graph
    constants = {tensor.name: _value_of(tensor) for tensor in graph.initializer}
    del graph.initializer[:]
    inputs = [value for value in graph.input if value.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)
    _fold_shapes(graph, constants)
    _fold_constants(model, constants)
    _fold_dropout_masks(graph, constants)
    _remove_identities(graph, constants)
    _split_sums(graph)
    used = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    return {name: value for name, value in constants.items() if name in used}


def _value_of(tensor: onnx.TensorProto) -> Array:
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError, KeyError) as error:
        raise ModelError(
            f"The weight {plain(tensor.name)} is damaged: {plain(str(error), 120)}.", "Export the model again, or copy all of its files."
        ) from error


def _fold_shapes(graph: onnx.GraphProto, constants: dict[str, Array]) -> None:
    """Make a constant of every ``Shape`` and ``Size`` of a value whose shape is known."""
    known = {value.name: value for value in [*graph.value_info, *graph.input]}
    kept = []
    for node in graph.node:
        shape = static_shape(known.get("".join(node.input[:1]))) if node.op_type in ("Shape", "Size") and is_standard(node) else None
        if shape is None:
            kept.append(node)
            continue
        bounds = {attribute.name: attribute.i for attribute in node.attribute}
        selected = shape[bounds.get("start", 0) : bounds.get("end", len(shape))]
        constants[node.output[0]] = np.array(selected if node.op_type == "Shape" else np.prod(shape, dtype=np.int64), dtype=np.int64)
    _replace_nodes(graph, kept)


def _fold_constants(model: onnx.ModelProto, constants: dict[str, Array]) -> None:
    """Compute all nodes that depend on constants only; one that ONNX's reference implementation cannot compute is left to TVM."""
    shapes = {value.name: static_shape(value) for value in model.graph.value_info}
    kept: list[onnx.NodeProto] = []
    total_bytes = 0
    for node in model.graph.node:
        if not _is_pure(node) or not all(name in constants for name in node.input if name):
            kept.append(node)
            continue
        total_bytes += _check_size(node, constants, shapes, total_bytes)
        results = _evaluate(model, node, constants)
        if results is None:
            kept.append(node)
        else:
            constants.update(results)
    _replace_nodes(model.graph, kept)


def _is_pure(node: onnx.NodeProto) -> bool:
    has_body = any(attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attribute in node.attribute)
    return node.op_type not in _RANDOM and not has_body and is_standard(node)


def _check_size(node: onnx.NodeProto, constants: Mapping[str, Array], shapes: Mapping[str, list[int] | None], before_bytes: int) -> int:
    """About how many bytes a node's results take; refuses what cannot fit into memory, before anything is allocated."""
    total_bytes = 0
    for name in node.output:
        shape = shapes.get(name)
        if node.op_type == "ConstantOfShape" and node.input:
            shape = [int(size) for size in constants[node.input[0]].reshape(-1)]
        total_bytes += int(np.prod(np.array(shape, dtype=object))) * 4 if shape else 0
    if before_bytes + total_bytes > memory_limit() and total_bytes:
        raise ModelError(
            f"The constants of the model take more than {(before_bytes + total_bytes) / 2**30:.1f} GiB, which is more than this machine has free "
            f"(node {plain(node.name)}).",
            "Use a machine with more memory.",
        )
    return total_bytes


def _evaluate(model: onnx.ModelProto, node: onnx.NodeProto, constants: Mapping[str, Array]) -> dict[str, Array] | None:
    """Values of a node's outputs, or None if ONNX's reference implementation does not have the node or fails on it."""
    outputs = [name for name in node.output if name]
    try:
        if node.op_type == "Constant" and node.attribute[0].name == "sparse_value":
            return {outputs[0]: dense_value(node.attribute[0].sparse_tensor)}
        if node.op_type == "ConstantOfShape":
            return {outputs[0]: _filled(node, constants[node.input[0]])}
        read = {name: constants[name] for name in node.input if name}
        inputs = [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for name, value in read.items()]
        graph = helper.make_graph([node], "constant", inputs, [helper.make_empty_tensor_value_info(name) for name in outputs])
        part = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        with np.errstate(all="ignore"):
            values = ReferenceEvaluator(part).run(None, read)
    except Exception:  # noqa: BLE001 - the reference implementation raises whatever NumPy raises; TVM then says what is wrong with the node
        return None
    return dict(zip(outputs, map(np.asarray, values), strict=True)) if all(isinstance(value, np.ndarray | np.generic) for value in values) else None


def _filled(node: onnx.NodeProto, shape: Array) -> Array:
    """The value of a ``ConstantOfShape``: a view that takes no memory, since the networks that have such weights can have many."""
    fill = next((numpy_helper.to_array(attribute.t) for attribute in node.attribute if attribute.name == "value"), np.zeros(1, np.float32))
    return np.broadcast_to(fill.reshape(-1)[0], [int(size) for size in shape])


def _fold_dropout_masks(graph: onnx.GraphProto, constants: dict[str, Array]) -> None:
    """Make a constant of the mask of every ``Dropout`` at inference, which says that nothing was dropped."""
    known = {value.name: value for value in [*graph.value_info, *graph.output]}
    for node in graph.node:
        if node.op_type != "Dropout" or not is_standard(node) or len(node.output) < 2 or trains(node, constants):
            continue
        mask = known.get(node.output[1])  # boolean from opset 10 on, before of the data's type
        shape = static_shape(mask)
        if mask is not None and shape is not None:
            dtype = helper.tensor_dtype_to_np_dtype(mask.type.tensor_type.elem_type)
            constants[mask.name] = np.broadcast_to(np.ones((), dtype), shape)
            del node.output[1]


def _remove_identities(graph: onnx.GraphProto, constants: Mapping[str, Array]) -> None:
    """Remove what does nothing at inference; readers of its output read its input instead."""
    outputs = {output.name for output in graph.output}
    renamed: dict[str, str] = {}
    kept = []
    read = {name for node in graph.node for name in node.input} | outputs
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = renamed.get(name, name)
        if not _is_idle(node, read, constants):
            kept.append(node)
        elif node.output[0] in outputs:
            kept.append(helper.make_node("Identity", [node.input[0]], [node.output[0]], name=node.name))
        else:
            renamed[node.output[0]] = node.input[0]
    _replace_nodes(graph, kept)


def _is_idle(node: onnx.NodeProto, read: set[str], constants: Mapping[str, Array]) -> bool:
    """True if a node hands its first input on unchanged."""
    if not is_standard(node):
        return False
    if node.op_type == "Dropout":
        return not any(name in read for name in node.output[1:]) and not trains(node, constants)
    return node.op_type == "Identity" or (node.op_type in _OF_ONE_INPUT and len(node.input) == 1)


def _split_sums(graph: onnx.GraphProto) -> None:
    """Write ``Sum(a, b, c)`` as ``Add(Add(a, b), c)``, under the name of the sum."""
    taken = {name for node in graph.node for name in (*node.input, *node.output)}
    nodes = []
    for node in graph.node:
        if node.op_type != "Sum" or len(node.input) < 2 or not is_standard(node):
            nodes.append(node)
            continue
        partial = [_fresh(f"{node.output[0]}/partial_{index}", taken) for index in range(1, len(node.input) - 1)]
        totals = [*partial, node.output[0]]
        for left, right, total in zip([node.input[0], *partial], node.input[1:], totals, strict=True):
            nodes.append(helper.make_node("Add", [left, right], [total], name=node.name))
    _replace_nodes(graph, nodes)


def _fresh(name: str, taken: set[str]) -> str:
    while name in taken:
        name += "_"
    taken.add(name)
    return name


def _replace_nodes(graph: onnx.GraphProto, nodes: Sequence[onnx.NodeProto]) -> None:
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
