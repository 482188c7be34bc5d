"""Rewrites an ONNX graph into the form that lowers best, without changing what it computes.

Constant sub-graphs are computed here (TVM's own folding compiles every folded operator: 30 s for a DenseNet-121); operators that do
nothing at inference are removed; an n-ary ``Sum`` becomes a chain of ``Add``, which TVM can fuse into the producer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from workbench.engines.relax.onnx.reading import node_name
from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.machine import memory_facts

Array = np.ndarray[Any, Any]

_RANDOM = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike", "Multinomial", "Bernoulli"}
_MEMORY_SHARE = 0.75


def simplify(model: onnx.ModelProto) -> dict[str, Array]:
    """Simplify the graph in place; return the values of its constants (initializers and folded nodes) that the graph still reads."""
    graph = model.graph
    constants = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    del graph.initializer[:]
    inputs = [value for value in graph.input if value.name not in constants]
    del graph.input[:]
    graph.input.extend(inputs)
    _fold_shapes(graph, constants)
    _fold_constants(model, constants)
    _remove_identities(graph, constants)
    _split_sums(graph)
    used = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
    return {name: value for name, value in constants.items() if name in used}


def _fold_shapes(graph: onnx.GraphProto, constants: dict[str, Array]) -> None:
    """Make a constant of every ``Shape`` of a value whose shape is known."""
    known = {value.name: value for value in [*graph.value_info, *graph.input]}
    kept = []
    for node in graph.node:
        shape = _static_shape(known.get(node.input[0])) if node.op_type == "Shape" else None
        if shape is None:
            kept.append(node)
            continue
        bounds = {attribute.name: attribute.i for attribute in node.attribute}
        constants[node.output[0]] = np.array(shape[bounds.get("start", 0) : bounds.get("end", len(shape))], dtype=np.int64)
    _replace_nodes(graph, kept)


def _static_shape(value: onnx.ValueInfoProto | None) -> list[int] | None:
    if value is None or not value.type.tensor_type.HasField("shape"):
        return None
    dims = value.type.tensor_type.shape.dim
    return [dim.dim_value for dim in dims] if all(dim.HasField("dim_value") for dim in dims) else None


def _fold_constants(model: onnx.ModelProto, constants: dict[str, Array]) -> None:
    """Compute all nodes that depend on constants only."""
    graph = model.graph
    produced = set(constants)
    foldable: list[onnx.NodeProto] = []
    kept: list[onnx.NodeProto] = []
    for node in graph.node:
        if all(name in produced for name in node.input if name) and _is_pure(node):
            foldable.append(node)
            produced.update(name for name in node.output if name)
        else:
            kept.append(node)
    if not foldable:
        return
    _check_size(graph, foldable, constants)
    needed = {name for node in kept for name in node.input} | {output.name for output in graph.output}
    results = [name for node in foldable for name in node.output if name and name in needed]
    constants.update(_evaluate(model, foldable, constants, results))
    _replace_nodes(graph, kept)


def _is_pure(node: onnx.NodeProto) -> bool:
    has_body = any(attribute.type in (onnx.AttributeProto.GRAPH, onnx.AttributeProto.GRAPHS) for attribute in node.attribute)
    return node.op_type not in _RANDOM and not has_body and node.domain in ("", "ai.onnx")


def _check_size(graph: onnx.GraphProto, nodes: list[onnx.NodeProto], constants: Mapping[str, Array]) -> None:
    """Refuse constants that cannot fit into memory before anything is allocated."""
    known = {value.name: value for value in graph.value_info}
    total = 0
    for node in nodes:
        for name in node.output:
            shape = _static_shape(known.get(name))
            if node.op_type == "ConstantOfShape" and node.input[0] in constants:
                shape = [int(size) for size in constants[node.input[0]]]
            total += int(np.prod(np.array(shape, dtype=object))) * 4 if shape else 0
            if total > _MEMORY_SHARE * memory_facts().available_bytes:
                raise ModelError(
                    f"The constants of the model take more than {total / 2**30:.1f} GiB, which is more than this machine has free "
                    f"(node {plain(node_name(node))}).",
                    "Use a machine with more memory.",
                )


def _evaluate(
    model: onnx.ModelProto, nodes: list[onnx.NodeProto], constants: Mapping[str, Array], results: list[str]
) -> dict[str, Array]:
    """Values of `results`, computed by ONNX's reference implementation."""
    if not results:
        return {}
    read = {name for node in nodes for name in node.input if name in constants}
    values = {name: constants[name] for name in read}
    for node in nodes:
        if node.op_type == "ConstantOfShape" and node.input[0] in values:
            fill = next((numpy_helper.to_array(attribute.t) for attribute in node.attribute if attribute.name == "value"), np.zeros(1, np.float32))
            values[node.output[0]] = np.full([int(size) for size in values[node.input[0]]], fill.reshape(-1)[0], dtype=fill.dtype)
    rest = [node for node in nodes if not all(name in values for name in node.output)]
    missing = [name for name in results if name not in values]
    if missing:
        graph = helper.make_graph(
            rest,
            "constants",
            [helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape) for name, value in values.items()],
            [helper.make_empty_tensor_value_info(name) for name in missing],
        )
        part = helper.make_model(graph, opset_imports=model.opset_import, ir_version=model.ir_version)
        try:
            computed = ReferenceEvaluator(part).run(None, values)
        except Exception as error:  # the reference implementation raises whatever NumPy raises on a malformed node
            raise ModelError(f"A constant of the model cannot be computed: {plain(str(error), 200)}", "Export the model again.") from error
        values.update(zip(missing, (np.asarray(value) for value in computed), strict=True))
    return {name: values[name] for name in results}


def _remove_identities(graph: onnx.GraphProto, constants: dict[str, Array]) -> None:
    """Remove ``Identity`` and inference-time ``Dropout``; readers of their output read their input instead."""
    outputs = {output.name for output in graph.output}
    renamed: dict[str, str] = {}
    kept = []
    read = {name for node in graph.node for name in node.input} | outputs
    for node in graph.node:
        for index, name in enumerate(node.input):
            node.input[index] = renamed.get(name, name)
        mask_is_read = any(name in read for name in node.output[1:])
        idle = node.op_type == "Identity" or (node.op_type == "Dropout" and not mask_is_read and not _trains(node, constants))
        if idle and node.output[0] not in outputs:
            renamed[node.output[0]] = node.input[0]
        elif idle and node.op_type == "Dropout":
            kept.append(helper.make_node("Identity", [node.input[0]], [node.output[0]], name=node_name(node)))
        else:
            kept.append(node)
    _replace_nodes(graph, kept)


def _trains(node: onnx.NodeProto, constants: Mapping[str, Array]) -> bool:
    """True if a Dropout node was exported in training mode."""
    if len(node.input) < 3 or not node.input[2]:
        return False
    mode = constants.get(node.input[2])
    return mode is None or bool(np.any(mode))


def _split_sums(graph: onnx.GraphProto) -> None:
    """Write ``Sum(a, b, c)`` as ``Add(Add(a, b), c)``, under the name of the sum."""
    nodes = []
    for node in graph.node:
        if node.op_type != "Sum" or len(node.input) < 2:
            nodes.append(node)
            continue
        total = node.input[0]
        for index, name in enumerate(node.input[1:], start=1):
            last = index == len(node.input) - 1
            result = node.output[0] if last else f"{node.output[0]}/partial_{index}"
            nodes.append(helper.make_node("Add", [total, name], [result], name=node_name(node), doc_string="Sum"))
            total = result
    _replace_nodes(graph, nodes)


def _replace_nodes(graph: onnx.GraphProto, nodes: list[onnx.NodeProto]) -> None:
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
