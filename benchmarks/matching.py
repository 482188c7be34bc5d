"""Rows of old debug tables matched to their Relay programs, beside what old TVM itself knows of each row.

``python benchmarks/matching.py [FOLDER...]`` writes ``results/matching.json``. A folder is one that ``tests/relay/old_tvm_truth.py NETWORK VARIANT
FOLDER`` wrote with a Python that has old TVM; those of ``tests/samples/matching`` are always looked at, and need none.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from measuring import write

from tests.matching_truth import verdicts

SAMPLES = Path(__file__).parent.parent / "tests" / "samples" / "matching"
SURE = 0.9


def main() -> None:
    """Match and write."""
    folders = [*sorted(SAMPLES.iterdir()), *map(Path, sys.argv[1:])]
    figures = {"networks": sorted((_matched(folder) for folder in folders), key=lambda found: (found["network"], found["variant"]))}
    write("matching", figures, "python benchmarks/matching.py FOLDER...")
    print(json.dumps(figures, indent=2))  # noqa: T201 - a script


def _matched(folder: Path) -> dict[str, Any]:
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    started = time.perf_counter()
    found = verdicts(folder)
    wrong = [item for item in found if item.wrong]
    return {
        "network": truth["network"],
        "variant": truth["variant"],
        "rows": len(found),
        "right": len(found) - len(wrong),
        "sure_and_wrong": sum(item.match.confidence >= SURE for item in wrong),
        "ambiguous": sum(item.match.confidence < SURE for item in found),
        "seconds": time.perf_counter() - started,
    }


if __name__ == "__main__":
    main()
