"""Every kernel call knows the source operators it computes: proven by its output, which is the reference's value of the last of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from tests.tvm.networks import node
from workbench.engines.relax.lowering import Lowered
from workbench.records.origin import Origin

Array = np.ndarray[Any, Any]
Shape = tuple[int, ...]
NO_OPERATIONS = {"Identity", "Dropout"}


def names(origins: Iterable[Origin]) -> list[str]:
    return [origin.name for origin in origins]


def rows(lowered: Lowered) -> list[list[str]]:
    return [names(call.origins) for call in lowered.calls]


def live_nodes(model: onnx.ModelProto) -> set[str]:
    """Names of the nodes that compute something for an output, from an input."""
    wanted = {output.name for output in model.graph.output}
    constant = {tensor.name for tensor in model.graph.initializer}
    for item in model.graph.node:
        if set(item.input) <= constant:
            constant.update(item.output)
    live = set()
    for item in reversed(model.graph.node):
        if wanted & set(item.output) - constant:
            wanted.update(item.input)
            live.add(item.name)
    return live


def same(value: Array, expected: Array) -> bool:
    if value.size != expected.size:
        return False
    size = np.abs(expected[np.isfinite(expected)]).max(initial=1.0)
    return bool(np.allclose(value.ravel(), expected.ravel(), rtol=1e-3, atol=1e-3 * size, equal_nan=True))


def assert_connected(members: set[str], nodes: dict[str, onnx.NodeProto], bridges: set[str]) -> None:
    """The members hang together through the values that they read and write, over `bridges` which do nothing."""
    values = {name: {*nodes[name].input, *nodes[name].output} for name in members | bridges}
    reached, waiting = set(), [next(iter(members))]
    while waiting:
        name = waiting.pop()
        reached.add(name)
        waiting.extend(other for other in values.keys() - reached if values[other] & values[name])
    assert members <= reached


def assert_exact(model: onnx.ModelProto, lowered: Lowered, lab: Any, *, fused: bool) -> None:
    """All that can be known of the links without knowing how TVM fuses."""
    nodes = {item.name: item for item in model.graph.node}
    order = {name: position for position, name in enumerate(nodes)}
    called = rows(lowered)
    views, eliminated = set(names(lowered.builtin_origins)), set(names(lowered.eliminated))
    assert {*views, *eliminated, *(name for row in called for name in row)} == set(nodes)
    assert not eliminated & (views | {name for row in called for name in row})
    assert {name for name in eliminated & live_nodes(model) if nodes[name].op_type not in NO_OPERATIONS} == set()
    last_row = {name: index for index, row in enumerate(called) for name in row}
    if fused:
        assert sum(map(len, called)) == len(last_row), "a node is in two calls"
    expected = lab.reference(model, lowered)
    for index, tensors in lab.outputs(lowered).items():
        assert called[index], f"call {index} has no origins"
        assert_connected(set(called[index]), nodes, eliminated)
        last = max(called[index], key=order.__getitem__)
        if last_row[last] == index:  # else one of several kernels of a node, and not the last of them
            for tensor in tensors:
                assert any(same(tensor, expected[name]) for name in nodes[last].output), f"call {index} does not give the value of {last}"


class RandomGraph:
    """A random graph of operators on small tensors, the same for the same seed; equal operators get unequal weights."""

    def __init__(self, seed: int, size: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.shapes: dict[str, Shape] = {"x": (1, 4, 6, 6), "z": (1, 4, 6, 6)}
        makers: list[Callable[[str, Shape], None]] = [
            self.unary,
            self.unary,
            self.scaled,
            self.scaled,
            self.joined,
            self.joined,
            self.convolution,
            self.convolution,
            self.normalised,
            self.split,
            self.concatenated,
            self.reshaped,
            self.product,
            self.pooled,
            self.idle,
        ]
        while len(self.nodes) < size:
            source = self.pick()
            makers[self.random.integers(len(makers))](source, self.shapes[source])

    def model(self, lab: Any) -> onnx.ModelProto:
        read = {name for item in self.nodes for name in item.input}
        ends = [name for item in self.nodes for name in item.output if name not in read]
        outputs = [name for name in ends if self.random.random() < 0.8] or ends[-1:]
        if self.random.random() < 0.3:
            outputs.append(self.nodes[len(self.nodes) // 2].output[0])
        return lab.model(self.nodes, {"x": self.shapes["x"], "z": self.shapes["z"]}, list(dict.fromkeys(outputs)), self.weights)

    def pick(self) -> str:
        known = list(self.shapes)
        return known[int(len(known) * np.sqrt(self.random.random()))]

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = (self.random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        return name

    def sizes(self, *values: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = np.array(values)
        return name

    def emit(self, op: str, inputs: list[str], *shapes: Shape, **attributes: Any) -> None:
        outputs = [f"v{len(self.nodes)}_{index}" for index in range(len(shapes))]
        self.nodes.append(node(op, inputs, outputs, **attributes))
        self.shapes.update(zip(outputs, shapes, strict=True))

    def unary(self, source: str, shape: Shape) -> None:
        self.emit(["Relu", "Sigmoid", "Tanh", "Neg", "Softplus"][self.random.integers(5)], [source], shape)

    def scaled(self, source: str, shape: Shape) -> None:
        self.emit(["Add", "Mul"][self.random.integers(2)], [source, self.weight(*[1] * len(shape))], shape)

    def joined(self, source: str, shape: Shape) -> None:
        equal = [name for name, other in self.shapes.items() if other == shape]
        self.emit(["Add", "Mul", "Sub"][self.random.integers(3)], [source, equal[self.random.integers(len(equal))]], shape)

    def convolution(self, source: str, shape: Shape) -> None:
        if len(shape) == 4:
            size = [1, 3][self.random.integers(2)]
            bias = [self.weight(4)] if self.random.random() < 0.5 else []
            self.emit("Conv", [source, self.weight(4, shape[1], size, size), *bias], (1, 4, *shape[2:]), pads=[size // 2] * 4)

    def normalised(self, source: str, shape: Shape) -> None:
        if len(shape) == 4:
            statistics = [self.weight(shape[1]) for _ in range(4)]
            self.weights[statistics[3]] = np.abs(self.weights[statistics[3]]) + np.float32(0.5)
            self.emit("BatchNormalization", [source, *statistics], shape)
        else:
            self.emit("Softmax", [source], shape, axis=-1)

    def split(self, source: str, shape: Shape) -> None:
        if len(shape) == 4 and shape[1] > 1:
            half = shape[1] // 2
            self.emit("Split", [source, self.sizes(half, shape[1] - half)], (1, half, *shape[2:]), (1, shape[1] - half, *shape[2:]), axis=1)

    def concatenated(self, source: str, shape: Shape) -> None:
        other = self.pick()
        if len(shape) == len(self.shapes[other]) == 4 and shape[2:] == self.shapes[other][2:] and shape[1] + self.shapes[other][1] < 12:
            self.emit("Concat", [source, other], (1, shape[1] + self.shapes[other][1], *shape[2:]), axis=1)

    def reshaped(self, source: str, shape: Shape) -> None:
        count = int(np.prod(shape))
        target = (1, count) if len(shape) == 4 else (1, 1, 1, count)
        self.emit("Reshape", [source, self.sizes(*target)], target)

    def product(self, source: str, shape: Shape) -> None:
        if len(shape) == 2:
            self.emit("Gemm", [source, self.weight(6, shape[1]), self.weight(6)], (1, 6), transB=1)

    def pooled(self, source: str, shape: Shape) -> None:
        if len(shape) == 4:
            self.emit("MaxPool", [source], shape, kernel_shape=[3, 3], pads=[1] * 4)

    def idle(self, source: str, shape: Shape) -> None:
        self.emit(["Identity", "Dropout"][self.random.integers(2)], [source], shape)


@pytest.mark.parametrize("fusion", [True, False], ids=["fused", "unfused"])
@pytest.mark.parametrize("seed", range(20))
def test_the_links_of_a_random_graph_are_exact(seed: int, fusion: bool, onnx_lab: Any) -> None:
    model = RandomGraph(seed, size=16).model(onnx_lab)
    assert_exact(model, onnx_lab.lower(model, fusion=fusion), onnx_lab, fused=fusion)


WEIGHTS: dict[str, Array] = {
    "w": np.random.default_rng(1).standard_normal((4, 4, 3, 3)).astype(np.float32),
    "w2": np.random.default_rng(2).standard_normal((4, 4, 3, 3)).astype(np.float32),
    "bias": np.random.default_rng(3).standard_normal(4).astype(np.float32),
    "gamma": np.array([1.5, -2, 0.5, 1], np.float32),
    "beta": np.array([0.5, 1, -1, 0], np.float32),
    "mean": np.array([0.1, 0.2, -0.3, 0.4], np.float32),
    "variance": np.array([0.5, 1, 2, 3], np.float32),
    "wide": np.array([4, 36]),
    "tall": np.array([2, 72]),
    "same": np.array([1, 4, 6, 6]),
    "three": np.array([3]),
}
PADS = [1, 1, 1, 1]
STATISTICS = ["gamma", "beta", "mean", "variance"]


def convolution(source: str, output: str, weight: str = "w") -> onnx.NodeProto:
    return node("Conv", [source, weight], [output], pads=PADS)


CASES: dict[str, tuple[list[onnx.NodeProto], list[str], list[list[str]], list[str], list[str]]] = {
    # nodes; outputs; origins of the calls, of the views, and of what was eliminated, without "_node"
    "equal groups with different weights": (
        [convolution("x", "a"), node("Relu", ["a"], ["b"]), convolution("b", "c", "w2"), node("Relu", ["c"], ["y"])],
        ["y"],
        [["a", "b"], ["c", "y"]],
        [],
        [],
    ),
    "equal groups with the same weights": (
        [convolution("x", "a"), node("Relu", ["a"], ["b"]), convolution("b", "c"), node("Relu", ["c"], ["y"])],
        ["y"],
        [["a", "b"], ["c", "y"]],
        [],
        [],
    ),
    "equal groups that read the same": (
        [convolution("x", "a"), node("Relu", ["a"], ["y"]), convolution("x", "c", "w2"), node("Relu", ["c"], ["y2"])],
        ["y", "y2"],
        [["a", "y"], ["c", "y2"]],
        [],
        [],
    ),
    "identical nodes": (
        [node("Tanh", ["x"], ["a"]), node("Tanh", ["x"], ["b"]), convolution("a", "c"), convolution("b", "d"), node("Add", ["c", "d"], ["y"])],
        ["y"],
        [["a"], ["b"], ["d"], ["c", "y"]],
        [],
        [],
    ),
    "a diamond": (
        [convolution("x", "a"), node("Relu", ["a"], ["b"]), node("Tanh", ["a"], ["c"]), node("Add", ["b", "c"], ["y"])],
        ["y"],
        [["a", "b", "c", "y"]],
        [],
        [],
    ),
    "a residual": (
        [convolution("x", "a"), node("Add", ["a", "x"], ["b"]), node("Relu", ["b"], ["y"])],
        ["y"],
        [["a", "b", "y"]],
        [],
        [],
    ),
    "an inner value that is an output, too": (
        [convolution("x", "a"), node("Relu", ["a"], ["y"])],
        ["y", "a"],
        [["a"], ["y"]],
        [],
        [],
    ),
    "a split": (
        [node("Split", ["x"], ["a", "a2"], axis=1), node("Relu", ["a"], ["b"]), node("Concat", ["a2", "b"], ["y"], axis=1)],
        ["y", "a2"],
        [["a"], ["b", "y"]],
        [],
        [],
    ),
    "two outputs of which one is read": ([node("Split", ["x"], ["a", "a2"], axis=1), node("Relu", ["a"], ["y"])], ["y"], [["a", "y"]], [], []),
    "values and indices": (
        [node("Reshape", ["x", "wide"], ["r"]), node("TopK", ["r", "three"], ["v", "i"]), node("Cast", ["i"], ["y"], to=TensorProto.FLOAT)],
        ["v", "y"],
        [["v"], ["y"]],
        ["r"],
        [],
    ),
    "reshapes alone": ([node("Reshape", ["x", "wide"], ["a"]), node("Reshape", ["a", "tall"], ["y"])], ["y"], [["a", "y"]], [], []),
    "a reshape inside of a group": (
        [node("Relu", ["x"], ["a"]), node("Reshape", ["a", "wide"], ["b"]), node("Tanh", ["b"], ["y"])],
        ["y"],
        [["a", "b", "y"]],
        [],
        [],
    ),
    "a reshape between kernels": (
        [convolution("x", "a"), node("Reshape", ["a", "wide"], ["b"]), node("Softmax", ["b"], ["y"], axis=-1)],
        ["y"],
        [["a"], ["y"]],
        ["b"],
        [],
    ),
    "what does nothing": (
        [node("Identity", ["x"], ["a"]), node("Dropout", ["a"], ["b"]), node("Relu", ["b"], ["c"]), node("Identity", ["c"], ["y"])],
        ["y"],
        [["c"]],
        [],
        ["a", "b", "y"],
    ),
    "a cast and a reshape to what is": (
        [node("Relu", ["x"], ["a"]), node("Cast", ["a"], ["b"], to=TensorProto.FLOAT), node("Reshape", ["b", "same"], ["y"])],
        ["y"],
        [["a", "b", "y"]],
        [],
        [],
    ),
    "constants and what nobody reads": (
        [node("Add", ["bias", "bias"], ["c"]), node("Tanh", ["x"], ["t"]), node("Relu", ["x"], ["y"])],
        ["y", "c"],
        [["y"]],
        [],
        ["c", "t"],
    ),
    "a batch normalisation after a convolution": (
        [convolution("x", "a"), node("BatchNormalization", ["a", *STATISTICS], ["n"]), node("Relu", ["n"], ["y"])],
        ["y"],
        [["a", "n", "y"]],
        [],
        [],
    ),
    "a batch normalisation after a bias": (
        [node("Conv", ["x", "w", "bias"], ["a"], pads=PADS), node("BatchNormalization", ["a", *STATISTICS], ["n"]), node("Relu", ["n"], ["y"])],
        ["y"],
        [["a", "n", "y"]],
        [],
        [],
    ),
    "a batch normalisation of the input": (
        [node("BatchNormalization", ["x", *STATISTICS], ["n"]), node("Relu", ["n"], ["y"])],
        ["y"],
        [["n", "y"]],
        [],
        [],
    ),
    "a batch normalisation of a value that others read": (
        [convolution("x", "a"), node("BatchNormalization", ["a", *STATISTICS], ["n"]), node("Add", ["n", "a"], ["y"])],
        ["y"],
        [["a", "n", "y"]],
        [],
        [],
    ),
    "an operator of several kernels": (
        [node("LayerNormalization", ["x", "scale6", "scale6"], ["n"]), node("Relu", ["n"], ["y"])],
        ["y"],
        [["n", "y"]],
        [],
        [],
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_the_links_are_exact_for(case: str, onnx_lab: Any) -> None:
    nodes, outputs, calls, views, eliminated = CASES[case]
    read = {name for item in nodes for name in item.input}
    weights = {name: value for name, value in {**WEIGHTS, "scale6": np.arange(1, 7, dtype=np.float32)}.items() if name in read}
    model = onnx_lab.model(nodes, {"x": (1, 4, 6, 6)}, outputs, weights)
    lowered = onnx_lab.lower(model)
    assert [sorted(row) for row in rows(lowered)] == [sorted(f"{name}_node" for name in row) for row in calls]
    assert names(lowered.builtin_origins) == [f"{name}_node" for name in views]
    assert names(lowered.eliminated) == [f"{name}_node" for name in eliminated]
    assert_exact(model, lowered, onnx_lab, fused=True)
    assert_exact(model, onnx_lab.lower(model, fusion=False), onnx_lab, fused=False)


def test_without_fusion_a_batch_normalisation_is_in_the_convolution_that_computes_its_scale(onnx_lab: Any) -> None:
    nodes = [convolution("x", "a"), node("BatchNormalization", ["a", *STATISTICS], ["y"])]
    model = onnx_lab.model(nodes, {"x": (1, 4, 6, 6)}, ["y"], {name: WEIGHTS[name] for name in ("w", *STATISTICS)})
    assert rows(onnx_lab.lower(model, fusion=False)) == [["a_node", "y_node"], ["y_node"]]


def test_nodes_that_share_a_name_are_told_apart(onnx_lab: Any) -> None:
    nodes = [
        helper.make_node("Tanh", ["x"], ["a"], name="same"),
        helper.make_node("Sigmoid", ["a"], ["b"], name="same"),
        helper.make_node("Relu", ["b"], ["c"]),
        helper.make_node("Exp", ["c"], ["y"], name="own"),
    ]
    lowered = onnx_lab.lower(onnx_lab.model(nodes, {"x": (2, 3)}, ["y"]))
    assert [str(origin) for origin in lowered.calls[0].origins] == ["Tanh a", "Sigmoid b", "Relu c", "Exp own"]
