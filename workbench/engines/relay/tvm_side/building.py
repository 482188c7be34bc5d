"""Compiles one kernel with one schedule into a library; runs none."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import tvm

from .failing import INPUT, Refusal
from .held import Held
from .kernel_code import from_text, lower
from .wire import Blob

ENTRY = "kernel"
"""Name of the function in each library."""

_LINKER = shutil.which("ld")


def build(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Compile the program in the first blob for ``target`` into the library ``path``.

    The program is JSON: the ``function``, and the ``trace`` of its schedule, a line of a log; an empty one is what TVM makes without records.
    """
    del held, progress
    started = time.perf_counter()
    program = json.loads(bytes(blobs[0]))
    target = target_of(arguments["target"])
    symbol, lowered = scheduled(from_text(program["function"]), target, program["trace"])
    with tvm.transform.PassContext(opt_level=3):
        library = tvm.build(_renamed(lowered, symbol), target=target)
    path = arguments["path"]
    if not (target.kind.name == "llvm" and _LINKER and _link(library, path)):
        library.export_library(path)
    return {"build_s": time.perf_counter() - started}


def warm(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Load what building takes: it is loaded with this module."""
    del held, arguments, blobs, progress


def scheduled(function: Any, target: Any, trace: str) -> tuple[str, Any]:
    """Symbol and TIR of a kernel with a recorded schedule.

    Raises:
        Refusal: The schedule is another kernel's.
    """
    if not trace:
        return lower(function, target)
    if "i" in json.loads(trace):
        from .sketches import schedule_of

        return lower(function, target, schedule=lambda outs: schedule_of(trace, outs))
    from .templates import chosen_by

    with chosen_by(trace) as chosen:
        found = lower(function, target)
    if not chosen.asked:
        raise Refusal(INPUT, "The recorded schedule is another kernel's.", "Search the task again.")
    return found


def target_of(options: dict[str, Any]) -> Any:
    """The target that a session names."""
    return tvm.target.Target(dict(options, host=options["host"]) if "host" in options else options)


def _renamed(lowered: Any, symbol: str) -> Any:
    """The kernel under the name that all libraries have it by."""
    if isinstance(lowered, tvm.IRModule):
        return _entered(lowered, symbol)
    return {target: _entered(module, symbol) for target, module in lowered.items()}


def _entered(module: Any, symbol: str) -> Any:
    functions = {}
    for name, function in module.functions.items():
        is_entry = name.name_hint == symbol
        functions[ENTRY if is_entry else name.name_hint] = function.with_attr("global_symbol", ENTRY) if is_entry else function
    return tvm.IRModule(functions)


def _link(library: Any, path: str) -> bool:
    """Link host code by the linker itself, which takes a tenth of what a compiler's driver takes.

    Returns:
        False if it needs what a driver would link with it.
    """
    if library.imported_modules:
        return False
    objects = Path(path + ".o")
    library.save(str(objects), "o")
    try:
        subprocess.run([str(_LINKER), "-shared", str(objects), "-o", path], check=True, capture_output=True)
        import _ctypes

        handle = _ctypes.dlopen(path, os.RTLD_NOW | os.RTLD_LOCAL)
        _ctypes.dlclose(handle)
    except (OSError, subprocess.CalledProcessError):
        return False
    finally:
        with contextlib.suppress(FileNotFoundError):
            objects.unlink()
    return True


CALLS = {"build": build, "warm": warm}
