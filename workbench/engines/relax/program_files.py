"""The lowered model on disk: ``program/module.json``, ``program/params.bin`` and ``program/calls.json``, readable by TVM alone."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import tvm

from workbench.engines.relax.lowering import Lowered
from workbench.errors import SessionError
from workbench.records.origin import Origin
from workbench.records.profile import KernelCall

_MODULE, _PARAMETERS, _CALLS = "module.json", "params.bin", "calls.json"


def save(lowered: Lowered, directory: Path) -> None:
    """Write a lowered model; the directory appears whole or not at all."""
    partial = directory.with_name(f"{directory.name}.partial-{os.getpid()}")
    shutil.rmtree(partial, ignore_errors=True)
    try:
        partial.mkdir(parents=True)
        (partial / _MODULE).write_text(tvm.ir.save_json(lowered.module), encoding="utf-8")
        parameters = {f"p{index}": value for index, value in enumerate(lowered.parameters)}
        tvm.runtime.save_param_dict_to_file(parameters, str(partial / _PARAMETERS))
        (partial / _CALLS).write_text(json.dumps(_calls(lowered)), encoding="utf-8")
        _check_written(partial / _PARAMETERS, sum(_bytes(value) for value in lowered.parameters))
        if directory.exists():
            shutil.rmtree(directory)
        partial.rename(directory)
    finally:
        shutil.rmtree(partial, ignore_errors=True)


def load(directory: Path) -> Lowered:
    """Read a lowered model.

    Raises:
        SessionError: A file is missing or damaged.
    """
    try:
        module = tvm.ir.load_json((directory / _MODULE).read_text(encoding="utf-8"))
        parameters = tvm.runtime.load_param_dict_from_file(str(directory / _PARAMETERS))
        calls = json.loads((directory / _CALLS).read_text(encoding="utf-8"))
        return Lowered(
            module=module,
            parameters=tuple(parameters[f"p{index}"] for index in range(len(parameters))),
            calls=tuple(KernelCall(call["kernel"], _origins(call["origins"])) for call in calls["calls"]),
            ops={name: tuple(ops) for name, ops in calls["ops"].items()},
            result_counts=calls["result_counts"],
            view_origins=_origins(calls["view_origins"]),
            input_count=calls["input_count"],
            steps=tuple(calls["steps"]),
        )
    except Exception as error:  # TVM raises any class of error on a damaged file
        raise SessionError(f"The program in {directory} is missing or damaged: {error}.", "Profile the model again.") from error


def _calls(lowered: Lowered) -> dict[str, Any]:
    return {
        "calls": [{"kernel": call.kernel, "origins": [origin.to_dict() for origin in call.origins]} for call in lowered.calls],
        "ops": {name: list(ops) for name, ops in lowered.ops.items()},
        "result_counts": dict(lowered.result_counts),
        "view_origins": [origin.to_dict() for origin in lowered.view_origins],
        "input_count": lowered.input_count,
        "steps": list(lowered.steps),
    }


def _origins(values: list[dict[str, str]]) -> tuple[Origin, ...]:
    return tuple(Origin.from_dict(value) for value in values)


def _bytes(tensor: Any) -> int:
    count = 1
    for size in tensor.shape:
        count *= int(size)
    return count * ((tensor.dtype.bits + 7) // 8)


def _check_written(path: Path, expected_bytes: int) -> None:
    """TVM does not report a full disk: compare the size with what had to be written."""
    if path.stat().st_size < expected_bytes:
        raise OSError(28, "No space left on device", str(path))
