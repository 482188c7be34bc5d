"""A model beside what onnxruntime makes of its source, in the form that crosses to a process of its own; a stand-in for onnxruntime runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from workbench.engines import onnx_reference
from workbench.engines.apply_protocol import OutputsCompared
from workbench.isolation import Message
from workbench.records.decode import decode

STAND_IN = """
from onnx.reference import ReferenceEvaluator


class SessionOptions:
    log_severity_level = 2


class InferenceSession:
    def __init__(self, path, options, providers):
        self._evaluator = ReferenceEvaluator(path)

    def run(self, names, inputs):
        return self._evaluator.run(names, inputs)
"""
DATA = np.linspace(-1.0, 1.0, 12, dtype=np.float32).reshape(3, 4)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    nodes = [helper.make_node("Relu", ["x"], ["y"])]
    tensors = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [3, 4]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "net", tensors[:1], tensors[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(tmp_path / "net.onnx"))
    return tmp_path / "net.onnx"


@pytest.fixture
def _onnxruntime(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "onnxruntime.py").write_text(STAND_IN)
    monkeypatch.syspath_prepend(tmp_path)


def answer(model: Path, *arrays: Any, inputs: int = 1) -> Message:
    archive = model.with_name("arrays.npz")
    np.savez(archive, *arrays)
    asked = {"model": str(model), "arrays": str(archive), "inputs": inputs, "seed": 3, "relative": 1e-5, "scaled": 1e-5}
    return onnx_reference.serve(Message(asked))


@pytest.mark.usefixtures("_onnxruntime")
@pytest.mark.parametrize(("error", "passed"), [(0.0, True), (0.5, False)])
def test_the_outputs_of_a_model_are_compared_on_its_own_inputs(model: Path, error: float, passed: bool) -> None:
    found = decode(OutputsCompared, answer(model, DATA, np.maximum(DATA, 0.0) + np.float32(error)).values)
    assert [(item.passed, item.against, item.seed) for item in found.outputs] == [(passed, "onnxruntime", 3)]


@pytest.mark.usefixtures("_onnxruntime")
def test_a_model_with_other_inputs_or_outputs_says_so(model: Path) -> None:
    assert answer(model, DATA, DATA, DATA, inputs=2).values["why_not"] == "the model has 1 inputs, the program 2"
    assert answer(model, DATA, DATA[:2]).values["why_not"] == "the outputs of onnxruntime have other shapes"
    model.write_bytes(b"no model")
    assert answer(model, DATA, DATA).values["why_not"].startswith("onnxruntime does not run the model")


def test_without_onnxruntime_there_is_a_reason(model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_reference, "_PACKAGE", "no_such_onnxruntime")
    assert answer(model, DATA, DATA).values["why_not"] == "onnxruntime is not installed here (pip install onnxruntime)"
