"""Checks a ``torch.export`` archive before PyTorch opens it: that it is one, that it is whole, and that loading it runs no code of strangers.

PyTorch unpickles whatever an archive says is pickled, loads compiled libraries in it, and evaluates the text of symbolic sizes. None of
this is needed for a plain model, so archives that use it are refused. Nothing here imports PyTorch.
"""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from workbench.errors import ModelError
from workbench.escaping import plain

_EXPORT_AGAIN = "Export it again: torch.export.save(torch.export.export(model, inputs), 'model.pt2')."
_SYMBOL = re.compile(r"'([a-z]+\d+)'")
_ASSUMPTION = re.compile(r"[a-z_]+=(?=True\b|False\b)")
_SAFE_WORD = re.compile(r"[A-Z]\w*|[a-z]+\d+|(?:int_)?oo")  # no builtin of Python that could do harm has such a name
_SAFE_EXPRESSION = re.compile(r"(?:\d+(?:\.\d+)?|[^\W\d]\w*|[\s+\-*/%(),<>=&|~])*")


def check_archive(path: Path) -> None:
    """Raise ModelError if a file is no whole ``torch.export`` archive, or if loading it could run code that it brings."""
    try:
        with zipfile.ZipFile(path) as archive:
            names = [name.partition("/")[2] for name in archive.namelist()]
            _check_kind(path, names)
            damaged = archive.testzip()
            if damaged is not None:
                raise ModelError(f"{plain(path.name)} is damaged at {plain(damaged)}.", "Download or export it again.")
            for entry in archive.namelist():
                if entry.endswith(".json"):
                    _check_values(path, json.loads(archive.read(entry)))
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError) as error:
        size = path.stat().st_size
        raise ModelError(f"{plain(path.name)} is no torch.export archive, or it is cut off ({size} bytes).", _EXPORT_AGAIN) from error
    except (ValueError, RecursionError) as error:
        raise ModelError(f"{plain(path.name)} is damaged: {plain(str(error), 120)}.", "Download or export it again.") from error
    except OSError as error:
        raise ModelError(f"{plain(path.name)} cannot be read: {plain(str(error), 200)}.", "Check the path.") from error


def _check_kind(path: Path, names: list[str]) -> None:
    if any(name.startswith("data/aotinductor/") for name in names):
        raise ModelError(f"{plain(path.name)} holds a compiled library (AOTInductor), not a graph.", _EXPORT_AGAIN)
    if "archive_format" in names or "serialized_exported_program.json" in names:
        return
    if any(name.startswith("code/") for name in names):
        raise ModelError(f"{plain(path.name)} is a TorchScript file, not a torch.export archive.", _EXPORT_AGAIN)
    kind = "weights or a pickled model" if any(name.endswith("data.pkl") for name in names) else "no model of PyTorch's"
    raise ModelError(f"{plain(path.name)} holds {kind}, not a torch.export archive.", _EXPORT_AGAIN)


def _check_values(path: Path, root: Any) -> None:
    for key, value in _entries(root):
        if (key == "use_pickle" and value is True) or (key == "path_name" and str(value).startswith(("custom_obj", "opaque_obj"))):
            raise ModelError(
                f"{plain(path.name)} holds pickled Python objects, which could run code when loaded.", "Export it with plain tensors only."
            )
        if key == "expr_str" and not _is_safe(str(value)):
            raise ModelError(f"{plain(path.name)} has a size that is no arithmetic: {plain(str(value), 80)}.", _EXPORT_AGAIN)


def _entries(root: Any) -> Iterator[tuple[str, Any]]:
    """All keys of all objects of a JSON value, with their values."""
    waiting = [root]
    while waiting:
        value = waiting.pop()
        if isinstance(value, dict):
            yield from value.items()
            waiting.extend(value.values())
        elif isinstance(value, list):
            waiting.extend(value)


def _is_safe(expression: str) -> bool:
    """True for arithmetic of symbols, as ``Mul(Integer(2), Symbol('s77', integer=True))`` or ``2*s77``."""
    expression = _ASSUMPTION.sub("", _SYMBOL.sub(r"\1", expression))
    words = re.findall(r"[^\W\d]\w*", expression)
    return _SAFE_EXPRESSION.fullmatch(expression) is not None and all(_SAFE_WORD.fullmatch(word) for word in words)
