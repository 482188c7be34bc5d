"""Where the Python with an old TVM is that tests of the relay engine run on."""

from __future__ import annotations

import os
from pathlib import Path

OWN = Path(__file__).parents[1] / ".venv-relay" / "bin" / "python"
WHERE = "NO OLD PYTHON WITH RELAY: make test-relay sets one up, or name one in WORKBENCH_RELAY_PYTHON"


def find_old_python() -> Path | None:
    """The program; None if there is none."""
    named = os.environ.get("WORKBENCH_RELAY_PYTHON", "")
    if named:
        return Path(named)
    return OWN if OWN.exists() else None
