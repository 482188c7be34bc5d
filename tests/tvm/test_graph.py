"""Source graph and kernel graph of imported models: as many nodes and edges as the model has, tied to the rows exactly, and blocks that repeat."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper
from tvm import te

from workbench.engines.relax.lowering import Lowered, lower
from workbench.engines.relax.onnx.reading import name_nodes
from workbench.engines.relax.program import Program
from workbench.engines.relax.relax_import import import_tvmscript
from workbench.engines.relax.relay import import_relay
from workbench.engines.relax.te_import import import_workload
from workbench.graphs import find_repeats, source_units, without_constants
from workbench.models import bundled_models, resolve_model
from workbench.records.graph import INPUT, KERNEL, OPERATOR, OUTPUT, ModelGraph, SourceNode

NETWORKS = [model.name for model in bundled_models() if model.kind == "onnx"]


def lowered(program: Program, lab: Any) -> Lowered:
    return lower(program, lab.target, fusion=True, on_step=lambda name: None)


def graph_of(result: Lowered) -> ModelGraph:
    assert result.graph is not None
    assert_tied(result, result.graph)
    return result.graph


def assert_tied(result: Lowered, graph: ModelGraph) -> None:
    """Rows have the origins of the nodes that say so, and nothing is lost."""
    assert ModelGraph.from_dict(graph.to_dict()) == graph
    calls = [node for node in graph.kernels if node.kind == KERNEL]
    assert [node.name for node in calls] == [call.kernel for call in result.calls]
    operators = [node for node in graph.source if node.kind == OPERATOR]
    for row, call in enumerate(result.calls):
        assert {node.origin for node in operators if row in node.rows} == set(call.origins)
    assert {node.origin for node in operators if node.builtin} == set(result.builtin_origins)
    alive = {node.origin for node in operators if node.state != "eliminated"}
    assert {node.origin for node in operators} - alive == set(result.eliminated)
    parameters = [parameter.name for parameter in result.module["main"].params][: result.input_count]
    assert len([node for node in graph.kernels if node.kind == INPUT]) == len(parameters)
    written = {node.row: node.outputs for node in calls}
    assert all(tensors and all(size > 0 for tensor in tensors for size in tensor.shape) for tensors in written.values())


def named(nodes: Iterable[SourceNode]) -> dict[str, SourceNode]:
    return {node.origin.name: node for node in nodes}


def edges_of(nodes: tuple[SourceNode, ...]) -> set[tuple[str, str]]:
    return {(nodes[read].origin.name, node.origin.name) for node in nodes for read in node.reads}


@pytest.mark.parametrize("name", NETWORKS)
def test_the_graph_of_a_bundled_network_is_that_of_its_file(name: str, onnx_lab: Any) -> None:
    model = onnx.load(resolve_model(name).path)
    name_nodes(model.graph)
    graph = graph_of(onnx_lab.lower(model))
    weights = {tensor.name for tensor in model.graph.initializer}
    writer = {output: node.name for node in model.graph.node for output in node.output}
    writer.update((value.name, value.name) for value in model.graph.input if value.name not in weights)
    expected = {(writer[value], node.name) for node in model.graph.node for value in node.input if value in writer}
    expected |= {(writer[output.name], output.name) for output in model.graph.output}
    assert edges_of(graph.source) == expected
    assert [node.origin.name for node in graph.source if node.kind == OUTPUT] == [output.name for output in model.graph.output]
    convolution = next(node for node in graph.source if node.origin.op == "Conv")
    assert convolution.attributes["kernel_shape"].startswith("[")
    assert len(convolution.outputs[0].shape) == 4


@pytest.mark.parametrize(("name", "copies"), [("resnet50", {2, 3, 5}), ("vgg19", {3}), ("densenet121", {11, 15, 23}), ("squeezenet", {2, 3})])
def test_the_repeated_blocks_of_a_bundled_network_are_found(name: str, copies: set[int], onnx_lab: Any) -> None:
    graph = graph_of(onnx_lab.lower(onnx.load(resolve_model(name).path)))
    _, units = without_constants(source_units(graph))
    repeats = find_repeats([unit.label for unit in units], [unit.reads for unit in units])
    assert {repeat.copies for repeat in repeats} >= copies
    shown = len(units) - sum(repeat.size * (repeat.copies - 1) for repeat in repeats)
    assert shown < 0.8 * len(units)


def test_what_is_computed_before_the_run_and_what_does_nothing_is_in_the_graph_too(onnx_lab: Any) -> None:
    nodes = [
        helper.make_node("Constant", [], ["k"], name="constant", value=helper.make_tensor("v", TensorProto.FLOAT, [1], [2.0])),
        helper.make_node("Mul", ["x", "k"], ["a"], name="scale"),
        helper.make_node("Dropout", ["a"], ["b"], name="idle"),
        helper.make_node("Flatten", ["b"], ["c"], name="view"),
        helper.make_node("Sum", ["c", "c", "c"], ["y"], name="total"),
    ]
    graph = graph_of(onnx_lab.lower(onnx_lab.model(nodes, {"x": (1, 4, 6)}, ["y"])))
    found = named(graph.source)
    assert {name: found[name].state for name in ("constant", "idle", "total")} == {"constant": "eliminated", "idle": "eliminated", "total": "called"}
    assert found["constant"].attributes["value"] == "float32 (1) = [2.0]"
    assert edges_of(graph.source) == {("x", "scale"), ("constant", "scale"), ("scale", "idle"), ("idle", "view"), ("view", "total"), ("total", "y")}
    assert [graph.source[read].origin.name for read in found["total"].reads] == ["view"] * 3


def test_the_kernel_graph_sees_through_views_and_says_which_inputs_reach_a_row(onnx_lab: Any) -> None:
    nodes = [
        helper.make_node("Softmax", ["x"], ["a"], name="a"),
        helper.make_node("Flatten", ["a"], ["b"], name="b"),
        helper.make_node("MatMul", ["b", "z"], ["c"], name="c"),
        helper.make_node("Softmax", ["c"], ["d"], name="d"),
    ]
    graph = graph_of(onnx_lab.lower(onnx_lab.model(nodes, {"x": (2, 4, 6), "z": (24, 3)}, ["d", "a"])))
    names = [node.name for node in graph.kernels]
    reads = [[names[read] for read in node.reads] for node in graph.kernels]
    first, second, third = [index for index, node in enumerate(graph.kernels) if node.kind == KERNEL]
    assert reads[first] == ["x"]
    assert reads[second] == [names[first], "z"]
    assert reads[third] == [names[second]]
    outputs = [(node.name, reads[index]) for index, node in enumerate(graph.kernels) if node.kind == OUTPUT]
    assert outputs == [("d", [names[third]]), ("a", [names[first]])]


def test_the_graph_of_a_relay_text_has_its_variables_places_and_attributes(onnx_lab: Any) -> None:
    text = """#[version = "0.0.5"]
def @main(%data: Tensor[(1, 4, 8, 8), float32], %w: Tensor[(4, 4, 3, 3), float32]) {
  %0 = fn (%a: Tensor[(1, 4, 8, 8), float32]) { nn.relu(%a) };
  %1 = nn.conv2d(%data, %w, padding=[1, 1, 1, 1], channels=4, kernel_size=[3, 3]);
  %2 = %0(%1);
  %3 = nn.dropout(%2);
  %4 = %3.0;
  %5 = %0(%4);
  (%5, %2)
}"""
    graph = graph_of(lowered(import_relay(text), onnx_lab))
    operators = [node for node in graph.source if node.kind == OPERATOR]
    assert [node.origin.op for node in operators][:4] == ["nn.conv2d", "nn.relu", "nn.dropout", "nn.relu"]
    convolution = operators[0]
    assert (convolution.origin.location, convolution.attributes["kernel_size"]) == ("line 4", "[3, 3]")
    assert [str(tensor) for tensor in convolution.weights] == ["(4, 4, 3, 3)"]
    reads = [[graph.source[read].origin.op for read in node.reads] for node in operators[:4]]
    assert reads == [[""], ["nn.conv2d"], ["nn.relu"], ["nn.dropout"]]
    outputs = [node for node in graph.source if node.kind == OUTPUT]
    assert [str(tensor) for node in outputs for tensor in node.outputs] == ["(1, 4, 8, 8)"] * 2


def test_the_graph_of_a_te_workload_has_its_stages_and_loops(onnx_lab: Any) -> None:
    def matmul_relu(size: int) -> list[Any]:
        left, right = te.placeholder((size, size), name="A"), te.placeholder((size, size), name="B")
        k = te.reduce_axis((0, size), name="k")
        product = te.compute((size, size), lambda i, j: te.sum(left[i, k] * right[k, j], axis=k), name="C")
        return [left, right, te.compute((size, size), lambda i, j: te.max(product[i, j], 0.0), name="D")]

    graph = graph_of(lowered(import_workload(matmul_relu, [32], name="matmul_relu"), onnx_lab))
    found = named(graph.source)
    assert found["C"].attributes["over"] == "[k < 32]"
    assert found["C"].attributes["axes"] == "[i < 32, j < 32]"
    assert edges_of(graph.source) == {("A", "C"), ("B", "C"), ("C", "D"), ("D", "D")}
    assert found["C"].rows == (0,)


RELAX = """
from tvm.script import ir as I, relax as R

@I.ir_module
class Module:
    @R.function
    def main(x: R.Tensor((2, 3, 8, 8), "float32"), w: R.Tensor((4, 3, 3, 3), "float32")):
        with R.dataflow():
            a = R.nn.conv2d(x, w, padding=[1, 1, 1, 1])
            b = R.split(a, 2, axis=1)
            c = b[0]
            d = R.nn.relu(c)
            e = R.reshape(d, R.shape([2, 128]))
            f = R.add(b[1], R.const(1.0, "float32"))
            R.output(e, f)
        return (e, f)
"""


def test_the_graph_of_a_relax_module_has_its_bindings_and_attributes(onnx_lab: Any, tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text(RELAX)
    graph = graph_of(lowered(import_tvmscript(path), onnx_lab))
    found = named(graph.source)
    assert found["a"].attributes["padding"] == "[1, 1, 1, 1]"
    assert found["e"].attributes["shape"] == "[2, 128]"
    assert [str(tensor) for tensor in found["b"].outputs] == ["(2, 2, 8, 8)", "(2, 2, 8, 8)"]
    assert edges_of(graph.source) == {
        ("x", "a"), ("w", "a"), ("a", "b"), ("b", "d"), ("d", "e"), ("b", "f"), ("e", "output 0"), ("f", "output 1"),
    }  # fmt: skip


@pytest.mark.torch
def test_the_graph_of_an_exported_program_has_the_users_own_operators(onnx_lab: Any, tmp_path: Path) -> None:
    import torch  # noqa: PLC0415 - only this test needs it

    from workbench.engines.relax.torch_import import import_exported_program  # noqa: PLC0415 - as above

    layers = (torch.nn.Conv2d(3, 4, 3, padding=1), torch.nn.BatchNorm2d(4), torch.nn.ReLU(), torch.nn.Dropout(), torch.nn.Flatten())
    network = torch.nn.Sequential(*layers)
    path = tmp_path / "network.pt2"
    torch.export.save(torch.export.export(network.eval(), (torch.zeros(1, 3, 8, 8),)), str(path))
    graph = graph_of(lowered(import_exported_program(path, {}), onnx_lab))
    operators = [node for node in graph.source if node.kind == OPERATOR]
    assert [node.origin.op for node in operators][:2] == ["aten.conv2d.default", "aten.batch_norm.default"]
    assert [str(tensor) for tensor in operators[0].weights] == ["(4, 3, 3, 3)", "(4)"]
    assert all(node.reads for node in operators)
    assert [node.origin.name for node in graph.source if node.kind == INPUT] == ["input"]
