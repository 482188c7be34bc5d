"""Runs in a building process: compiles a scheduled module into a shared library."""

from __future__ import annotations

import _ctypes
import os
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import tvm

from workbench.engines.relax.build import compiled, has_import
from workbench.engines.relax.cpu_check import NotCheckable, runnable_on_cpu
from workbench.engines.relax.cuda_code import cuda_source, ptxas_report
from workbench.engines.targets import to_tvm
from workbench.isolation import Message
from workbench.records.target import TargetSpec

_TOOLKIT_TIMEOUT_S = 60.0
_LINKER = shutil.which("ld")
_targets: dict[str, tvm.target.Target] = {}


def serve(request: Message) -> Message:
    """Build one candidate.

    Args:
        request: ``target`` (as `TargetSpec.to_dict`) and ``path`` of the library to write; the module as TVM's JSON in the first blob.
            With ``for_cpu`` the library is of the module's CPU form, for the target ``host``, or of that of the module in the second blob if there
            is one; the code for ``target`` is only generated, and compiled if the toolkit is here.

    Returns:
        ``build_s``: seconds it took; ``unchecked``: why there is no CPU form, and so no library.

    Raises:
        Exception: Whatever code generation raises.
    """
    started = time.perf_counter()
    path = Path(str(request.values["path"]))
    target = _target(request.values["target"])
    module = tvm.ir.load_json(request.blobs[0].decode())
    if request.values["for_cpu"]:
        _check_code(module, target, path)
        target = _target(request.values["host"])
        try:
            module = runnable_on_cpu(tvm.ir.load_json(request.blobs[-1].decode()))
        except NotCheckable as error:
            return Message({"build_s": time.perf_counter() - started, "unchecked": error.reason})
    library = compiled(lambda: tvm.compile(module, target=target), target, trusted_caller=True)
    if target.kind.name == "cuda" and not has_import(library.mod, "cuda"):
        raise RuntimeError("The kernel has no GPU schedule: no loop of it is bound to threads.")
    is_written = target.kind.name == "llvm" and _LINKER is not None and os.name == "posix" and _link_host_code(library, path)
    if not is_written:
        library.export_library(str(path))
    return Message({"build_s": time.perf_counter() - started})


def _link_host_code(library: tvm.runtime.Executable, path: Path) -> bool:
    """Write a library of host code alone: the linker by itself takes 3 ms, through a compiler's driver three times as long.

    Returns:
        False if it calls a function that is not loaded here: a driver links libraries of the compiler's own with it.
    """
    objects = path.with_suffix(".o")
    library.mod.write_to_file(str(objects), "o")
    try:
        subprocess.run([str(_LINKER), "-shared", str(objects), "-o", str(path)], check=True, capture_output=True, text=True)
    except subprocess.CalledProcessError as error:
        raise RuntimeError(f"ld failed: {error.stderr.strip()[:2000]}") from error
    finally:
        objects.unlink(missing_ok=True)
    try:
        handle = _ctypes.dlopen(str(path), os.RTLD_NOW | os.RTLD_LOCAL)
    except OSError:
        return False
    _ctypes.dlclose(handle)
    return True


def _check_code(module: tvm.IRModule, target: tvm.target.Target, path: Path) -> None:
    """Generate the code for a device that is not here; for a GPU, have the toolkit compile it if there is one."""
    if target.kind.name == "cuda":
        ptxas_report(cuda_source(module, target), str(target.attrs["arch"]), timeout_s=_TOOLKIT_TIMEOUT_S)
        return
    library = compiled(lambda: tvm.compile(module, target=target), target, trusted_caller=True)
    if target.kind.name == "llvm":
        objects = path.with_suffix(".o")
        library.mod.write_to_file(str(objects), "o")
        objects.unlink(missing_ok=True)


def _target(values: dict[str, Any]) -> tvm.target.Target:
    spec = TargetSpec.from_dict(values)
    if spec.config not in _targets:
        _targets[spec.config] = to_tvm(spec)
    return _targets[spec.config]
