"""Finds out what the user means by MODEL: a file of some kind, a bundled model by name, or a TE workload.

Looks at names, sizes and first bytes only; reading the model is the engine's job.
"""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.machine import memory_facts
from workbench.records.request import ModelSource
from workbench.workloads import BUNDLED

_LIGHT_MODELS = {
    "alexnet": "light_bvlc_alexnet",
    "densenet121": "light_densenet121",
    "inception_v1": "light_inception_v1",
    "inception_v2": "light_inception_v2",
    "resnet50": "light_resnet50",
    "shufflenet": "light_shufflenet",
    "squeezenet": "light_squeezenet",
    "vgg19": "light_vgg19",
    "zfnet512": "light_zfnet512",
}
_RELAY_SIGNS = re.compile(
    r"#\[version|\bv0\.0\.\d|\bdef\s*@|\bfn\s*[(<\[]|\btype\s+\w+\s*[\[{=]|%\w|\blet\s+%|\bfree_var\b|\bextern\s+type\b"
)  # what only a Relay text is likely to have; its grammar is the parser's matter
_IR_JSON = re.compile(rb'"root"\s*:\s*\d+\s*,\s*"nodes"\s*:\s*\[\s*\{\s*"type_key"')  # as tvm.ir.save_json of TVM 0.8 to 0.18 begins
_PROTOBUF_STARTS = (b"\x08", b"\x0a", b"\x12")  # the first fields of an ONNX model: its version of the format, its producer
_CONTROL = re.compile(rb"[\x00-\x08\x0e-\x1f]")
_ENDINGS = {".onnx": "onnx", ".pt2": "torch", ".py": "relax", ".relay": "relay"}
_SNIFF_BYTES = 65536


@dataclass(frozen=True)
class BundledModel:
    """A model that needs no download."""

    name: str
    kind: str
    description: str

    def to_dict(self) -> dict[str, str]:
        """The record as JSON-ready values."""
        return {"name": self.name, "kind": self.kind, "description": self.description}


def bundled_models() -> list[BundledModel]:
    """All bundled models: the ONNX ones of the ``onnx`` package (weights are constants of one value), and the TE workloads."""
    networks = [BundledModel(name, "onnx", "ONNX network, 1x3x224x224, placeholder weights") for name in _LIGHT_MODELS]
    return [*networks, *(BundledModel(name, "workload", workload.description) for name, workload in BUNDLED.items())]


def is_bundled(text: str) -> bool:
    """True for the name of a bundled model, which means that model whatever lies in the current folder."""
    return text in _LIGHT_MODELS or text in BUNDLED


def resolve_model(
    text: str, *, shapes: Mapping[str, tuple[int, ...]] | None = None, args: tuple[Any, ...] | None = None, trust: bool = False
) -> ModelSource:
    """Find out what a MODEL argument means.

    Args:
        text: A path, a bundled name, or ``module:function``. A bundled name means the bundled model, whatever lies in the
            current folder; ``./name`` means the file.
        shapes: Numbers for inputs with dynamic dimensions.
        args: Arguments of a TE workload.
        trust: True if the user allowed the model's own code to run.

    Raises:
        ModelError: There is no such model, it cannot be one, it is larger than the memory, or it needs trust.
    """
    shapes = dict(shapes or {})
    if text in _LIGHT_MODELS:
        _no_arguments(text, args)
        return replace(_model_file(_light_model(text), shapes=shapes, trust=trust), name=text)
    path = Path(text)
    if text in BUNDLED:
        return _workload(text, name=text, shapes=shapes, args=args, trust=trust)
    if not _exists(path) and re.fullmatch(r"[\w.]+:\w+", text):
        return _workload(text, name=text.rpartition(":")[2], shapes=shapes, args=args, trust=trust)
    _no_arguments(text, args)
    return _model_file(path, shapes=shapes, trust=trust)


def code_of_its_own(source: ModelSource) -> str:
    """What code of a model's author runs when the model is read, in words; empty if none does."""
    if source.kind == "workload" and source.workload not in BUNDLED:
        return "runs Python code of its author"
    return {"relax": "is Python code, and reading it runs it", "torch": "is a torch.export archive, which can carry code"}.get(source.kind, "")


def check_trust(source: ModelSource) -> None:
    """Raise ModelError if reading a model runs its author's code and the user did not allow it."""
    shown = plain(source.path or source.workload, 120)
    what = code_of_its_own(source)
    if what and not source.trust:
        raise ModelError(f"{shown} {what}.", "If you trust its author, allow it with --trust (in Python: trust=True).")


def _workload(text: str, *, name: str, shapes: Mapping[str, tuple[int, ...]], args: tuple[Any, ...] | None, trust: bool) -> ModelSource:
    if shapes:
        raise ModelError(f"{plain(text)} takes no --shape.", "It is a TE workload: give its arguments with --args.")
    source = ModelSource(kind="workload", name=name, workload=text, args=args, trust=trust)
    check_trust(source)
    return source


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):
        return False  # no name that this file system can have


def _no_arguments(text: str, args: tuple[Any, ...] | None) -> None:
    if args is not None:
        raise ModelError(f"{plain(text)} takes no --args.", "Only TE workloads do (module:function, or a bundled one).")


def _light_model(name: str) -> Path:
    package = importlib.util.find_spec("onnx")
    if package is None or package.origin is None:
        raise ModelError(f"The bundled model {name} comes with the package onnx, which is not installed.", "Install it: pip install onnx.")
    return Path(package.origin).parent / "backend" / "test" / "data" / "light" / f"{_LIGHT_MODELS[name]}.onnx"


def _model_file(path: Path, *, shapes: Mapping[str, tuple[int, ...]], trust: bool) -> ModelSource:
    shown = plain(str(path), 120)
    try:
        status = path.stat()
        if path.is_dir():
            raise ModelError(f"{shown} is a directory, not a model.", "Give the model file in it.")
        if not path.is_file():
            raise ModelError(f"{shown} is not a regular file.", "Give a model file.")
        with path.open("rb") as file:
            start = file.read(_SNIFF_BYTES)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ModelError(f"There is no model {shown}.", "Give a file, or a name that `workbench models` lists.") from error
    except (OSError, ValueError) as error:
        raise ModelError(
            f"{shown} cannot be read: {plain(str(getattr(error, 'strerror', error)), 120)}.", "Check the name and its permissions."
        ) from error
    if status.st_size == 0:
        raise ModelError(f"{shown} is empty.", "Export or download the model again.")
    memory = memory_facts().total_bytes
    if status.st_size > memory:
        raise ModelError(
            f"{shown} has {status.st_size / 2**30:.1f} GiB, more than this machine's memory ({memory / 2**30:.1f} GiB).",
            "Use a machine with more memory.",
        )
    kind = _kind_of_file(path, start)
    source = ModelSource(kind=kind, name=_model_name(path), path=str(path.resolve()), shapes=shapes, trust=trust, stamp=file_stamp(path))
    check_trust(source)
    return source


def file_stamp(path: Path) -> str:
    """Tells one content of a model file from another; see `workbench.records.request.ModelSource.stamp`.

    Raises:
        OSError: There is no such file.
    """
    status = path.stat()
    return f"{status.st_size} bytes, changed at {status.st_mtime_ns} ns"


def _kind_of_file(path: Path, start: bytes) -> str:
    """Kind of a model file, by its ending first and its beginning second."""
    ending = path.suffix.lower()
    if ending in _ENDINGS:
        return _ENDINGS[ending]
    if start.lstrip()[:1] == b"{" and _IR_JSON.search(start):
        return "relay_json"
    if not _CONTROL.search(start) and _RELAY_SIGNS.search(start.decode("utf-8", errors="ignore")):
        return "relay"
    if ending in (".txt", ".rly"):
        raise ModelError(
            f"{plain(path.name)} is a text, but no Relay program.",
            "Relay text begins with #[version = ...], def @main(...), fn (...), free_var or let.",
        )
    if start[:1] in _PROTOBUF_STARTS and _CONTROL.search(start):
        return "onnx"
    raise ModelError(
        f"{plain(path.name)} is no kind of model that is known here.",
        "Known are ONNX (.onnx), torch.export archives (.pt2), Relay text (.relay, .txt), a Relay module as JSON, and TVMScript (.py).",
    )


def _model_name(path: Path) -> str:
    """Name of a model: the file's, without the endings that say its kind; the directory's where the file is called model."""
    stem = path.name
    while Path(stem).suffix.lower() in (*_ENDINGS, ".txt", ".rly", ".json") and Path(stem).stem:
        stem = Path(stem).stem
    return path.resolve().parent.name if stem == "model" and path.resolve().parent.name else stem
