"""What is handed to the user: the built model, its parameters, and a program that runs both with TVM alone."""

from __future__ import annotations

import errno
import os
import re
import string
from pathlib import Path
from typing import Any

from workbench.engines.relax import program_files
from workbench.engines.relax.lowering import Lowered
from workbench.errors import EnvironmentFault
from workbench.escaping import plain
from workbench.machine import c_compiler
from workbench.records.target import TargetSpec

MODEL, PARAMETERS, LOADER = "model.so", "params.bin", "load.py"

_LOADER_TEXT = string.Template('''\
"""Runs the tuned model that lies beside this file. It needs the packages apache-tvm and numpy, and nothing else.

    python load.py                     # runs it once on random inputs

    from load import load
    run = load()
    outputs = run($arguments)          # NumPy arrays in, NumPy arrays out
"""

import os
from pathlib import Path

os.environ.setdefault("TVM_NUM_THREADS", "$threads")  # before TVM loads, which otherwise takes half of the processors

import numpy as np
import tvm
from tvm import relax

FOLDER = Path(__file__).resolve().parent
INPUTS = $inputs


def load(device=None):
    """The model as a function of its inputs."""
    device = device if device is not None else tvm.device("$kind", 0)
    machine = relax.VirtualMachine(tvm.runtime.load_module(str(FOLDER / "$model")), device)
    saved = tvm.runtime.load_param_dict_from_file(str(FOLDER / "$parameters"))
    parameters = [tvm.runtime.tensor(saved[f"p{index}"].numpy(), device) for index in range(len(saved))]

    def run(*inputs):
        result = machine["main"](*(tvm.runtime.tensor(np.ascontiguousarray(array), device) for array in inputs), *parameters)
        return _arrays(result)

    return run


def random_inputs(seed=0):
    """Inputs of the right shapes and types; whole numbers are all 1."""
    generator = np.random.default_rng(seed)
    return [_random(generator, shape, dtype) for _, shape, dtype in INPUTS]


def _random(generator, shape, dtype):
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith(("int", "uint")):
        return np.ones(shape, dtype)
    if dtype in ("float16", "float32", "float64"):
        return generator.standard_normal(shape, dtype=np.float32).astype(dtype)
    import ml_dtypes

    return generator.standard_normal(shape, dtype=np.float32).astype(getattr(ml_dtypes, dtype))


def _arrays(result):
    return [result.numpy()] if hasattr(result, "numpy") else [array for item in result for array in _arrays(item)]


if __name__ == "__main__":
    for number, array in enumerate(load()(*random_inputs())):
        print(f"output {number}: {array.dtype} {array.shape}, first values {array.ravel()[:4]}")
''')
_NO_NAME = re.compile(r"\W+", re.ASCII)


def write_package(executable: Any, lowered: Lowered, spec: TargetSpec, folder: Path) -> Path:
    """Write a built model into an empty folder; returns the library.

    Raises:
        EnvironmentFault: There is no C compiler to link it, or the disk refuses.
    """
    library = folder / MODEL
    export(executable, library)
    try:
        program_files.save_parameters(lowered.parameters, folder / PARAMETERS)
        (folder / LOADER).write_text(loader_text(lowered, spec), encoding="utf-8")
    except OSError as error:
        raise _refused(folder, error) from error
    return library


def export(executable: Any, library: Path) -> None:
    """Link an executable into a library.

    Raises:
        EnvironmentFault: There is no C compiler, or the linker fails.
    """
    try:
        executable.export_library(str(library))
    except OSError as error:
        raise _refused(library.parent, error) from error
    except Exception as error:  # TVM raises what its linker says as RuntimeError
        if c_compiler() is None:
            raise EnvironmentFault("There is no C compiler to link the model with.", "Install g++ or clang.") from error
        raise EnvironmentFault(f"The model cannot be linked: {plain(str(error).strip(), 400)}", "See workbench doctor.") from error


def loader_text(lowered: Lowered, spec: TargetSpec) -> str:
    """The program that loads the model; names of inputs, which anybody may have written, stand in it as ASCII literals."""
    parameters = list(lowered.module["main"].params)[: lowered.input_count]
    inputs = [(plain(str(item.name)), tuple(int(size) for size in item.ty.shape.values), str(item.ty.dtype)) for item in parameters]
    lines = "".join(f"    {item!a},\n" for item in inputs)
    names = [_NO_NAME.sub("_", name) or "x" for name, _, _ in inputs]
    return _LOADER_TEXT.substitute(
        arguments=", ".join(name if name.isidentifier() else f"x{place}" for place, name in enumerate(names)),
        inputs=f"[  # name, shape, dtype\n{lines}]",
        kind="cpu" if spec.kind == "llvm" else spec.kind,
        model=MODEL,
        parameters=PARAMETERS,
        threads=_threads(spec),
    )


def _threads(spec: TargetSpec) -> int:
    """Threads that the model was timed with."""
    mine = os.environ.get("TVM_NUM_THREADS", "")
    return int(mine) if mine.isdigit() else int(spec.options.get("num-cores", 1))


def _refused(folder: Path, error: OSError) -> EnvironmentFault:
    why = os.strerror(error.errno) if error.errno == errno.ENOSPC else str(error.strerror or error)
    return EnvironmentFault(f"{plain(str(folder), 120)} cannot be written: {why}.", "Free some space.")
