"""Chooses the importer for a model source."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.engines.relax.onnx import import_onnx
from workbench.engines.relax.program import Program
from workbench.engines.relax.relax_import import import_ir_json, import_tvmscript
from workbench.engines.relax.relay import import_relay
from workbench.engines.relax.te_import import import_workload
from workbench.engines.relax.torch_import import import_exported_program
from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.records.request import ModelSource
from workbench.regular_files import reader
from workbench.workloads import BUNDLED, load_function, lookup


def import_source(source: ModelSource, *, seed: int, function: Callable[..., Any] | None) -> Program:
    """Import a model.

    Args:
        source: What to import.
        seed: Seed of random weights, for texts that carry none.
        function: The TE function itself, for a source of kind ``function``.

    Raises:
        ModelError: The model cannot be used; the message says which part of it.
    """
    path = Path(source.path)
    if source.path:
        _check_file(path)
    if source.kind == "onnx":
        return import_onnx(path, source.shapes)
    if source.kind == "relay":
        return import_relay(_text(path), shapes=source.shapes, seed=seed)
    if source.kind == "relax":
        return import_tvmscript(path, source.shapes, seed=seed)
    if source.kind == "ir_json":
        return import_ir_json(_text(path), source.shapes, seed=seed, trust=source.trust)
    if source.kind == "relay_json":
        raise ModelError(
            f"{plain(path.name)} is a Relay module as JSON, which only a TVM of its own age reads.", "Use --engine relay, or print it as Relay text."
        )
    if source.kind == "torch":
        return import_exported_program(path, source.shapes)
    return _import_workload(source, function)


def _import_workload(source: ModelSource, function: Callable[..., Any] | None) -> Program:
    bundled = BUNDLED.get(source.workload)
    arguments = source.args if source.args is not None else bundled.arguments if bundled is not None else ()
    if function is None:
        reference = bundled.function if bundled is not None else source.workload
        function = load_function(reference) if ":" in reference else lookup(reference)
    return import_workload(function, arguments, name=source.name)


def _check_file(path: Path) -> None:
    """Raise ModelError unless a file can be read: sessions name models, and whoever reads a pipe waits for ever."""
    try:
        reader(path).close()
    except OSError as error:
        raise ModelError(f"{plain(path.name)} cannot be read: {error.strerror}.", "Check that it is still there.") from error


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise ModelError(f"{plain(path.name)} is no UTF-8 text.", "Save it again as UTF-8.") from error
