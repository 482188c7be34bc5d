"""How time and memory grow with the number of rows, on a generated model: matrix products, each with weights and a shape of its own.

``python benchmarks/growth.py`` writes ``results/growth.json``: 1,250, 2,500 and 5,000 rows, each in a fresh process.
"""

from __future__ import annotations

import itertools
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
from measuring import run_child, spread, write
from onnx import TensorProto, helper, numpy_helper, save

import workbench

_ROWS = (1250, 2500, 5000)
_ROUNDS = 3
_DISTINCT = 40


def generate(path: Path, rows: int) -> None:
    """Write an ONNX chain that lowers to so many kernel calls of 40 distinct shapes: products, which do not fuse with each other."""
    widths = [16 + index % _DISTINCT for index in range(rows + 1)]
    generator = np.random.default_rng(0)
    weights = [
        numpy_helper.from_array(generator.standard_normal(shape, dtype=np.float32) / 8, f"w{index}")
        for index, shape in enumerate(itertools.pairwise(widths))
    ]
    nodes = [helper.make_node("MatMul", [f"x{index}", f"w{index}"], [f"x{index + 1}"], name=f"product_{index}") for index in range(rows)]
    tensor = TensorProto.FLOAT
    inputs = [helper.make_tensor_value_info("x0", tensor, [8, widths[0]])]
    outputs = [helper.make_tensor_value_info(f"x{rows}", tensor, [8, widths[-1]])]
    graph = helper.make_graph(nodes, "chain", inputs, outputs, weights)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), str(path))


def profile(rows: int) -> None:
    """Profile the model, and print the figures."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "chain.onnx"
        generate(path, rows)
        with workbench.open(path, target="cpu", session=f"{folder}/session", repeat=3) as session:
            record = session.profile().record
            timings = session.manifest()["timings"]
        database_bytes = (session.path / "session.sqlite").stat().st_size  # closed: nothing is left in the write-ahead log
    sys.stdout.write(f"{json.dumps({'rows': len(record.kernel_rows), 'database_bytes': database_bytes, **timings})}\n")


def main() -> None:
    """Measure the three sizes in turn."""
    runs: dict[int, list[dict[str, float]]] = {rows: [] for rows in _ROWS}
    for _ in range(_ROUNDS):
        for rows in _ROWS:
            runs[rows].append(run_child([__file__, str(rows)]))
            sys.stderr.write(f"{rows}: {runs[rows][-1]['wall_s']:.1f} s\n")
    figures = {str(rows): {name: spread([run[name] for run in found]) for name in found[0]} for rows, found in runs.items()}
    write("growth", figures, "python benchmarks/growth.py")


if __name__ == "__main__":
    if len(sys.argv) == 2:
        profile(int(sys.argv[1]))
    else:
        main()
