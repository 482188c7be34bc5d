"""The source model run by onnxruntime, where that is installed: what the model should compute, whatever TVM made of it."""

from __future__ import annotations

import importlib
import importlib.util
from collections.abc import Callable, Sequence
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


def compare_with_onnxruntime(
    path: Path, inputs: Sequence[Array], tuned: Callable[[], list[Array]], allowed: Tolerance, *, seed: int
) -> OutputsCompared | str:
    """Compare the model with schedules with onnxruntime, on the same inputs.

    Args:
        path: The source model.
        inputs: One for each input of the model.
        tuned: Gives the outputs of the model with schedules; asked if onnxruntime runs the source model.
        allowed: How far outputs may differ.
        seed: Of the inputs.

    Returns:
        A sentence that says why not, if the two cannot be compared.
    """
    if importlib.util.find_spec(_PACKAGE) is None:
        return "onnxruntime is not installed here"
    try:
        names = _input_names(path)
        if len(names) != len(inputs):
            return f"the model has {len(names)} inputs, the program {len(inputs)}"
        expected = _run(path, dict(zip(names, inputs, strict=True)))
    except Exception as error:  # noqa: BLE001 - onnxruntime raises any class of error on a model that it does not take
        return f"onnxruntime does not run the model: {plain(str(error).strip(), 200)}"
    found = tuned()
    if [array.shape for array in found] != [array.shape for array in expected]:
        return "the outputs of onnxruntime have other shapes"
    outputs = [
        tensor_difference(got, want.astype(got.dtype), allowed, place=f"output {place}", against=ONNXRUNTIME, seed=seed)
        for place, (got, want) in enumerate(zip(found, expected, strict=True))
    ]
    return OutputsCompared(tuple(outputs), says_nothing=why_it_says_nothing(expected))


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
    inputs, outputs = arrays[: values["inputs"]], arrays[values["inputs"] :]
    allowed = Tolerance(values["relative"], values["scaled"])
    found = compare_with_onnxruntime(Path(values["model"]), inputs, lambda: outputs, allowed, seed=values["seed"])
    return Message({"why_not": found} if isinstance(found, str) else asdict(found))


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
