"""Reads the IRModule of a TVMScript file by running it, as Python or, if it is only what ``script()`` printed, by TVM's parser."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import linecache
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import tvm
from tvm import relax

from workbench.errors import ModelError
from workbench.escaping import plain

_EXAMPLE = "Write `from tvm.script import ir as I, relax as R`, then a class Module under @I.ir_module."
_SAVE_ALL = "Save it with module.script(show_meta=True), or send the module from Python."


def read_tvmscript(path: Path) -> tvm.IRModule:
    """The IRModule that a file defines; this runs the file.

    Raises:
        ModelError: The file cannot be read, fails, or does not define exactly one IRModule (or one named ``Module``).
    """
    try:
        text = path.read_text(encoding="utf-8")
        tree = ast.parse(text, filename=str(path))
    except OSError as error:
        raise ModelError(f"{plain(path.name)} cannot be read: {plain(str(error), 200)}.", "Check the path.") from error
    except (SyntaxError, ValueError) as error:
        raise ModelError(f"{plain(path.name)} is no TVMScript: {plain(str(error), 200)}.", _EXAMPLE) from error
    if "metadata[" in text and not any(_assigns(statement, "metadata") for statement in ast.walk(tree)):
        raise ModelError(f"{plain(path.name)} was saved without the values of its constants.", _SAVE_ALL)
    if any(isinstance(statement, ast.Import | ast.ImportFrom) for statement in tree.body):
        return _choose(_execute(path), path)
    return _parse(text, path)


def _assigns(statement: ast.AST, name: str) -> bool:
    return isinstance(statement, ast.Assign) and any(isinstance(target, ast.Name) and target.id == name for target in statement.targets)


def _parse(text: str, path: Path) -> tvm.IRModule:
    try:
        parsed = tvm.script.from_source(text)
    except Exception as error:  # the parser, and what it evaluates, may raise anything
        raise ModelError(f"{plain(path.name)} is no TVMScript that TVM can parse: {_reason(error)}", _EXAMPLE) from error
    found = _as_module(parsed)
    if found is None:
        raise ModelError(f"{plain(path.name)} defines a value of type {plain(type(parsed).__name__)}, not an IRModule.", _EXAMPLE)
    return found


def _execute(path: Path) -> ModuleType:
    """Run a file as a module; TVM's parser looks its classes up by the module's name, and its text up in `linecache`."""
    name = f"workbench_tvmscript_{hashlib.sha256(str(path.resolve()).encode()).hexdigest()[:12]}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{plain(path.name)} is no Python file.", "Rename it to end in .py.")
    module = importlib.util.module_from_spec(spec)
    linecache.checkcache(str(path))
    sys.modules[name] = module
    try:
        with _folder_first(path.resolve().parent):
            exec(compile(path.read_bytes(), str(path), "exec"), module.__dict__)  # noqa: S102 - the user trusts the file; no cached bytecode
    except (Exception, SystemExit) as error:  # the user's file may raise anything
        raise ModelError(f"{plain(path.name)} fails: {_reason(error)}", "Run it alone in Python to see where.") from error
    finally:
        del sys.modules[name]
    return module


@contextmanager
def _folder_first(folder: Path) -> Iterator[None]:
    sys.path.insert(0, str(folder))
    try:
        yield
    finally:
        if str(folder) in sys.path:
            sys.path.remove(str(folder))


def _reason(error: BaseException) -> str:
    return plain(f"{type(error).__name__}: {str(error).strip()}", 400)


def _choose(namespace: ModuleType, path: Path) -> tvm.IRModule:
    found = {name: module for name, value in vars(namespace).items() if not name.startswith("_") and (module := _as_module(value)) is not None}
    if "Module" in found:
        return found["Module"]
    distinct = {id(module): module for module in found.values()}
    if len(distinct) == 1:
        return next(iter(distinct.values()))
    if not found:
        raise ModelError(f"{plain(path.name)} defines no IRModule.", _EXAMPLE)
    names = ", ".join(map(plain, found))
    raise ModelError(f"{plain(path.name)} defines {len(distinct)} IRModules: {names}.", "Name the one to use Module.")


def _as_module(value: Any) -> tvm.IRModule | None:
    """The IRModule that a value is or stands for: a Relax function alone is the main of one."""
    if isinstance(value, tvm.IRModule):
        return value
    if isinstance(value, relax.Function):
        return tvm.IRModule({"main": value.with_attr("global_symbol", "main")})
    inner = vars(value).get("ir_module") if hasattr(value, "__dict__") and not isinstance(value, type | ModuleType) else None
    return inner if isinstance(inner, tvm.IRModule) else None
