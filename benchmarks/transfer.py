"""Whether records of other kernels on the same target help a search to start: ``python benchmarks/transfer.py`` writes ``results/transfer.json``."""

from __future__ import annotations

import json
import math
import os
import statistics
import sys
import tempfile
from pathlib import Path

from kernels import TASKS
from measuring import write

import workbench

_LEARNED = {"conv2d 1x128x28x28 128 3x3": ("conv2d", [128, 28, 128]), "conv2d 1x256x14x14 256 3x3": ("conv2d", [256, 14, 256])}
_SEARCHED = ("conv2d 1x512x7x7 512 3x3", "conv2d 1x64x56x56 64 3x3")
_TRIALS = 64
_AFTER = (16, 32, 64)
_SEEDS = (1, 2, 3)


def search(name: str, arguments: list[int], folder: Path, *, seed: int, transfer: list[Path]) -> list[float]:
    """Best time in microseconds after each trial of a search."""
    with workbench.open(f"kernels:{name}", args=arguments, target="cpu", session=folder, trust=True, repeat=1) as session:
        selection = session.profile().select(top=1)
        found = session.tune(selection, trials=_TRIALS, seed=seed, flat_after=None, transfer=transfer)
        found.wait()
        best = [trial.best_us or math.inf for trial in found.trials()[0]]
        return [*best, *([best[-1]] * (_TRIALS - len(best)))]


def main() -> None:
    """Search the learned kernels once, then the others with and without their records."""
    os.environ["PYTHONPATH"] = str(Path(__file__).parent)
    runs = []
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        sources = []
        for title, (name, arguments) in _LEARNED.items():
            sources.append(folder / title.replace(" ", "_"))
            search(name, arguments, sources[-1], seed=0, transfer=[])
        for seed in _SEEDS:
            for title in _SEARCHED:
                name, arguments = TASKS[title]
                sides: dict[str, list[Path]] = {"without": [], "with": sources}
                order = list(sides) if len(runs) % 2 == 0 else list(reversed(sides))
                best = {side: search(name, arguments, folder / f"{side}-{len(runs)}", seed=seed, transfer=sides[side]) for side in order}
                without, helped = best["without"], best["with"]
                runs.append({"task": title, "seed": seed, "gain": [without[count - 1] / helped[count - 1] for count in _AFTER]})
                sys.stderr.write(f"{json.dumps(runs[-1])}\n")
    means = [math.exp(statistics.fmean(math.log(run["gain"][place]) for run in runs)) for place in range(len(_AFTER))]
    write("transfer", {"after": list(_AFTER), "runs": runs, "geometric_mean": means}, "python benchmarks/transfer.py")


if __name__ == "__main__":
    main()
