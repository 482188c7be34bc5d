"""Turns a simplified ONNX graph into Relax, every binding named after the node it came from."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import onnx
import tvm
from onnx import helper
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from workbench.engines.relax.fold import constant
from workbench.engines.relax.naming import name_bindings
from workbench.engines.relax.onnx.reading import Array, check_operators, fix_input_shapes, infer_shapes, opset_of, read_onnx, static_shape
from workbench.engines.relax.onnx.simplify import simplify
from workbench.engines.relax.onnx.source_graph import describe_onnx
from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.program import Program
from workbench.engines.relax.rewriting import is_static
from workbench.errors import ModelError
from workbench.escaping import plain


def import_onnx(path: Path, shapes: Mapping[str, tuple[int, ...]]) -> Program:
    """Import an ONNX file.

    Args:
        path: The model file; external data beside it.
        shapes: Numbers for the inputs that have dynamic dimensions.

    Raises:
        ModelError: The file, an operator, a shape or the opset cannot be used; the message names it.
    """
    model = read_onnx(path)
    opset = opset_of(model)
    fix_input_shapes(model, shapes)
    try:
        infer_shapes(model)
    except ModelError:
        check_operators(model, None)  # says more than shapes that do not fit, where there is anything to say
        raise
    table = OriginTable()
    hints = {node.name: table.add(node.op_type, node.name) for node in model.graph.node}
    graph = describe_onnx(model, {name: table.numbers(hint)[0] for name, hint in hints.items()})
    constants = simplify(model)
    check_operators(model, constants)
    importer = _Importer(constants, table, hints)
    noise = io.StringIO()
    with warnings.catch_warnings(), contextlib.redirect_stdout(noise):  # TVM's frontend prints failures to stdout
        warnings.simplefilter("ignore")
        try:
            module = importer.from_onnx(model.graph, opset)
        except ModelError:
            raise
        except Exception as error:  # the frontend raises any class of error on a node it cannot convert
            where = plain(importer.current_node, 80)
            raise ModelError(f"{where} cannot be imported: {plain(str(error), 300)}", "Export the model with another opset.") from error
    return Program(module=name_bindings(module, table), origins=table, graph=graph)


class _Importer(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]  # TVM has no types
    """TVM's importer, which tells us nothing about names, made to emit each node under its origin's name."""

    def __init__(self, constants: Mapping[str, Array], table: OriginTable, hints: Mapping[str, str]) -> None:
        super().__init__({}, {})
        self._constants = constants
        self._table = table
        self._hints = hints
        self._hint = ""
        self.current_node = "The graph"

    def _parse_graph_initializers(self, graph: onnx.GraphProto) -> None:
        del graph
        for name, value in self._constants.items():
            self._nodes[name] = constant(value)

    def _construct_nodes(self, graph: onnx.GraphProto) -> None:
        declared = {value.name: value for value in [*graph.value_info, *graph.output]}
        read = {name for node in graph.node for name in node.input} | {output.name for output in graph.output}
        for node in graph.node:
            self._hint = self._hints[node.name]
            self.current_node = f"Node {node.name} ({node.op_type})"
            super()._construct_nodes(onnx.GraphProto(node=[node]))
            for name in read.intersection(node.output):
                self._check_type(self._nodes[name], declared.get(name))

    def _check_type(self, value: Any, declared: onnx.ValueInfoProto | None) -> None:
        """Raise ModelError if TVM's converter gives a tensor of another shape or type than ONNX does: it then computes something else."""
        shape = static_shape(declared)
        if declared is None or shape is None or not isinstance(value.ty, relax.TensorType) or not is_static(value.ty):
            return
        found = ([int(size) for size in value.ty.shape.values], str(value.ty.dtype))
        expected = (shape, str(helper.tensor_dtype_to_np_dtype(declared.type.tensor_type.elem_type)))
        if found != expected:
            raise ModelError(
                f"{plain(self.current_node, 80)} gives {found[1]} {found[0]} in TVM, but {expected[1]} {expected[0]} in ONNX.",
                "TVM's converter does not do what the model says: replace the operator.",
            )

    def _convert_operator(self, op_name: str, inputs: list[Any], attrs: dict[str, Any], opset: int) -> Any:
        return self._named(super()._convert_operator(op_name, inputs, attrs, opset))

    def _named(self, value: Any) -> Any:
        """The value, bound under the node's origin if it is not yet bound; what the converter bound itself gets that origin, too."""
        if isinstance(value, relax.Tuple):
            return self.bb.normalize(relax.Tuple([self._named(field) for field in value.fields]))
        if isinstance(value, tvm.ir.Call | relax.TupleGetItem) and not isinstance(value.ty, relax.ShapeType):
            return self.bb.emit(value, name_hint=self._hint)
        own = isinstance(value, relax.Var) and not any(value.same_as(parameter) for parameter in self._inputs.values())
        if own and self._table.index(value.name) is None:
            self._table.alias(value.name, self._hint)
        return value
