"""Compiles one kernel with one schedule into a library; runs none."""

from __future__ import annotations

import contextlib
import json
import os
import platform
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import tvm

from .held import Held, Kernel
from .kernel_code import from_text
from .replaying import lowered
from .targets import translate
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
    function = lowered(Kernel(ENTRY, ENTRY, from_text(program["function"]), ""), target, program["trace"]).function
    with tvm.transform.PassContext(opt_level=3):
        library = tvm.build(tvm.IRModule({ENTRY: function}), target=target)
    path = arguments["path"]
    if not (target.kind.name == "llvm" and _LINKER and _link(library, path)):
        library.export_library(path)
    return {"build_s": time.perf_counter() - started}


def warm(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Load what building takes: it is loaded with this module."""
    del held, arguments, blobs, progress


def target_of(options: dict[str, Any]) -> Any:
    """The target that a session names."""
    return tvm.target.Target(translate(options, platform.machine())[0])


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
