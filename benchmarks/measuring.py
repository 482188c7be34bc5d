"""Runs a benchmark's parts in fresh processes, alternating between the two sides, and writes figures with their spread."""

from __future__ import annotations

import json
import os
import platform
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from workbench.machine import cpu_facts

RESULTS = Path(__file__).parent / "results"


def run_child(arguments: Sequence[str]) -> dict[str, Any]:
    """Run ``python ARGUMENTS``; the last line of its output is JSON. Adds ``wall_s``, the life of the whole process."""
    started = time.perf_counter()
    environment = {**os.environ, "TVM_NUM_THREADS": str(cpu_facts().physical_cores)}  # as the workbench gives its workers
    done = subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, env=environment)
    wall_s = time.perf_counter() - started
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(arguments)} ended with {done.returncode}: {done.stderr[-2000:]}")
    return {**json.loads(done.stdout.strip().splitlines()[-1]), "wall_s": wall_s}


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median, minimum and maximum."""
    return {"median": statistics.median(values), "min": min(values), "max": max(values)}


def alternate(sides: Mapping[str, Sequence[str]], *, rounds: int) -> dict[str, list[dict[str, Any]]]:
    """Run each side once a round, so that both see the same machine."""
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in sides}
    for _ in range(rounds):
        for name, arguments in sides.items():
            results[name].append(run_child(arguments))
    return results


def read(name: str) -> dict[str, Any]:
    """The figures that a benchmark wrote before."""
    figures: dict[str, Any] = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))["figures"]
    return figures


def write(name: str, figures: Mapping[str, Any], command: str) -> None:
    """Write a benchmark's figures with what they were measured on."""
    facts = cpu_facts()
    RESULTS.mkdir(exist_ok=True)
    machine = {
        "cpu": facts.model,
        "physical_cores": facts.physical_cores,
        "vector_width_bits": facts.vector_width_bits,
        "python": platform.python_version(),
    }
    text = json.dumps({"command": command, "commit": _commit(), "machine": machine, "figures": figures}, indent=2)
    (RESULTS / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def _commit() -> str:
    """The code that was measured; with a plus sign if it was changed since."""
    git = ["git", "-C", str(RESULTS.parent)]
    commit = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()
    changed = subprocess.run([*git, "status", "--porcelain", "--", ":/workbench"], capture_output=True, text=True, check=True).stdout.strip()
    return f"{commit}+" if changed else commit
