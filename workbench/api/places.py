"""Owns the place of a session that the user gave none: one for each model, arguments and target, so that two do not take turns in one."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from workbench.escaping import file_stem
from workbench.machine import cuda_facts
from workbench.records.request import RELAX, ModelSource
from workbench.session import default_path

_LONGEST = 60
_LONGEST_ARGUMENTS = 40
_DIGEST = 8


def default_place(source: ModelSource, target: str, engine: str = RELAX) -> Path:
    """``workbench-sessions/<model>-<target>``; a workload with arguments has them in its name: ``matmul-64x64x64-cpu``.

    A session of the relay engine has it at the end of its name: ``resnet18-cpu-relay``.

    Args:
        source: The model.
        target: The target as the user wrote it.
        engine: The engine.
    """
    label = _target_label(target)
    return default_path(_model_label(source), label if engine == RELAX else f"{label}-{engine}")


def _model_label(source: ModelSource) -> str:
    if source.kind == "ir_json":  # different IRModules have no names to tell them apart
        return f"{source.name}-{source.stamp[:_DIGEST]}"
    if source.args is None:
        return source.name
    arguments = _arguments_label(source.args)
    return f"{file_stem(source.name, _LONGEST - len(arguments) - 1)}-{arguments}"


def _arguments_label(arguments: Sequence[Any]) -> str:
    """Arguments for a name: numbers as they are, and a digest where that does not tell everything."""
    words = "x".join(map(str, arguments)) or "none"
    is_plain = bool(arguments) and all(isinstance(value, int) and not isinstance(value, bool) and value >= 0 for value in arguments)
    if is_plain and len(words) <= _LONGEST_ARGUMENTS:
        return words
    return f"{file_stem(words, _LONGEST_ARGUMENTS - _DIGEST - 1)}-{_digest(json.dumps(arguments))}"


def _target_label(target: str) -> str:
    """Label of a target, without loading TVM; different texts give different ones."""
    text = target.strip()
    if text in ("auto", "cuda"):
        devices = cuda_facts().devices
        return f"cuda-{devices[0].arch}" if devices else ("cpu" if text == "auto" else "cuda")
    label = text.replace("cuda:", "cuda-")
    if file_stem(label) == label:
        return label
    return f"{file_stem(label, 40)}-{_digest(text)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST]
