"""The bundled networks, lowered: every call has origins in the file, every kernel a task; and VGG-19 is the same in whatever form it comes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import helper, numpy_helper, version_converter

from workbench.engines.relax.kernels import describe_kernels, structural_hash
from workbench.engines.relax.lowering import Lowered
from workbench.engines.relax.onnx.reading import name_nodes
from workbench.links import build_profile
from workbench.models import bundled_models, resolve_model
from workbench.records.profile import Kernel, Measurement, Profile

Array = np.ndarray[Any, Any]
NETWORKS = [model.name for model in bundled_models() if model.kind == "onnx"]
IDLE = {"Dropout", "Identity", "Constant", "ConstantOfShape", "Shape", "Reshape"}
VGG19 = [1, 1, "pool", 2, 2, "pool", 4, 4, 4, 4, "pool", 8, 8, 8, 8, "pool", 8, 8, 8, 8, "pool"]


def kernels_of(lab: Any, lowered: Lowered) -> list[Kernel]:
    return describe_kernels(lowered, lab.target, on_kernel=lambda done, total: None)


def profile_of(lab: Any, lowered: Lowered) -> Profile:
    return build_profile(
        model="m",
        engine="relax",
        target="cpu",
        kernels=kernels_of(lab, lowered),
        calls=lowered.calls,
        measurement=Measurement(calls=(), runtime=None, builtins=(), total=None, hook_us=0.0, threads=0, unmeasured="not run"),
        builtin_origins=lowered.builtin_origins,
        notes=(),
    )


def load(name: str) -> onnx.ModelProto:
    model = onnx.load(resolve_model(name).path)
    name_nodes(model.graph)
    return model


@pytest.mark.parametrize("name", NETWORKS)
def test_a_bundled_network_is_linked_from_end_to_end(name: str, onnx_lab: Any) -> None:
    model = load(name)
    lowered = onnx_lab.lower(model)
    profile = profile_of(onnx_lab, lowered)
    nodes = {(item.op_type, item.name) for item in model.graph.node}
    linked = [(origin.op, origin.name) for row in profile.kernel_rows for origin in row.origins]
    views = {(origin.op, origin.name) for origin in lowered.builtin_origins}
    eliminated = {(origin.op, origin.name) for origin in lowered.eliminated}
    assert all(row.origins and row.task for row in profile.kernel_rows)
    assert set(linked) | views | eliminated == nodes
    assert {op for op, _ in eliminated} <= IDLE | {"Unsqueeze", "Concat", "Gather", "Squeeze"}
    assert sum(task.weight for task in profile.tasks) == len(profile.kernel_rows) == len(lowered.calls)
    assert len({kernel.structural_hash for kernel in kernels_of(onnx_lab, lowered)}) == len(profile.tasks)
    heavy = [item for item in linked if item[0] in ("Conv", "Gemm")]
    assert len(heavy) == len(set(heavy)), "a convolution is in two calls"


def with_random_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with random numbers for its weights, which all have one value: so that no two operators compute the same."""
    random = np.random.default_rng(11)
    shapes = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
    for item in [item for item in model.graph.node if item.op_type == "ConstantOfShape"]:
        shape = [int(size) for size in shapes[item.input[0]]]
        value = random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))
        model.graph.initializer.append(numpy_helper.from_array(value.astype(np.float32), item.output[0]))
        model.graph.node.remove(item)
    return model


def test_every_row_of_squeezenet_computes_the_last_node_of_its_origins(onnx_lab: Any) -> None:
    model = with_random_weights(load("squeezenet"))
    lowered = onnx_lab.lower(model)
    expected = onnx_lab.reference(model, lowered)
    nodes = {item.name: item for item in model.graph.node}
    outputs = onnx_lab.outputs(lowered)
    assert sorted(outputs) == list(range(len(lowered.calls)))
    for index, tensors in outputs.items():
        last = nodes[lowered.calls[index].origins[-1].name]
        value = expected[last.output[0]]
        if last.op_type == "Softmax":  # the reference takes another axis than opset 9 says
            powers = np.exp(expected[last.input[0]].astype(np.float64))
            value = powers / powers.sum()
        np.testing.assert_allclose(tensors[0].ravel(), value.ravel(), rtol=1e-3, atol=1e-5, err_msg=f"row {index}, {last.name}")
        others = [other for name, other in expected.items() if name not in last.output and other.size == value.size and name not in last.input]
        assert last.op_type in ("Softmax", "Dropout") or not any(np.allclose(tensors[0].ravel(), other.ravel(), rtol=1e-3) for other in others)


def convolutions(profile: Profile) -> list[int]:
    return [row.row for row in profile.kernel_rows if any(origin.op == "Conv" for origin in row.origins)]


def products(profile: Profile) -> list[int]:
    return [row.row for row in profile.kernel_rows if any(origin.op in ("Gemm", "MatMul") for origin in row.origins)]


def assert_structure_of_vgg19(profile: Profile) -> None:
    """16 rows of convolutions on 9 tasks, 3 rows of dense layers on 3 tasks."""
    task_of = {row.row: row.task for row in profile.kernel_rows}
    weights = Counter(task_of[row] for row in convolutions(profile))
    assert sorted(weights.values()) == [1, 1, 1, 1, 1, 1, 3, 3, 4]
    assert sum(task.weight for task in profile.tasks if task.task in weights) == 16
    assert [task_of[row] for row in products(profile)] == list(dict.fromkeys(task_of[row] for row in products(profile)))
    assert len(products(profile)) == 3
    assert all(not task.untunable and task.space_size for task in profile.tasks if task.task in weights)


def test_vgg19_has_16_convolutions_on_9_tasks_and_3_dense_layers(onnx_lab: Any) -> None:
    assert_structure_of_vgg19(profile_of(onnx_lab, onnx_lab.lower(load("vgg19"))))


def test_vgg19_in_a_newer_opset_is_the_same(onnx_lab: Any) -> None:
    old, new = (onnx_lab.lower(model) for model in (load("vgg19"), version_converter.convert_version(load("vgg19"), 17)))
    before_softmax = [[structural_hash(lowered.module[call.kernel]) for call in lowered.calls][: 16 + 5 + 3] for lowered in (old, new)]
    assert before_softmax[0] == before_softmax[1]
    assert_structure_of_vgg19(profile_of(onnx_lab, new))


class Vgg19:
    """VGG-19 with an eighth of the channels and real weights, in the form that an exporter may choose."""

    def __init__(self, *, seed: int = 0, bias: str = "input", normalised: bool = False, dense: str = "Gemm", flat: str = "Flatten") -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.weights: dict[str, Array] = {}
        self.value, self.channels = "x", 3
        for item in VGG19:
            if item == "pool":
                self.emit("MaxPool", [self.value], kernel_shape=[2, 2], strides=[2, 2])
            else:
                self.convolution(8 * int(item), bias=bias, normalised=normalised)
        if flat == "Reshape":
            self.weights["flat"] = np.array([0, -1])
            self.emit("Reshape", [self.value, "flat"])
        else:
            self.emit("Flatten", [self.value])
        self.channels *= 49
        for size in (512, 512, 1000):
            self.dense(size, dense)
        self.emit("Softmax", [self.value], axis=1)

    def model(self, lab: Any, batch: int | str) -> onnx.ModelProto:
        return lab.model(self.nodes, {"x": (batch, 3, 224, 224)}, [self.value], self.weights)

    def weight(self, *shape: int) -> str:
        name = f"w{len(self.weights)}"
        self.weights[name] = self.random.random(shape, dtype=np.float32)
        return name

    def emit(self, op: str, inputs: list[str], **attributes: Any) -> None:
        self.value = f"v{len(self.nodes)}"
        self.nodes.append(helper.make_node(op, inputs, [self.value], name=f"node{len(self.nodes)}", **attributes))

    def convolution(self, channels: int, *, bias: str, normalised: bool) -> None:
        kernel = [self.value, self.weight(channels, self.channels, 3, 3)]
        self.emit("Conv", [*kernel, *([self.weight(channels)] if bias == "input" else [])], pads=[1] * 4)
        if bias == "add":
            self.emit("Add", [self.value, self.weight(channels, 1, 1)])
        if normalised:
            self.emit("BatchNormalization", [self.value, *(self.weight(channels) for _ in range(4))])
        self.emit("Relu", [self.value])
        self.channels = channels

    def dense(self, size: int, op: str) -> None:
        if op == "Gemm":
            self.emit("Gemm", [self.value, self.weight(size, self.channels), self.weight(size)], transB=1)
        else:
            self.emit("MatMul", [self.value, self.weight(self.channels, size)])
            self.emit("Add", [self.value, self.weight(size)])
        if size != 1000:
            self.emit("Relu", [self.value])
            self.emit("Dropout", [self.value])
        self.channels = size


FORMS: dict[str, Callable[[], Vgg19]] = {
    "other weights": lambda: Vgg19(seed=1),
    "batch normalisation behind the bias": lambda: Vgg19(normalised=True),
    "batch normalisation instead of the bias": lambda: Vgg19(bias="none", normalised=True),
    "product and sum": lambda: Vgg19(dense="MatMul"),
    "reshaped": lambda: Vgg19(flat="Reshape"),
}


@pytest.mark.parametrize("form", FORMS)
def test_vgg19_in_another_form_has_the_same_kernels(form: str, onnx_lab: Any) -> None:
    plain, other = onnx_lab.lower(Vgg19().model(onnx_lab, 1)), onnx_lab.lower(FORMS[form]().model(onnx_lab, 1))
    hashes = [[structural_hash(lowered.module[call.kernel]) for call in lowered.calls] for lowered in (plain, other)]
    assert hashes[0] == hashes[1]
    assert_structure_of_vgg19(profile_of(onnx_lab, other))


def test_vgg19_with_biases_as_operators_of_their_own_has_the_same_structure(onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(Vgg19(bias="add").model(onnx_lab, 1))
    assert_structure_of_vgg19(profile_of(onnx_lab, lowered))
    assert [lowered.ops[call.kernel] for call in lowered.calls if "conv2d" in lowered.ops[call.kernel]] == [("conv2d", "add", "relu")] * 16


def test_vgg19_with_a_symbolic_batch_has_the_kernels_of_the_batch_that_is_given(onnx_lab: Any) -> None:
    symbolic = onnx_lab.lower(Vgg19().model(onnx_lab, "N"), {"x": (2, 3, 224, 224)})
    fixed = onnx_lab.lower(Vgg19().model(onnx_lab, 2))
    assert [structural_hash(symbolic.module[call.kernel]) for call in symbolic.calls] == [
        structural_hash(fixed.module[call.kernel]) for call in fixed.calls
    ]
    assert_structure_of_vgg19(profile_of(onnx_lab, symbolic))


HASHES = """
import sys, tvm
from pathlib import Path
from workbench.engines.relax.kernels import structural_hash
from workbench.engines.relax.lowering import lower
from workbench.engines.relax.onnx import import_onnx
target = tvm.target.Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2})
lowered = lower(import_onnx(Path(sys.argv[1]), {}), target, fusion=True, on_step=lambda name: None)
print(" ".join(structural_hash(lowered.module[call.kernel]) for call in lowered.calls))
"""


def test_structural_hashes_are_the_same_in_another_process(onnx_lab: Any) -> None:
    model = load("squeezenet")
    lowered = onnx_lab.lower(model)
    here = [structural_hash(lowered.module[call.kernel]) for call in lowered.calls]
    path = os.pathsep.join([str(Path(__file__).parents[2]), *filter(None, [os.environ.get("PYTHONPATH")])])
    for seed in ("1", "2"):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        command = [sys.executable, "-c", HASHES, str(onnx_lab.save(model))]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
        assert answer.stdout.split() == here


def test_a_structural_hash_does_not_depend_on_the_name(onnx_lab: Any) -> None:
    lowered = onnx_lab.lower(onnx_lab.model([helper.make_node("Relu", ["x"], ["y"])], {"x": (2, 3)}, ["y"]))
    function = lowered.module[lowered.calls[0].kernel]
    assert structural_hash(function) == structural_hash(function.with_attr("global_symbol", "other"))
    assert tvm.IRModule({"renamed": function})["renamed"].same_as(function)
