"""An ONNX model run by onnxruntime, where that is installed, as an opinion that is independent of TVM."""

from __future__ import annotations

import importlib
import importlib.util
import io
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from workbench.analysis.tolerance import Tolerance
from workbench.engines.apply_protocol import OutputsCompared
from workbench.engines.arrays import Array
from workbench.engines.differences import ONNXRUNTIME, tensor_difference, why_it_says_nothing
from workbench.escaping import plain
from workbench.isolation import Message

_PACKAGE = "onnxruntime"
_QUIET = 3  # its log level for errors alone


def outputs_of_onnxruntime(path: Path, inputs: Sequence[Array]) -> list[Array] | str:
    """Outputs of the source model.

    Args:
        path: The source model.
        inputs: One for each input of the model.

    Returns:
        A sentence that says why not, if there are none.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        return "onnxruntime is not installed here (pip install onnxruntime)"
    try:
        names = _input_names(path)
        if len(names) != len(inputs):
            return f"the model has {len(names)} inputs, the program {len(inputs)}"
        return _run(path, dict(zip(names, inputs, strict=True)))
    except Exception as error:  # noqa: BLE001 - onnxruntime raises any class of error on a model that it does not take
        return f"onnxruntime does not run the model: {plain(str(error).strip(), 200)}"


def compared_with_onnxruntime(found: Sequence[Array], expected: Sequence[Array], allowed: Tolerance, *, seed: int) -> OutputsCompared | str:
    """The model with schedules beside onnxruntime.

    Args:
        found: Outputs of the model with schedules.
        expected: Those of onnxruntime on the same inputs.
        allowed: How far outputs may differ.
        seed: Of the inputs.

    Returns:
        A sentence that says why not, if the two cannot be compared.
    """
    if [array.shape for array in found] != [array.shape for array in expected]:
        return "the outputs of onnxruntime have other shapes"
    outputs = [
        tensor_difference(got, want.astype(got.dtype), allowed, place=f"output {place}", against=ONNXRUNTIME, seed=seed)
        for place, (got, want) in enumerate(zip(found, expected, strict=True))
    ]
    return OutputsCompared(tuple(outputs), says_nothing=why_it_says_nothing(expected))


def packed(array: Array) -> bytes:
    """An array as bytes with its shape and type."""
    file = io.BytesIO()
    np.save(file, array, allow_pickle=False)
    return file.getvalue()


def unpacked(content: bytes) -> Array:
    """The inverse of `packed`."""
    array: Array = np.load(io.BytesIO(content), allow_pickle=False)
    return array


def serve(request: Message) -> Message:
    """Compare in a process of its own, where onnxruntime may crash.

    Args:
        request: ``model``; ``arrays``, an archive of NumPy's with ``inputs`` inputs and then the outputs of the model with schedules; ``relative``
            and ``scaled``, the tolerance; ``seed``.

    Returns:
        What came of it, or ``why_not``.
    """
    values = request.values
    with np.load(values["arrays"], allow_pickle=False) as archive:
        arrays = [archive[name] for name in archive.files]
    inputs, found = arrays[: values["inputs"]], arrays[values["inputs"] :]
    expected = outputs_of_onnxruntime(Path(values["model"]), inputs)
    if isinstance(expected, str):
        return Message({"why_not": expected})
    outcome = compared_with_onnxruntime(found, expected, Tolerance(values["relative"], values["scaled"]), seed=values["seed"])
    return Message({"why_not": outcome} if isinstance(outcome, str) else asdict(outcome))


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
