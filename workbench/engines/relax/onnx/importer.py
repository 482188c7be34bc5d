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
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend

from workbench.engines.relax.onnx.reading import check_operators, fix_input_shapes, infer_shapes, node_name, opset_of, read_onnx
from workbench.engines.relax.onnx.simplify import Array, simplify
from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.naming import name_bindings
from workbench.engines.relax.program import Program
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
    model = infer_shapes(model)
    constants = simplify(model)
    check_operators(model)
    importer = _Importer(constants)
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
    return Program(module=name_bindings(module, importer.table), origins=importer.table)


class _Importer(onnx_frontend.ONNXGraphImporter):  # type: ignore[misc]
    """TVM's importer, which tells us nothing about names, made to emit each node under its origin's name."""

    def __init__(self, constants: Mapping[str, Array]) -> None:
        super().__init__({}, {})
        self._constants = constants
        self.table = OriginTable()
        self.current_node = "The graph"

    def _parse_graph_initializers(self, graph: onnx.GraphProto) -> None:
        del graph
        for name, value in self._constants.items():
            self._nodes[name] = relax.const(tvm.runtime.tensor(value))

    def _construct_nodes(self, graph: onnx.GraphProto) -> None:
        for node in graph.node:
            label = node.doc_string if node.op_type == "Add" and node.doc_string == "Sum" else node.op_type
            self._origin = (label, node_name(node))
            self.current_node = f"Node {node_name(node)} ({label})"
            super()._construct_nodes(onnx.GraphProto(node=[node]))

    def _convert_operator(self, op_name: str, inputs: list[Any], attrs: dict[str, Any], opset: int) -> Any:
        value = super()._convert_operator(op_name, inputs, attrs, opset)
        if isinstance(value, tvm.ir.Call) and not isinstance(value.ty, relax.ShapeType):
            return self.bb.emit(value, name_hint=self.table.add(*self._origin))
        if isinstance(value, relax.Var) and not self.table.lookup(value.name):
            self.table.alias(value.name, *self._origin)
        return value
