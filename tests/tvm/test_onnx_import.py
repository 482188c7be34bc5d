"""ONNX models come in as they mean it: what is constant is computed, what cannot be used is named, and the numbers are the reference's."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, defs, helper, numpy_helper

from tests.tvm.networks import node, with_external_weight
from workbench.engines.relax.inputs import random_inputs
from workbench.engines.relax.onnx import import_onnx, reading
from workbench.engines.relax.onnx.reading import name_nodes
from workbench.engines.relax.onnx.simplify import simplify
from workbench.engines.relax.rewriting import bindings_of

Array = np.ndarray[Any, Any]
NEWEST = defs.onnx_opset_version()
ONES = np.ones(2, np.float32)


def assert_right(lab: Any, model: onnx.ModelProto, shapes: dict[str, tuple[int, ...]] | None = None, *, tolerance: float = 1e-4) -> Any:
    """Lower the model, run it, compare all of its outputs with the reference; return what was lowered."""
    lowered = lab.lower(model, shapes)
    expected = lab.reference(model, lowered)
    for output, value in zip(model.graph.output, lab.run(lowered), strict=True):
        assert value.shape == expected[output.name].shape
        assert value.dtype == expected[output.name].dtype
        np.testing.assert_allclose(value, expected[output.name], rtol=tolerance, atol=tolerance)
    return lowered


def names(origins: Any) -> set[str]:
    return {origin.name for origin in origins}


def convolution_network(opset: int, lab: Any) -> onnx.ModelProto:
    """A small network of what every opset has, each operator in the form that the opset asks for."""
    generator = np.random.default_rng(7)
    weights: dict[str, Array] = {
        "w1": generator.standard_normal((4, 3, 3, 3)).astype(np.float32),
        "b1": generator.standard_normal(4).astype(np.float32),
        "w2": generator.standard_normal((4, 1, 3, 3)).astype(np.float32),
        "w3": generator.standard_normal((5, 16)).astype(np.float32),
        "b3": generator.standard_normal(5).astype(np.float32),
        **{name: generator.random(4).astype(np.float32) + 0.5 for name in ("scale", "shift", "mean", "variance")},
    }

    def with_list(op: str, data: str, output: str, values: list[int], *, name: str, since: int, **attributes: Any) -> onnx.NodeProto:
        """An operator whose list of integers became an input in opset `since`."""
        if opset < since:
            return node(op, [data], [output], **{name: values}, **attributes)
        weights[f"{output}_{name}"] = np.array(values)
        return node(op, [data, f"{output}_{name}"], [output], **attributes)

    if opset < 11:
        clip = node("Clip", ["added"], ["clipped"], min=-1.0, max=2.0)
    else:
        weights.update(low=np.array(-1, np.float32), high=np.array(2, np.float32))
        clip = node("Clip", ["added", "low", "high"], ["clipped"])
    nodes = [
        node("Conv", ["x", "w1", "b1"], ["c1"], pads=[1, 1, 1, 1]),
        node("BatchNormalization", ["c1", "scale", "shift", "mean", "variance"], ["n1"]),
        node("Relu", ["n1"], ["r1"]),
        node("Conv", ["r1", "w2"], ["c2"], pads=[1, 1, 1, 1], group=4),
        node("Sum", ["r1", "c2", "r1"], ["added"]),
        clip,
        node("MaxPool", ["clipped"], ["pooled"], kernel_shape=[2, 2], strides=[2, 2]),
        node("AveragePool", ["pooled"], ["averaged"], kernel_shape=[2, 2], strides=[2, 2]),
        node("Dropout", ["averaged"], ["dropped"]),
        with_list("Unsqueeze", "dropped", "wide", [0], name="axes", since=13),
        with_list("Squeeze", "wide", "narrow", [0], name="axes", since=13),
        with_list("ReduceMean", "narrow", "means", [2, 3], name="axes", since=18, keepdims=1),
        node("Sub", ["narrow", "means"], ["centred"]),
        node("Flatten", ["centred"], ["flat"]),
        node("Gemm", ["flat", "w3", "b3"], ["logits"], transB=1),
        node("Softmax", ["logits"], ["y"], axis=1),
    ]
    return lab.model(nodes, {"x": (1, 3, 8, 8)}, ["y"], weights, opset=opset)


@pytest.mark.parametrize("opset", range(7, NEWEST + 1))
def test_a_network_computes_the_same_in_every_opset(opset: int, onnx_lab: Any) -> None:
    model = convolution_network(opset, onnx_lab)
    if opset < 9:  # the reference implementation has no BatchNormalization before opset 9
        lowered = onnx_lab.lower(model)
        np.testing.assert_allclose(
            onnx_lab.run(lowered)[0],
            onnx_lab.reference(convolution_network(14, onnx_lab), lowered)["y"],
            rtol=1e-4,
            atol=1e-5,
        )
    elif opset < 14:  # and before opset 14 it has the one of training
        lowered = onnx_lab.lower(model)
        expected = onnx_lab.reference(convolution_network(14, onnx_lab), lowered)["y"]
        np.testing.assert_allclose(onnx_lab.run(lowered)[0], expected, rtol=1e-4, atol=1e-5)
    else:
        lowered = assert_right(onnx_lab, model)
    assert lowered.ops[lowered.calls[0].kernel] == ("conv2d", "add", "relu")


@pytest.mark.parametrize(
    ("attribute", "value", "expected"),
    [
        ("value", numpy_helper.from_array(ONES), [1, 1]),
        ("value_float", 2.5, 2.5),
        ("value_floats", [1.0, 2.0], [1, 2]),
        ("value_int", 3, 3),
        ("value_ints", [4, 5], [4, 5]),
        (
            "sparse_value",
            helper.make_sparse_tensor(numpy_helper.from_array(ONES, "v"), numpy_helper.from_array(np.array([1, 2]), "i"), [2, 2]),
            [[0, 1], [1, 0]],
        ),
    ],
)
def test_a_constant_of_any_kind_is_computed_at_import(attribute: str, value: Any, expected: Any, onnx_lab: Any) -> None:
    nodes = [node("Constant", [], ["c"], **{attribute: value}), node("Cast", ["c"], ["d"], to=TensorProto.FLOAT), node("Add", ["x", "d"], ["y"])]
    lowered = onnx_lab.lower(onnx_lab.model(nodes, {"x": (3, 2, 2)}, ["y"]))
    assert [names(call.origins) for call in lowered.calls] == [{"y_node"}]
    assert names(lowered.eliminated) == {"c_node", "d_node"}
    np.testing.assert_allclose(onnx_lab.run(lowered)[0], random_inputs(lowered, seed=0)[0] + np.array(expected, np.float32), rtol=1e-6)


def test_a_sparse_initializer_is_an_initializer(onnx_lab: Any) -> None:
    model = onnx_lab.model([node("Mul", ["x", "w"], ["y"])], {"x": (2, 3)}, ["y"])
    values, indices = numpy_helper.from_array(np.array([5, 7], np.float32), "w"), numpy_helper.from_array(np.array([[0, 2], [1, 0]]), "i")
    model.graph.sparse_initializer.append(helper.make_sparse_tensor(values, indices, [2, 3]))
    weight = onnx_lab.lower(model).parameters[0].numpy()
    np.testing.assert_array_equal(weight, [[0, 0, 5], [7, 0, 0]])


def test_a_constant_of_shape_is_zero_where_it_says_nothing(onnx_lab: Any) -> None:
    nodes = [node("ConstantOfShape", ["s"], ["c"]), node("Add", ["x", "c"], ["y"])]
    lowered = assert_right(onnx_lab, onnx_lab.model(nodes, {"x": (3, 2)}, ["y"], {"s": np.array([3, 2])}))
    assert not lowered.parameters[0].numpy().any()


def test_the_reshape_that_pytorch_exports_is_static(onnx_lab: Any) -> None:
    nodes = [
        node("Relu", ["x"], ["a"]),
        node("Shape", ["a"], ["s"]),
        node("Constant", [], ["zero"], value=numpy_helper.from_array(np.array(0))),
        node("Gather", ["s", "zero"], ["batch"], axis=0),
        node("Unsqueeze", ["batch", "axes"], ["batch1"]),
        node("Concat", ["batch1", "rest"], ["shape"], axis=0),
        node("Reshape", ["a", "shape"], ["b"]),
        node("MatMul", ["b", "w"], ["y"]),
    ]
    weights = {"axes": np.array([0]), "rest": np.array([-1]), "w": np.ones((24, 5), np.float32)}
    lowered = assert_right(onnx_lab, onnx_lab.model(nodes, {"x": ("N", 4, 6)}, ["y"], weights), {"x": (2, 4, 6)})
    assert names(lowered.eliminated) == {"s_node", "zero_node", "batch_node", "batch1_node", "shape_node"}
    assert [list(call.origins) for call in lowered.calls][-1][-1].name == "y_node"


@pytest.mark.parametrize(("bounds", "expected"), [({"start": 1}, (4, 6)), ({"end": -1}, (2, 4)), ({"start": -2, "end": 99}, (4, 6)), ({}, (2, 4, 6))])
def test_shape_takes_a_start_and_an_end(bounds: dict[str, int], expected: tuple[int, ...], onnx_lab: Any) -> None:
    nodes = [node("Shape", ["x"], ["s"], **bounds), node("Expand", ["one", "s"], ["e"]), node("Relu", ["x"], ["y"])]
    model = onnx_lab.model(nodes, {"x": (2, 4, 6)}, ["y", "e"], {"one": ONES[:1]})
    assert onnx_lab.run(onnx_lab.lower(model))[1].shape == expected


@pytest.mark.parametrize(("count", "kernels"), [(1, [("relu",)]), (2, [("add", "relu")]), (3, [("add", "add", "relu")])])
def test_a_sum_of_any_length_is_fused_and_keeps_its_name(count: int, kernels: list[tuple[str, ...]], onnx_lab: Any) -> None:
    model = onnx_lab.model([node("Sum", ["x", "z", "x"][:count], ["s"]), node("Relu", ["s"], ["y"])], {"x": (2, 3), "z": (2, 3)}, ["y"])
    lowered = assert_right(onnx_lab, model)
    assert [lowered.ops[call.kernel] for call in lowered.calls] == kernels
    assert [str(origin) for origin in lowered.calls[0].origins] == (["Sum s_node"] if count > 1 else []) + ["Relu y_node"]


@pytest.mark.parametrize(("opset", "inputs"), [(7, ["x"]), (10, ["x"]), (12, ["x", "ratio"]), (13, ["x", "ratio", "mode"])])
@pytest.mark.parametrize("mask", [False, True])
def test_dropout_does_nothing_at_inference(opset: int, inputs: list[str], mask: bool, onnx_lab: Any) -> None:
    outputs = ["d", "m"] if mask else ["d"]
    weights = {"ratio": np.array(0.5, np.float32), "mode": np.array(0, np.bool_)}
    nodes = [node("Dropout", inputs, outputs), node("Relu", ["d"], ["y"])]
    model = onnx_lab.model(nodes, {"x": (2, 3)}, ["y", *outputs[1:]], {name: weights[name] for name in inputs[1:]}, opset=opset)
    lowered = onnx_lab.lower(model)
    results = onnx_lab.run(lowered)
    np.testing.assert_array_equal(results[0], np.maximum(onnx_lab.reference(model, lowered)["x"], 0))
    assert not mask or (results[1].dtype == (np.bool_ if opset >= 10 else np.float32) and results[1].all())
    assert "d_node" in names(lowered.eliminated) | {name for call in lowered.calls for name in names(call.origins)}


def test_a_contributed_operator_that_tvm_converts_is_taken(onnx_lab: Any) -> None:
    gelu = helper.make_node("Gelu", ["x"], ["y"], name="g", domain="com.microsoft")
    lowered = onnx_lab.lower(onnx_lab.model([gelu], {"x": (2, 3)}, ["y"], domains=["com.microsoft"]))
    assert [str(origin) for origin in lowered.calls[0].origins] == ["Gelu g"]


def test_an_unsupported_operator_on_constants_is_no_obstacle(onnx_lab: Any) -> None:
    nodes = [node("Celu", ["w"], ["c"]), node("Add", ["x", "c"], ["y"])]
    assert_right(onnx_lab, onnx_lab.model(nodes, {"x": (2,)}, ["y"], {"w": ONES}))


def test_a_constant_that_the_reference_cannot_compute_is_left_to_tvm(onnx_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(model: onnx.ModelProto) -> None:
        raise NotImplementedError

    monkeypatch.setattr("workbench.engines.relax.onnx.simplify.ReferenceEvaluator", refuse)
    model = onnx_lab.model([node("Abs", ["w"], ["c"]), node("Add", ["x", "c"], ["y"])], {"x": (2,)}, ["y"], {"w": -ONES})
    assert names(onnx_lab.lower(model).eliminated) == {"c_node"}


def test_initializers_may_be_inputs_too(onnx_lab: Any) -> None:
    model = onnx_lab.model([node("Add", ["x", "w"], ["y"])], {"x": (2,), "w": (2,)}, ["y"], {"w": ONES}, opset=9)
    model.ir_version = 3
    assert onnx_lab.lower(model).input_count == 1


def test_a_model_may_return_weights_inputs_and_the_same_value_twice(onnx_lab: Any) -> None:
    nodes = [node("Relu", ["x"], ["y"]), node("Identity", ["y"], ["z"])]
    lowered = assert_right(onnx_lab, onnx_lab.model(nodes, {"x": (2,)}, ["y", "w", "x", "z"], {"w": ONES}))
    assert names(lowered.eliminated) == {"z_node"}


def test_a_dynamic_dimension_gets_the_number_that_is_given(onnx_lab: Any) -> None:
    model = onnx_lab.model([node("MatMul", ["x", "w"], ["y"])], {"x": ("N", 2)}, ["y"], {"w": np.ones((2, 3), np.float32)})
    assert onnx_lab.run(onnx_lab.lower(model, {"x": (5, 2)}))[0].shape == (5, 3)


def test_token_ids_pick_rows_of_the_table(onnx_lab: Any) -> None:
    generator = np.random.default_rng(3)
    weights = {"table": generator.random((50, 8)).astype(np.float32), "w": generator.random((8, 4)).astype(np.float32)}
    nodes = [node("Gather", ["table", "ids"], ["e"]), node("MatMul", ["e", "w"], ["y"])]
    model = onnx_lab.model(nodes, {"ids": (1, "L")}, ["y"], weights, types={"ids": TensorProto.INT64})
    lowered = assert_right(onnx_lab, model, {"ids": (1, 6)})
    assert len(onnx_lab.profiler(lowered).measure(repeat=1).calls) == len(lowered.calls)


@pytest.mark.parametrize(("dtype", "code", "tolerance"), [(np.float16, TensorProto.FLOAT16, 2e-2), (np.float64, TensorProto.DOUBLE, 1e-9)])
def test_other_widths_of_floating_point_stay_what_they_are(dtype: Any, code: int, tolerance: float, onnx_lab: Any) -> None:
    generator = np.random.default_rng(5)
    weights = {"w": generator.random((4, 4, 3, 3)).astype(dtype), **{name: (generator.random(4) + 0.5).astype(dtype) for name in "gbmv"}}
    nodes = [node("Conv", ["x", "w"], ["c"]), node("BatchNormalization", ["c", *"gbmv"], ["n"]), node("Relu", ["n"], ["y"])]
    assert_right(onnx_lab, onnx_lab.model(nodes, {"x": (1, 4, 5, 5)}, ["y"], weights, types={"x": code}), tolerance=tolerance)


def test_sorting_has_a_kernel(onnx_lab: Any) -> None:
    nodes = [node("TopK", ["x", "k"], ["v", "i"]), node("CumSum", ["v", "axis"], ["y"])]
    lowered = assert_right(onnx_lab, onnx_lab.model(nodes, {"x": (4, 9)}, ["y", "i"], {"k": np.array([3]), "axis": np.array(1)}))
    assert [str(origin) for origin in lowered.calls[0].origins] == ["TopK v_node"]


def test_functions_of_the_model_are_inlined(onnx_lab: Any) -> None:
    body = [helper.make_node("Add", ["a", "a"], ["t"]), helper.make_node("Relu", ["t"], ["b"])]
    twice = helper.make_function("my.functions", "Twice", ["a"], ["b"], body, [helper.make_opsetid("", 17)])
    nodes = [helper.make_node("Twice", ["x"], ["y"], name="first", domain="my.functions"), node("Tanh", ["y"], ["z"])]
    model = onnx_lab.model(nodes, {"x": (2, 3)}, ["z"], domains=["my.functions"])
    model.functions.append(twice)
    lowered = onnx_lab.lower(model)
    assert [origin.op for origin in lowered.calls[0].origins] == ["Add", "Relu", "Tanh"]
    np.testing.assert_allclose(onnx_lab.run(lowered)[0], np.tanh(np.maximum(2 * random_inputs(lowered, seed=0)[0], 0)), rtol=1e-5)


def test_nodes_without_a_name_or_with_a_shared_one_are_called_after_their_output() -> None:
    nodes = [
        helper.make_node("Relu", ["x"], [output], name=name) for name, output in [("", "a"), ("same", "b"), ("same", "c"), ("own", "d"), ("", "own")]
    ]
    graph = helper.make_graph(nodes, "graph", [], [])
    name_nodes(graph)
    assert [item.name for item in graph.node] == ["a", "b", "c", "own", "own#2"]


def test_names_of_values_may_look_like_our_own(onnx_lab: Any) -> None:
    nodes = [
        helper.make_node("Relu", ["o0_"], ["lv"], name="lv"),
        helper.make_node("Tanh", ["lv"], ["o0_1"], name="<script>\n'\"\x1b[31m"),
        helper.make_node("Exp", ["o0_1"], ["gv"], name="o1_"),
    ]
    lowered = assert_right(onnx_lab, onnx_lab.model(nodes, {"o0_": (2, 3)}, ["gv"]))
    assert [origin.name for origin in lowered.calls[0].origins] == ["lv", "<script>\n'\"\x1b[31m", "o1_"]


def test_external_data_beside_the_model_are_read(onnx_lab: Any) -> None:
    onnx_lab.folder.joinpath("weights.bin").write_bytes(np.arange(4, dtype=np.float32).tobytes())
    program = import_onnx(with_external_weight(onnx_lab, "weights.bin"), {})
    assert "add" in str(next(bindings_of(program.module["main"])).value)


def test_shape_inference_does_without_the_large_weights(onnx_lab: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    infer = reading.shape_inference.infer_shapes

    def spy(model: onnx.ModelProto, **options: Any) -> onnx.ModelProto:
        seen.append(model.ByteSize())
        return infer(model, **options)

    monkeypatch.setattr(reading.shape_inference, "infer_shapes", spy)
    onnx_lab.program(onnx_lab.model([node("MatMul", ["x", "w"], ["y"])], {"x": (2, 300)}, ["y"], {"w": np.ones((300, 300), np.float32)}))
    assert seen[0] < 1000


def test_simplifying_keeps_the_names_of_nodes_and_only_what_is_read(onnx_lab: Any) -> None:
    nodes = [node("Add", ["v", "w"], ["c"]), node("Sum", ["x", "c", "x"], ["s"]), node("Dropout", ["s"], ["y"])]
    model = onnx_lab.model(nodes, {"x": (2,)}, ["y"], {"v": ONES, "w": ONES, "unread": ONES})
    constants = simplify(model)
    assert list(constants) == ["c"]
    assert [(item.op_type, item.name) for item in model.graph.node] == [("Add", "s_node"), ("Add", "s_node"), ("Identity", "y_node")]
