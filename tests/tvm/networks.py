"""Small ONNX models that several tests lower."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

Array = np.ndarray[Any, Any]


def node(op: str, inputs: list[str], outputs: list[str], **attributes: Any) -> onnx.NodeProto:
    """A node that is named after its first output."""
    return helper.make_node(op, inputs, outputs, name=f"{outputs[0]}_node", **attributes)


def chain(lab: Any, length: int) -> onnx.ModelProto:
    """Matrix products with weights of their own, and a ReLU behind each."""
    random_weights = np.random.default_rng(0)
    names = [f"w{index}" for index in range(length)]
    nodes, value = [], "x"
    for index, name in enumerate(names):
        nodes += [node("MatMul", [value, name], [f"m{index}"]), node("Relu", [f"m{index}"], [f"r{index}"])]
        value = f"r{index}"
    return lab.model(nodes, {"x": (1, 8)}, [value], {name: random_weights.standard_normal((8, 8)).astype(np.float32) for name in names})


def small_network(lab: Any) -> onnx.ModelProto:
    """A network with one kernel of almost every kind."""
    generator = np.random.default_rng(0)
    nodes = [
        node("Conv", ["x", "w", "b"], ["c"], pads=[1] * 4),
        node("Relu", ["c"], ["r"]),
        node("MaxPool", ["r"], ["p"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Conv", ["p", "d"], ["e"], pads=[1] * 4, group=8),
        node("GlobalAveragePool", ["e"], ["g"]),
        node("Flatten", ["g"], ["f"]),
        node("MatMul", ["f", "m"], ["l"]),
        node("Softmax", ["l"], ["s"], axis=1),
        node("ReduceMax", ["s"], ["y"], axes=[1]),
        node("Transpose", ["p"], ["t"], perm=[0, 2, 3, 1]),
        node("LayerNormalization", ["s", "n", "n"], ["v"]),
        node("TopK", ["s", "k"], ["top", "at"]),
        node("CumSum", ["s", "axis"], ["sums"]),
        node("Concat", ["p", "p"], ["pp"], axis=1),
        node("ArgMax", ["s"], ["am"], axis=1),
    ]
    floats = {"w": (8, 3, 3, 3), "b": (8,), "d": (8, 1, 3, 3), "m": (8, 16), "n": (16,)}
    values: dict[str, Array] = {name: generator.standard_normal(shape).astype(np.float32) for name, shape in floats.items()}
    values.update(k=np.array([3]), axis=np.array(1))
    return lab.model(nodes, {"x": (1, 3, 8, 8)}, ["y", "t", "v", "top", "at", "sums", "pp", "am"], values)


def with_external_weight(lab: Any, location: str) -> Path:
    """The file of a model whose one weight is in another file."""
    model = lab.model([node("Add", ["x", "w"], ["y"])], {"x": (4,)}, ["y"])
    weight = model.graph.initializer.add(name="w", data_type=TensorProto.FLOAT, dims=[4], data_location=TensorProto.EXTERNAL)
    weight.external_data.add(key="location", value=location)
    path: Path = lab.save(model)
    return path
