"""Writes the tables of ``docs/benchmarks.md`` from ``benchmarks/results``: ``python benchmarks/table.py``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from measuring import RESULTS

PAGE = Path(__file__).parent.parent / "docs" / "benchmarks.md"

_INTRODUCTION = """# Benchmarks

Figures are medians with the smallest and largest in brackets; each table names the command that measured it and the machine.
Run them again with `make bench`; this page is written from `benchmarks/results/*.json` and not by hand. Nothing here was measured on a GPU.
"""

_LOWERING = """
## Import and lowering, against stock TVM
The bundled networks, imported and lowered in fresh processes, the workbench and stock TVM in turn. Stock is `from_onnx` and the passes
that TVM's documentation gives. The ratio is ours to stock's, pair by pair: below 1 we are faster. Most of the difference is that constants
are folded in NumPy instead of by compiling a kernel for each; fewer kernels come from folding batch normalisations into the convolutions.
"""

_PROFILING = """
## From the command to the table
A profile of the model from a fresh Python process, as `workbench profile MODEL` makes it: `command` is everything, `lower` the import and
the lowering alone, `measure` compilation and measurement. `difference` is the sum of the rows against the end-to-end median of the same
session; `overhead` is a run with the instrument against one without, in turn. One profile a model; its own spread is in its session.
Untuned kernels are slow: that is what is measured.
"""

_GROWTH = """
## Growth with the number of rows
A generated chain of matrix products, each its own row, of 40 distinct shapes: time and memory per row must not grow.
"""


def main() -> None:
    """Write the page."""
    sections = [_INTRODUCTION, *_lowering(_read("lowering")), *_profiling(_read("profiling")), *_growth(_read("growth"))]
    PAGE.write_text("\n".join(sections), encoding="utf-8")


def _read(name: str) -> dict[str, Any]:
    values: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return values


def _lowering(values: dict[str, Any]) -> Iterable[str]:
    header = ("model", "ours (s)", "stock (s)", "ratio", "peak memory ours / stock (MB)", "kernels ours / stock")
    rows = [
        (
            name,
            _spread(run["ours_s"]),
            _spread(run["stock_s"]),
            _spread(run["ratio"]),
            f"{run['ours_peak_bytes'] / 1e6:.0f} / {run['stock_peak_bytes'] / 1e6:.0f}",
            f"{run['ours_kernels']} / {run['stock_kernels']}",
        )
        for name, run in values["figures"].items()
    ]
    return _LOWERING, _table(header, rows), _origin(values)


def _profiling(values: dict[str, Any]) -> Iterable[str]:
    header = (
        "model",
        "rows",
        "tasks",
        "command (s)",
        "lower (s)",
        "measure (s)",
        "end to end (ms)",
        "difference",
        "rounds",
        "overhead",
        "peak memory (MB)",
    )
    rows = [
        (
            name,
            str(run["rows"]),
            str(run["tasks"]),
            f"{run['wall_s']:.1f}",
            f"{run['import_s'] + run['lower_s']:.2f}",
            f"{run['measure_s']:.1f}",
            f"{run['total_us'] / 1e3:,.2f}",
            f"{run['difference_percent']:+.2f} %",
            str(run["rounds"]),
            _spread(run["overhead_ratio"], digits=3),
            f"{run['peak_bytes'] / 1e6:.0f}",
        )
        for name, run in values["figures"].items()
    ]
    return _PROFILING, _table(header, rows), _origin(values)


def _growth(values: dict[str, Any]) -> Iterable[str]:
    header = ("rows", "command (s)", "lower (s)", "measure (s)", "link (ms)", "command a row (ms)", "peak memory (MB)", "database (kB)")
    rows = [
        (
            f"{int(name):,}",
            _spread(run["wall_s"]),
            _spread(run["lower_s"]),
            _spread(run["measure_s"]),
            f"{run['link_s']['median'] * 1e3:.0f}",
            f"{run['wall_s']['median'] / int(name) * 1e3:.2f}",
            f"{run['peak_bytes']['median'] / 1e6:.0f}",
            f"{run['database_bytes']['median'] / 1e3:.0f}",
        )
        for name, run in values["figures"].items()
    ]
    return _GROWTH, _table(header, rows), _origin(values)


def _spread(values: dict[str, float], digits: int = 2) -> str:
    return f"{values['median']:.{digits}f} [{values['min']:.{digits}f}, {values['max']:.{digits}f}]"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _origin(values: dict[str, Any]) -> str:
    machine = values["machine"]
    return (
        f"\n`{values['command']}` on {machine['cpu']}, {machine['physical_cores']} cores, vectors of {machine['vector_width_bits']} bits, "
        f"Python {machine['python']}.\n"
    )


if __name__ == "__main__":
    main()
