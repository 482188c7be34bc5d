"""The source model run by onnxruntime, where that is installed: what the model should compute, whatever TVM made of it."""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from workbench.engines.apply_protocol import OutputsCompared
from workbench.engines.arrays import Array
from workbench.engines.differences import ONNXRUNTIME, tensor_difference, why_it_says_nothing
from workbench.engines.relax.applying.models import Models
from workbench.engines.relax.inputs import random_inputs
from workbench.engines.relax.lowering import Lowered
from workbench.escaping import plain

_PACKAGE = "onnxruntime"
_QUIET = 3  # its log level for errors alone


def compare_with_onnxruntime(path: Path, models: Models, lowered: Lowered, *, seed: int) -> OutputsCompared | str:
    """Compare the model with schedules with onnxruntime, on the same random inputs.

    Args:
        path: The source model.
        models: Both models.
        lowered: Their program.
        seed: Of the inputs.

    Returns:
        A sentence that says why not, if the two cannot be compared.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        return "onnxruntime is not installed here"
    inputs = random_inputs(lowered, seed=seed)
    try:
        names = _input_names(path)
        if len(names) != len(inputs):
            return f"the model has {len(names)} inputs, the program {len(inputs)}"
        expected = _run(path, dict(zip(names, inputs, strict=True)))
    except Exception as error:  # noqa: BLE001 - onnxruntime raises any class of error on a model that it does not take
        return f"onnxruntime does not run the model: {plain(str(error).strip(), 200)}"
    found = models.tuned_outputs(seed)
    if [array.shape for array in found] != [array.shape for array in expected]:
        return "the outputs of onnxruntime have other shapes"
    outputs = [
        tensor_difference(got, want.astype(got.dtype), models.tolerance, place=f"output {place}", against=ONNXRUNTIME, seed=seed)
        for place, (got, want) in enumerate(zip(found, expected, strict=True))
    ]
    return OutputsCompared(tuple(outputs), says_nothing=why_it_says_nothing(expected))


def _input_names(path: Path) -> list[str]:
    """Names of the inputs that are no weights, in order."""
    graph = onnx.load(str(path), load_external_data=False).graph
    weights = {tensor.name for tensor in graph.initializer}
    return [value.name for value in graph.input if value.name not in weights]


def _run(path: Path, inputs: dict[str, Array]) -> list[Array]:
    runtime: Any = importlib.import_module(_PACKAGE)
    options = runtime.SessionOptions()
    options.log_severity_level = _QUIET
    session = runtime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])
    return [np.asarray(array) for array in session.run(None, inputs)]
