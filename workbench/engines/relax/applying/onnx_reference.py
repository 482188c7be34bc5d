"""The source model run by onnxruntime, where that is installed: what the model should compute, whatever TVM made of it."""

from __future__ import annotations

import importlib
import importlib.util
import io
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from workbench.engines.relax.inputs import random_inputs
from workbench.engines.relax.lowering import Lowered
from workbench.engines.relax.search.arrays import Array
from workbench.escaping import plain

_PACKAGE = "onnxruntime"
_QUIET = 3  # its log level for errors alone


def outputs_of_onnxruntime(path: Path, lowered: Lowered, *, seed: int) -> list[Array] | str:
    """Outputs of the source model on the random inputs of a program.

    Args:
        path: The source model.
        lowered: The program that was made of it.
        seed: Of the inputs.

    Returns:
        A sentence that says why not, if there are none.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        return "onnxruntime is not installed here (pip install onnxruntime)"
    inputs = random_inputs(lowered, seed=seed)
    try:
        names = _input_names(path)
        if len(names) != len(inputs):
            return f"the model has {len(names)} inputs, the program {len(inputs)}"
        return _run(path, dict(zip(names, inputs, strict=True)))
    except Exception as error:  # noqa: BLE001 - onnxruntime raises any class of error on a model that it does not take
        return f"onnxruntime does not run the model: {plain(str(error).strip(), 200)}"


def packed(array: Array) -> bytes:
    """An array as bytes with its shape and type."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def unpacked(content: bytes) -> Array:
    """The inverse of `packed`."""
    array: Array = np.load(io.BytesIO(content), allow_pickle=False)
    return array


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
