"""The lowered model on disk: ``program/module.json``, ``program/params.bin`` and ``program/calls.json``, readable by TVM alone."""

from __future__ import annotations

import errno
import json
import os
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import tvm

from workbench.engines.relax.foreign_code import HOW_TO_TRUST, foreign_code
from workbench.engines.relax.lowering import Lowered
from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.records.origin import Origin
from workbench.records.profile import KernelCall
from workbench.regular_files import read_text, reader
from workbench.whole_files import whole_folder

_CHUNK_BYTES = 2**20
_MODULE, _PARAMETERS, _CALLS = "module.json", "params.bin", "calls.json"
_BUILTINS = "builtin_origins"
_BUILTINS_BEFORE = "view_origins"
"""What older sessions call the same."""


def save(lowered: Lowered, directory: Path) -> None:
    """Write a lowered model; the directory appears whole or not at all, and what was there stays until then.

    Raises:
        OSError: The disk is full, or refuses to be written.
    """
    with whole_folder(directory) as folder:
        (folder / _MODULE).write_text(tvm.ir.save_json(lowered.module), encoding="utf-8")
        save_parameters(lowered.parameters, folder / _PARAMETERS)
        checksums = {name: _checksum(folder / name) for name in (_MODULE, _PARAMETERS)}
        (folder / _CALLS).write_text(json.dumps({**_calls(lowered), "checksums": checksums}), encoding="utf-8")


def load(directory: Path, *, trust: bool = False) -> Lowered:
    """Read a lowered model.

    Args:
        directory: Where `save` wrote it.
        trust: True if the user allowed the model's own code to run.

    Raises:
        SessionError: A file is missing or damaged, or the model would run code that is not in it and there is no trust.
    """
    try:
        calls = json.loads(read_text(directory / _CALLS))
        _check_checksums(directory, calls["checksums"])  # which opens both files: TVM would wait for a pipe
        module = tvm.ir.load_json(read_text(directory / _MODULE))
        parameters = tvm.runtime.load_param_dict_from_file(str(directory / _PARAMETERS))
        lowered = Lowered(
            module=module,
            parameters=tuple(parameters[f"p{index}"] for index in range(len(parameters))),
            calls=tuple(KernelCall(call["kernel"], _origins(call["origins"])) for call in calls["calls"]),
            ops={name: tuple(ops) for name, ops in calls["ops"].items()},
            result_counts=calls["result_counts"],
            builtin_origins=_origins(calls[_BUILTINS] if _BUILTINS in calls else calls[_BUILTINS_BEFORE]),
            eliminated=_origins(calls["eliminated"]),
            input_count=calls["input_count"],
            steps=tuple(calls["steps"]),
        )
        _check_consistent(lowered)
    except Exception as error:  # TVM raises any class of error on a damaged file
        reason = plain(str(error).strip().rstrip("."), 200)
        raise SessionError(f"The program in {plain(str(directory), 120)} is missing or damaged: {reason}.", "Profile the model again.") from error
    foreign = [] if trust else foreign_code(lowered.module)
    if foreign:
        raise SessionError(f"The program of the session would run code that is not in it: {plain(', '.join(foreign), 120)}.", HOW_TO_TRUST)
    return lowered


def _check_checksums(directory: Path, checksums: dict[str, int]) -> None:
    """Raise ValueError if a file is not what was written."""
    for name in (_MODULE, _PARAMETERS):
        if _checksum(directory / name) != checksums[name]:
            raise ValueError(f"{name} is not what was written")


def _check_consistent(lowered: Lowered) -> None:
    """Raise ValueError if the three files do not belong together."""
    expected = [parameter.ty for parameter in lowered.module["main"].params][lowered.input_count :]
    if len(expected) != len(lowered.parameters):
        raise ValueError(f"{len(lowered.parameters)} parameters instead of {len(expected)}")
    for index, (parameter, tensor) in enumerate(zip(lowered.parameters, expected, strict=True)):
        if [int(size) for size in tensor.shape.values] != list(parameter.shape) or str(tensor.dtype) != str(parameter.dtype):
            raise ValueError(f"parameter {index} has another shape or type")
    kernels = {variable.name_hint for variable in lowered.module.functions}
    missing = [call.kernel for call in lowered.calls if call.kernel not in kernels or call.kernel not in lowered.result_counts]
    if missing:
        raise ValueError(f"no kernel {missing[0]}")


def _calls(lowered: Lowered) -> dict[str, Any]:
    return {
        "calls": [{"kernel": call.kernel, "origins": [origin.to_dict() for origin in call.origins]} for call in lowered.calls],
        "ops": {name: list(ops) for name, ops in lowered.ops.items()},
        "result_counts": dict(lowered.result_counts),
        _BUILTINS: [origin.to_dict() for origin in lowered.builtin_origins],
        "eliminated": [origin.to_dict() for origin in lowered.eliminated],
        "input_count": lowered.input_count,
        "steps": list(lowered.steps),
    }


def _origins(values: list[dict[str, str]]) -> tuple[Origin, ...]:
    return tuple(Origin.from_dict(value) for value in values)


def _bytes(tensor: Any) -> int:
    count = 1
    for size in tensor.shape:
        count *= int(size)
    return count * ((int(tensor.dtype.bits) + 7) // 8)


def _checksum(path: Path) -> int:
    """CRC-32 of a file: TVM takes a cut-off file of parameters without a word, and runs the model with what is in the memory."""
    value = 0
    with reader(path) as file:
        while chunk := file.read(_CHUNK_BYTES):
            value = zlib.crc32(chunk, value)
    return value


def save_parameters(parameters: Sequence[Any], path: Path) -> None:
    """Write the parameters; what TVM says about a full disk, if it says anything, becomes an OSError."""
    try:
        tvm.runtime.save_param_dict_to_file({f"p{index}": value for index, value in enumerate(parameters)}, str(path))
    except tvm.error.InternalError as error:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path)) from error
    if path.stat().st_size < sum(map(_bytes, parameters)):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
