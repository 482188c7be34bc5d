"""Self-check of the installed TVM: builds and runs one small kernel the way tuning does.

Run as ``python -m workbench.engines.relax.abi_check`` in a child process, because a TVM with the wrong tvm-ffi dies with SIGSEGV.
Stdout gets one JSON line of facts before the risky part; stderr gets ``stage <name>`` lines; the exit code says whether it worked.
"""

from __future__ import annotations

import json
import sys
import types
from typing import Any

import numpy as np
import tvm
import tvm_ffi
from tvm import te
from tvm.s_tir import meta_schedule
from tvm.target import Target, codegen

from workbench.engines import targets

SIZE = 32


def facts() -> dict[str, Any]:
    """Versions, and what this TVM sees of the machine."""
    _stage("importing xgboost")
    xgboost_version, xgboost_error = _xgboost()
    _stage("looking at the machine")
    return {
        "tvm": str(tvm.__version__),
        "tvm_ffi": str(tvm_ffi.__version__),
        "llvm": int(codegen.llvm_version_major()),
        "mcpu": targets.host_cpu_config()["mcpu"],
        "triple": str(codegen.llvm_get_system_triple()),
        "pool_threads": int(tvm_ffi.get_global_func("runtime.NumThreads")()),
        "kinds": list(targets.buildable_kinds()),
        "tag_count": len(targets.target_tags()),
        "cuda_arch": targets.cuda_arch(),
        "xgboost": xgboost_version,
        "xgboost_error": xgboost_error,
    }


def run_kernel() -> None:
    """Generate, build and run a matrix product.

    Raises:
        RuntimeError: It ran, but the numbers are wrong.
    """
    _stage("creating a TuneContext")
    # TuneContext imports this module for its tensor intrinsics (13.5 s); an untensorized kernel needs none of them.
    sys.modules.setdefault("tvm.s_tir.tensor_intrin", types.ModuleType("tvm.s_tir.tensor_intrin"))
    context = meta_schedule.TuneContext(
        mod=matrix_product(),
        target=Target({"kind": "llvm", "num-cores": 1}),
        space_generator="post-order-apply",
        search_strategy="replay-trace",
        num_threads=1,
        rand_state=1,
    )
    _stage("generating schedules")
    context.pre_tuning(1, 1, context.generate_design_space())
    candidate = context.generate_measure_candidates()[0]
    context.post_tuning()
    _stage("building a kernel with LLVM")
    library = tvm.compile(candidate.sch.mod, target=Target(targets.host_cpu_config()))
    _stage("running a kernel")
    left = np.arange(SIZE * SIZE, dtype="float32").reshape(SIZE, SIZE) % 7
    tensors = [tvm.runtime.tensor(array, tvm.cpu()) for array in (left, left.T.copy(), np.zeros_like(left))]
    library(*tensors)
    if not np.allclose(tensors[2].numpy(), left @ left.T):
        raise RuntimeError("The kernel ran but its result is wrong.")


def matrix_product() -> Any:
    """A PrimFunc that multiplies two square float32 matrices."""
    left, right = (te.placeholder((SIZE, SIZE), name=name) for name in ("left", "right"))
    axis = te.reduce_axis((0, SIZE), "k")
    product = te.compute((SIZE, SIZE), lambda i, j: te.sum(left[i, axis] * right[axis, j], axis=axis), name="product")
    return te.create_prim_func([left, right, product])


def main() -> int:
    """Print the facts, then run the kernel; 0 if all went well."""
    sys.stdout.write(json.dumps(facts()) + "\n")
    sys.stdout.flush()
    run_kernel()
    return 0


def _xgboost() -> tuple[str | None, str]:
    try:
        import xgboost  # noqa: PLC0415 - optional, and whether it loads is the question
    except Exception as error:  # noqa: BLE001 - a broken installation fails in many ways; any of them is the answer
        return None, f"{type(error).__name__}: {error}"[:300]
    return str(xgboost.__version__), ""


def _stage(name: str) -> None:
    sys.stderr.write(f"stage {name}\n")
    sys.stderr.flush()


if __name__ == "__main__":
    sys.exit(main())
