"""Import and lowering of the bundled networks against stock TVM's own passes: time and peak memory, paired in one run.

``python benchmarks/lowering.py [ROUNDS]`` writes ``results/lowering.json``. The peer is what TVM's documentation does: ``from_onnx``, then
``DecomposeOpsForInference, CanonicalizeBindings, FoldConstant, LegalizeOps, AnnotateTIROpPattern, FoldConstant, FuseOps, FuseTIR``.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path

from measuring import alternate, spread, write

from workbench.models import bundled_models, resolve_model


def ours(name: str) -> None:
    """Import and lower with the workbench, and print the figures."""
    from workbench.engines.relax.engine import RelaxEngine  # noqa: PLC0415 - the child alone loads TVM

    engine = RelaxEngine()
    target = engine.resolve_target("cpu", threads=1)
    started = time.perf_counter()
    engine.import_model(resolve_model(name), seed=0, function=None)
    engine.lower(target, layout="keep", fusion=True, on_progress=lambda *_: None)
    _print(time.perf_counter() - started, kernels=len({call.kernel for call in engine.calls()}), calls=len(engine.calls()))


def stock(name: str) -> None:
    """Import and lower with TVM alone, and print the figures."""
    import onnx  # noqa: PLC0415 - the child alone loads TVM
    import tvm  # noqa: PLC0415
    from tvm import relax  # noqa: PLC0415
    from tvm.relax.frontend.onnx import from_onnx  # noqa: PLC0415

    from workbench.engines.targets import resolve_target, to_tvm  # noqa: PLC0415

    target = to_tvm(resolve_target("cpu", threads=1))
    started = time.perf_counter()
    module = from_onnx(onnx.load(str(Path(resolve_model(name).path))))
    passes = relax.transform
    with target:
        module = tvm.transform.Sequential(
            [
                passes.DecomposeOpsForInference(),
                passes.CanonicalizeBindings(),
                passes.FoldConstant(),
                passes.LegalizeOps(),
                passes.AnnotateTIROpPattern(),
                passes.FoldConstant(),
                passes.FuseOps(),
                passes.FuseTIR(),
            ]
        )(module)
    kernels = sum(isinstance(function, tvm.tirx.PrimFunc) for function in module.functions.values())
    _print(time.perf_counter() - started, kernels=kernels, calls=0)


def _print(seconds: float, *, kernels: int, calls: int) -> None:
    peak_bytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    sys.stdout.write(f"\n{json.dumps({'seconds': seconds, 'peak_bytes': peak_bytes, 'kernels': kernels, 'calls': calls})}\n")


def main(rounds: int) -> None:
    """Measure every bundled network."""
    figures = {}
    for model in bundled_models():
        if model.kind != "onnx":
            continue
        sides = {side: [__file__, side, model.name] for side in ("ours", "stock")}
        results = alternate(sides, rounds=rounds)
        seconds = {side: [run["seconds"] for run in runs] for side, runs in results.items()}
        figures[model.name] = {
            "ours_s": spread(seconds["ours"]),
            "stock_s": spread(seconds["stock"]),
            "ratio": spread([mine / theirs for mine, theirs in zip(seconds["ours"], seconds["stock"], strict=True)]),
            "ours_peak_bytes": max(run["peak_bytes"] for run in results["ours"]),
            "stock_peak_bytes": max(run["peak_bytes"] for run in results["stock"]),
            "ours_kernels": results["ours"][0]["kernels"],
            "stock_kernels": results["stock"][0]["kernels"],
        }
        sys.stderr.write(f"{model.name}: {json.dumps(figures[model.name]['ratio'])}\n")
    write("lowering", figures, f"python benchmarks/lowering.py {rounds}")


if __name__ == "__main__":
    if len(sys.argv) == 3:
        {"ours": ours, "stock": stock}[sys.argv[1]](sys.argv[2])
    else:
        main(int(sys.argv[1]) if len(sys.argv) == 2 else 3)
