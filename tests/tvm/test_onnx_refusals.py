"""What of an ONNX model cannot be used is said in one sentence that names it, before anything is built or allocated."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from tests.tvm.networks import node, with_external_weight
from workbench.engines.relax.inputs import random_inputs
from workbench.engines.relax.onnx import import_onnx
from workbench.errors import ModelError

NEWEST = defs.onnx_opset_version()


@pytest.mark.parametrize(
    ("nodes", "label"),
    [
        ([node("Dropout", ["x", "ratio", "mode"], ["y"])], "Dropout in training mode"),
        ([node("BatchNormalization", ["x", "w", "w", "w", "w"], ["y", "m", "v"], training_mode=1)], "BatchNormalization in training mode"),
        ([node("Attention", ["x", "x", "x"], ["y"])], "Attention"),
        ([helper.make_node("Relu", ["x"], ["y"], domain="my.domain")], "my.domain.Relu"),
        ([helper.make_node("Relu", ["x"], ["y"], domain="com.microsoft")], "com.microsoft.Relu"),
        ([node("FastGelu", ["x"], ["y"])], "FastGelu"),
    ],
)
def test_an_operator_that_would_compute_something_else_is_refused(nodes: list[onnx.NodeProto], label: str, onnx_lab: Any) -> None:
    weights = {"ratio": np.array(0.5, np.float32), "mode": np.array(1, np.bool_), "w": np.ones(4, np.float32)}
    model = onnx_lab.model(nodes, {"x": (1, 4, 2, 2)}, ["y"], weights, opset=23, domains=["my.domain", "com.microsoft"])
    with pytest.raises(ModelError, match=f"1 operators of the model are not supported: {label} "):
        onnx_lab.program(model)


def resize(scale: float, op: str = "Resize", **attributes: Any) -> list[onnx.NodeProto]:
    if op == "Upsample":
        return [node(op, ["x"], ["y"], scales=[1.0, 1.0, scale, scale], **attributes)]
    return [node(op, ["x", "", f"scale_{scale:g}"], ["y"], mode="linear", **attributes)]


def inserted(position: str) -> list[onnx.NodeProto]:
    nodes = [node("SequenceConstruct", ["x", "x"], ["q"]), node("SequenceInsert", ["q", "z", position], ["r"])]
    return [*nodes, node("ConcatFromSequence", ["r"], ["y"], axis=0)]


WEIGHTS: dict[str, Any] = {
    "scale_1.3": np.array([1, 1, 1.3, 1.3], np.float32),
    "scale_0.5": np.array([1, 1, 0.5, 0.5], np.float32),
    "scale_2": np.array([1, 1, 2, 2], np.float32),
    "rois": np.array([[0, 0, 3, 3]], np.float32),
    "images": np.zeros(1, np.int64),
    "last": np.array(-1),
    "first": np.array(0),
}


@pytest.mark.parametrize(
    ("nodes", "label", "opset"),
    [
        (resize(1.3), "Resize by 1.3, no whole number for a size of 6", 18),
        (resize(0.5, antialias=1), "Resize with antialias=1", 18),
        (resize(1.3, "Upsample", mode="linear"), "Upsample by 1.3, no whole number for a size of 6", 8),
        (resize(2.0, "Upsample"), "Upsample with mode=nearest", 8),
        ([node("IsInf", ["x"], ["y"], detect_positive=0)], "IsInf with detect_positive=0", 18),
        ([node("IsInf", ["x"], ["y"], detect_negative=0)], "IsInf with detect_negative=0", 18),
        ([node("RoiAlign", ["x", "rois", "images"], ["y"], mode="max")], "RoiAlign with mode=max", 16),
        ([node("SpaceToDepth", ["x"], ["y"], blocksize=2, mode="CRD")], "SpaceToDepth with mode=CRD", 13),
        (inserted("last"), "SequenceInsert at a position counted from the end", 18),
    ],
)
def test_a_form_of_an_operator_that_tvm_computes_wrongly_is_refused(nodes: list[onnx.NodeProto], label: str, opset: int, onnx_lab: Any) -> None:
    inputs = {name: (1, 2, 6, 6) for name in ("x", "z") if any(name in one.input for one in nodes)}
    with pytest.raises(ModelError, match=rf"1 operators of the model are not supported: {label} \(x1, first at [ry]_node\)"):
        onnx_lab.program(onnx_lab.model(nodes, inputs, ["y"], WEIGHTS, opset=opset))


@pytest.mark.parametrize(
    ("nodes", "opset"),
    [
        (resize(2.0), 18),
        (resize(0.5), 18),
        ([node("DepthToSpace", ["x"], ["y"], blocksize=2, mode="CRD")], 13),
        ([node("SpaceToDepth", ["x"], ["y"], blocksize=2)], 13),
        ([node("RoiAlign", ["x", "rois", "images"], ["y"], output_height=2, output_width=2)], 16),
        ([node("Mod", ["x", "z"], ["y"], fmod=1)], 18),
        (inserted("first"), 18),
        ([node("SequenceConstruct", ["x", "z"], ["q"]), node("SequenceErase", ["q", "first"], ["r"]), node("SequenceAt", ["r", "first"], ["y"])], 18),
    ],
)
def test_the_forms_beside_them_are_accepted_and_right(nodes: list[onnx.NodeProto], opset: int, onnx_lab: Any) -> None:
    inputs = {name: (1, 4, 6, 6) for name in ("x", "z") if any(name in one.input for one in nodes)}
    model = onnx_lab.model(nodes, inputs, ["y"], WEIGHTS, opset=opset)
    lowered = onnx_lab.lower(model)
    feeds = dict(zip(inputs, random_inputs(lowered, seed=0), strict=True))
    expected: Any = ReferenceEvaluator(model).run(None, feeds)
    np.testing.assert_allclose(onnx_lab.run(lowered)[0], np.asarray(expected[0]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("dtype", ["int4", "uint4"])
def test_an_input_of_less_than_a_byte_is_named(dtype: str, onnx_lab: Any) -> None:
    types = {"x": TensorProto.DataType.Value(dtype.upper())}
    model = onnx_lab.model([node("Cast", ["x"], ["y"], to=TensorProto.FLOAT)], {"x": (2, 2)}, ["y"], opset=21, types=types)
    with pytest.raises(ModelError, match=f"Input x is of type {dtype}, of which no input data can be made"):
        onnx_lab.run(onnx_lab.lower(model))


@pytest.mark.parametrize("op", ["Div", "Mod"])
def test_an_integer_division_by_an_input_is_no_division_by_zero(op: str, onnx_lab: Any) -> None:
    types = {"x": TensorProto.INT32, "z": TensorProto.INT32}
    lowered = onnx_lab.lower(onnx_lab.model([node(op, ["x", "z"], ["y"])], {"x": (8,), "z": (8,)}, ["y"], types=types))
    assert set(onnx_lab.run(lowered)[0]) == {int(op == "Div")}


def test_a_node_whose_converter_gives_another_shape_than_onnx_is_refused(onnx_lab: Any) -> None:
    nodes = [node("LayerNormalization", ["x", "w"], ["n", "mean"]), node("Add", ["n", "mean"], ["y"])]
    model = onnx_lab.model(nodes, {"x": (2, 4)}, ["y"], {"w": np.ones(4, np.float32)})
    with pytest.raises(ModelError, match=r"Node n_node \(LayerNormalization\) gives float32 \[\] in TVM, but float32 \[2, 1\] in ONNX"):
        onnx_lab.program(model)


def test_an_output_that_nobody_reads_may_be_what_it_likes(onnx_lab: Any) -> None:
    model = onnx_lab.model([node("LayerNormalization", ["x", "w"], ["y", "mean"])], {"x": (2, 4)}, ["y"], {"w": np.ones(4, np.float32)})
    assert [str(origin) for origin in onnx_lab.lower(model).calls[0].origins] == ["LayerNormalization y_node"]


def test_all_unsupported_operators_are_listed_at_once(onnx_lab: Any) -> None:
    branch = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["q"])], "branch", [], [helper.make_tensor_value_info("q", TensorProto.FLOAT, (2, 3))]
    )
    nodes = [
        node("If", ["c"], ["i"], then_branch=branch, else_branch=branch),
        node("LSTM", ["x", "x", "x"], ["l"]),  # whose shapes do not fit, which is the lesser trouble
        node("Foo", ["x"], ["f1"]),
        node("Foo", ["x"], ["f2"]),
    ]
    model = onnx_lab.model(nodes, {"x": (2, 3), "c": ()}, ["i", "l", "f1", "f2"], types={"c": TensorProto.BOOL})
    with pytest.raises(ModelError) as caught:
        onnx_lab.program(model)
    assert "3 operators" in caught.value.message
    assert "Foo (x2, first at f1_node), If (x1, first at i_node), LSTM (x1, first at l_node)" in caught.value.message


@pytest.mark.parametrize("opset", [6, NEWEST + 1, 0])
def test_an_opset_outside_of_what_is_known_is_refused(opset: int, onnx_lab: Any) -> None:
    model = onnx_lab.model([node("Relu", ["x"], ["y"])], {"x": (2,)}, ["y"], opset=opset)
    with pytest.raises(ModelError, match=f"needs ONNX opset {opset}; this installation supports 7 to {NEWEST}"):
        onnx_lab.program(model)


@pytest.mark.parametrize(
    ("declared", "given", "message"),
    [
        ({"x": ("N", 3), "z": ("N", None, 7)}, {}, r"dynamic dimensions: x \(N, 3\), z \(N, \?, 7\)"),
        ({"x": ("N", 3), "z": (2,)}, {"x": (5, 3, 1)}, r"\(5, 3, 1\) does not fit input x, which is declared as \(N, 3\)"),
        ({"x": ("N", 3), "z": (2,)}, {"x": (5, 4)}, r"\(5, 4\) does not fit input x, which is declared as \(N, 3\)"),
        ({"x": ("N", 3), "z": (2,)}, {"q": (5, 4)}, r"no input named q\. Its inputs are: x \(N, 3\), z \(2\)"),
        ({"x": ("N", 3), "z": (2,)}, {"x": (0, 3)}, "a dimension that is not positive"),
        ({"x": ("N", 3), "z": (2,)}, {"x": (-1, 3)}, "a dimension that is not positive"),
        ({"x": (0, 3), "z": (2,)}, {}, r"a dimension of size 0: x \(0, 3\)\. .*--shape x=1,3"),
        ({"x": (0, 3), "z": ("N",)}, {"z": (2,)}, r"a dimension of size 0: x \(0, 3\)"),
        ({"x": None, "z": (2,)}, {}, r"dynamic dimensions: x \(unknown rank\)"),
    ],
)
def test_shapes_that_are_missing_or_do_not_fit_are_named(
    declared: dict[str, Any], given: dict[str, tuple[int, ...]], message: str, onnx_lab: Any
) -> None:
    model = onnx_lab.model([node("Relu", ["x"], ["y"]), node("Relu", ["z"], ["v"])], declared, ["y", "v"])
    with pytest.raises(ModelError, match=message):
        onnx_lab.program(model, given)


def test_shapes_that_do_not_fit_the_weights_are_refused(onnx_lab: Any) -> None:
    model = onnx_lab.model([node("MatMul", ["x", "w"], ["y"])], {"x": ("N", "M")}, ["y"], {"w": np.ones((2, 3), np.float32)})
    with pytest.raises(ModelError, match=r"do not fit together: .*y_node"):
        onnx_lab.program(model, {"x": (5, 4)})


def _sequence(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_sequence_value_info(name, TensorProto.FLOAT, (2,))


def _optional(name: str) -> onnx.ValueInfoProto:
    value = onnx.ValueInfoProto(name=name)
    value.type.optional_type.elem_type.tensor_type.elem_type = TensorProto.FLOAT
    return value


def _strings(name: str) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, TensorProto.STRING, (2,))


@pytest.mark.parametrize(("make", "kind"), [(_sequence, "sequence"), (_optional, "optional"), (_strings, "strings")])
def test_an_input_that_is_no_tensor_of_numbers_is_refused(make: Callable[[str], onnx.ValueInfoProto], kind: str, onnx_lab: Any) -> None:
    model = onnx_lab.model([node("Identity", ["x"], ["y"])], {}, ["y"])
    model.graph.input.append(make("x"))
    with pytest.raises(ModelError, match=f"Input x is .*{kind}"):
        onnx_lab.program(model)


@pytest.mark.parametrize(
    ("inputs", "outputs", "message"),
    [
        (["x", "nope"], ["y"], r"Node y_node \(Add\) reads nope, which nothing before it computes"),
        (["x", "x"], ["z"], "No node computes the output z"),
    ],
)
def test_values_that_nobody_computes_are_named(inputs: list[str], outputs: list[str], message: str, onnx_lab: Any) -> None:
    with pytest.raises(ModelError, match=message):
        onnx_lab.program(onnx_lab.model([node("Add", inputs, ["y"])], {"x": (2,)}, outputs))


@pytest.mark.parametrize("location", ["missing.bin", "../outside.bin", "/etc/passwd", "link.bin", "short.bin"])
def test_external_data_that_are_missing_or_elsewhere_are_refused(location: str, onnx_lab: Any) -> None:
    onnx_lab.folder.joinpath("short.bin").write_bytes(b"\0" * 8)
    onnx_lab.folder.joinpath("link.bin").symlink_to("/etc/passwd")
    path = with_external_weight(onnx_lab, location)
    with pytest.raises(ModelError, match=r"external data cannot be read|weight w is damaged"):
        import_onnx(path, {})


@pytest.mark.parametrize("content", [b"", b"\x08\x07\x12", b"not a model at all", bytes(range(256))])
def test_a_file_that_is_no_model_is_refused(content: bytes, onnx_lab: Any) -> None:
    path = onnx_lab.folder / "broken.onnx"
    path.write_bytes(content)
    with pytest.raises(ModelError, match="no ONNX"):
        import_onnx(path, {})


def test_every_prefix_of_a_model_is_refused_or_is_a_model(onnx_lab: Any) -> None:
    nodes = [node("Conv", ["x", "w"], ["c"]), node("Relu", ["c"], ["y"])]
    whole = onnx_lab.model(nodes, {"x": (1, 3, 8, 8)}, ["y"], {"w": np.ones((4, 3, 3, 3), np.float32)}).SerializeToString()
    path = onnx_lab.folder / "cut.onnx"
    for size in range(1, len(whole), len(whole) // 40):
        path.write_bytes(whole[:size])
        with pytest.raises(ModelError):
            import_onnx(path, {})


def test_a_sparse_initializer_with_indices_outside_is_refused(onnx_lab: Any) -> None:
    model = onnx_lab.model([node("Mul", ["x", "w"], ["y"])], {"x": (2, 3)}, ["y"])
    values, indices = numpy_helper.from_array(np.array([5], np.float32), "w"), numpy_helper.from_array(np.array([17]), "i")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    with pytest.raises(ModelError, match="sparse weight w is damaged"):
        onnx_lab.program(model)


@pytest.mark.parametrize(
    ("sizes", "nodes"),
    [
        ([10**9, 10**6], [node("ConstantOfShape", ["s"], ["c"])]),
        ([10**5, 10**5], [node("Mul", ["s", "s"], ["t"]), node("ConstantOfShape", ["t"], ["c"])]),
        ([10**6, 10**6], [node("Expand", ["one", "s"], ["c"])]),
    ],
    ids=["ConstantOfShape", "of a computed shape", "Expand"],
)
def test_a_constant_larger_than_the_memory_is_refused_before_it_is_made(sizes: list[int], nodes: list[onnx.NodeProto], onnx_lab: Any) -> None:
    weights = {"s": np.array(sizes), "one": np.ones((1, 1), np.float32)}
    model = onnx_lab.model([*nodes, node("Add", ["x", "c"], ["y"])], {"x": (1, 1)}, ["y"], weights)
    with pytest.raises(ModelError, match=r"more than this machine has free \(node c_node\)"):
        onnx_lab.program(model)
