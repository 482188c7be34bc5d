"""Finds what in a module would run code that is not in the module: functions of the process by name, and sources in pragmas.

A compiled module may call any function of the C library by its name, so a module that came from a stranger is looked through first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

import tvm
import tvm_ffi
from tvm import relax

from workbench.errors import InputError
from workbench.escaping import plain

HOW_TO_TRUST = "If you trust its author, allow it: --trust, or trust=True from Python."

_TVMS_OWN = ("vm.builtin.", "tvm.contrib.sort.", "tvm.contrib.thrust.")
_CALLS_BY_NAME = ("extern", "packed")
_PRAGMAS = ("import_llvm", "import_c")


def foreign_code(module: tvm.IRModule) -> list[str]:
    """Names of the foreign functions that a module calls, and of the pragmas that bring sources; empty for a module of its own code."""
    found: dict[str, None] = {}
    for function in module.functions.values():
        if isinstance(function, relax.ExternFunc):
            found[str(function.global_symbol)] = None
            continue
        node = function if isinstance(function, relax.Function) else function.body
        handlers = (
            (tvm.ir.Call, lambda call: found.update(dict.fromkeys(_called(call)))),
            (relax.ExternFunc, lambda external: found.setdefault(str(external.global_symbol))),
            (tvm.tirx.AttrStmt, lambda statement: found.update(dict.fromkeys(_imported(str(statement.attr_key))))),
            (tvm.tirx.For, lambda loop: found.update(dict.fromkeys(name for key in loop.annotations for name in _imported(str(key))))),
            (tvm.s_tir.SBlock, lambda block: found.update(dict.fromkeys(name for key in block.annotations for name in _imported(str(key))))),
        )
        tvm_ffi.structural_walk(node, handlers)
    brought = [str(name) for name in (module.attrs or {}) if "external_mods" in str(name)]
    return [name for name in [*found, *brought] if not name.startswith(_TVMS_OWN)]


def refuse_brought_code(module: tvm.IRModule, own: Collection[str]) -> None:
    """Refuse a scheduled kernel with foreign code that is not its `own`: a schedule brought it.

    Raises:
        InputError: There is such code.
    """
    brought = sorted(set(foreign_code(module)).difference(own))
    if brought:
        raise InputError(f"The recorded schedule brings code of its own into the kernel: {plain(', '.join(brought), 120)}.", HOW_TO_TRUST)


def _called(call: Any) -> Iterator[str]:
    """The name by which a TIR call reaches out of the module, if it does."""
    operator = str(getattr(call.op, "name", ""))
    if operator.startswith("tirx.") and "call" in operator and any(word in operator for word in _CALLS_BY_NAME):
        yield str(getattr(call.args[0], "value", operator)) if call.args else operator


def _imported(key: str) -> Iterator[str]:
    """A pragma's key, if the pragma brings sources into the compilation."""
    if any(name in key for name in _PRAGMAS):
        yield key
