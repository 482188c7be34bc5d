"""`onnx_lab`: builds small ONNX models, lowers them, runs them, and asks ONNX's reference implementation what every value should be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
import tvm
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from workbench.engines.relax.build import build
from workbench.engines.relax.hollow import hollow_machine
from workbench.engines.relax.inputs import on_device, random_inputs
from workbench.engines.relax.lowering import Lowered, lower
from workbench.engines.relax.onnx import import_onnx
from workbench.engines.relax.profiler import Profiler
from workbench.engines.relax.program import Program

Array = np.ndarray[Any, Any]
Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class OnnxLab:
    """What the tests of the ONNX path share; all of it is deterministic."""

    folder: Path
    target: Any

    @staticmethod
    def model(
        nodes: Sequence[onnx.NodeProto],
        inputs: Mapping[str, Sequence[int | str | None] | None],
        outputs: Sequence[str],
        weights: Mapping[str, Array] | None = None,
        *,
        opset: int = 17,
        types: Mapping[str, int] | None = None,
        domains: Sequence[str] = (),
    ) -> onnx.ModelProto:
        graph = helper.make_graph(
            nodes,
            "graph",
            [helper.make_tensor_value_info(name, (types or {}).get(name, TensorProto.FLOAT), shape) for name, shape in inputs.items()],
            [helper.make_empty_tensor_value_info(name) for name in outputs],
            [numpy_helper.from_array(value, name) for name, value in (weights or {}).items()],
        )
        opsets = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=10)

    def save(self, model: onnx.ModelProto) -> Path:
        path = self.folder / "model.onnx"
        path.write_bytes(model.SerializeToString())
        return path

    def program(self, model: onnx.ModelProto, shapes: Shapes | None = None) -> Program:
        return import_onnx(self.save(model), shapes or {})

    def lower(self, model: onnx.ModelProto, shapes: Shapes | None = None, *, fusion: bool = True) -> Lowered:
        return lower(self.program(model, shapes), self.target, fusion=fusion, on_step=lambda name: None)

    def profiler(self, lowered: Lowered) -> Profiler:
        built = build(lowered.module, self.target)
        arguments = on_device(lowered, built.device, seed=0)
        results = dict(lowered.result_counts)
        return Profiler(built, arguments, lowered.calls, results=results, hollow=lambda: hollow_machine(lowered.module, arguments))

    def outputs(self, lowered: Lowered) -> dict[int, list[Array]]:
        """Outputs of every kernel call."""
        return self.profiler(lowered).outputs(range(len(lowered.calls)))

    def run(self, lowered: Lowered) -> list[Array]:
        """Outputs of the whole model."""
        built = build(lowered.module, self.target)
        result = tvm.relax.VirtualMachine(built.executable, built.device)["main"](*on_device(lowered, built.device, seed=0))
        return [result.numpy()] if hasattr(result, "numpy") else [item.numpy() for item in result]

    @staticmethod
    def reference(model: onnx.ModelProto, lowered: Lowered) -> dict[str, Array]:
        """Every value that the model computes, for the inputs that the profiler uses."""
        weights = {tensor.name for tensor in model.graph.initializer}
        inputs = [value.name for value in model.graph.input if value.name not in weights]
        feeds = dict(zip(inputs, random_inputs(lowered, seed=0), strict=True))
        exposed = onnx.ModelProto()
        exposed.CopyFrom(model)
        names = [name for node in model.graph.node for name in node.output if name]
        del exposed.graph.output[:]
        exposed.graph.output.extend(helper.make_empty_tensor_value_info(name) for name in names)
        with np.errstate(all="ignore"):
            values = ReferenceEvaluator(exposed).run(names, feeds)
        known = {tensor.name: numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        return {**feeds, **known, **dict(zip(names, map(np.asarray, values), strict=True))}


@pytest.fixture
def onnx_lab(tmp_path: Path) -> OnnxLab:
    return OnnxLab(tmp_path, tvm.target.Target({"kind": "llvm", "mcpu": "x86-64", "num-cores": 2}))
