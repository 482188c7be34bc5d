"""What the user means by a model, as the old Python is asked to read it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from workbench.engines.relay.source_names import names_in_text
from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.records.request import ModelSource
from workbench.regular_files import read_text, reader
from workbench.workloads import BUNDLED

_KINDS = {"relay": "Relay text", "relay_json": "a Relay module as JSON", "onnx": "ONNX", "workload": "TE workloads"}
_WITHOUT_RELAY = ("attention",)
"""Bundled workloads that older TVM has no operators for."""


def model_request(source: ModelSource, *, seed: int) -> dict[str, Any]:
    """Arguments of ``importing.import_model``.

    Raises:
        ModelError: It is of a kind that older TVM has no reader for, or cannot be read.
    """
    if source.kind not in _KINDS:
        raise ModelError(
            f"The relay engine reads no {source.kind} models.", f"It reads {', '.join(_KINDS.values())}; for this one use --engine relax."
        )
    request: dict[str, Any] = {
        "kind": source.kind,
        "path": source.path,
        "shapes": {name: list(shape) for name, shape in source.shapes.items()},
        "seed": seed,
        "names": [],
    }
    if source.path:
        try:
            if source.kind == "relay":
                request["names"] = names_in_text(read_text(Path(source.path)))
            else:
                reader(Path(source.path)).close()  # the old TVM would wait for a pipe
        except (OSError, ValueError) as error:
            raise ModelError(f"{plain(source.path, 200)} cannot be read: {plain(str(error), 200)}.", "Check the file.") from error
    if source.kind == "workload":
        if source.workload in _WITHOUT_RELAY:
            raise ModelError(f"The relay engine has no workload {source.workload}.", "For this one use --engine relax.")
        request.update(workload=source.workload, args=_arguments(source), folder=str(Path.cwd()))
    return request


def _arguments(source: ModelSource) -> list[Any]:
    if source.args is not None:
        return list(source.args)
    return list(BUNDLED[source.workload].arguments) if source.workload in BUNDLED else []
