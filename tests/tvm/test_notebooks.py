"""The notebooks run from top to bottom in a kernel, are stored without outputs, and never load TVM into that kernel."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from workbench.old_python import VARIABLE

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("*.ipynb"))
_LAST_CELL = "import sys\nprint('tvm' in sys.modules)"
_MOST_CODE_LINES = 30
_SMALL = {
    "WORKBENCH_NOTEBOOK_TRIALS": "12",
    "WORKBENCH_NOTEBOOK_IMAGE": "32",
    "WORKBENCH_NOTEBOOK_OLD": str(Path(__file__).parents[1] / "samples" / "old_tvm" / "vgg16"),
}
"""What a notebook takes from the environment: budgets, and where artifacts of old TVM lie."""


def cells_of(notebook: Path, kind: str) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(notebook.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == kind]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_thin_and_stored_without_outputs(notebook: Path) -> None:
    cells = cells_of(notebook, "code")
    assert cells
    assert all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)
    assert max(len(cell["source"]) for cell in cells) <= _MOST_CODE_LINES
    assert notebook.stat().st_size < 10_000
    assert "widgets" not in json.loads(notebook.read_text(encoding="utf-8"))["metadata"]


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_in_a_kernel_that_never_loads_tvm(notebook: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra notebook is not installed")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("anywidget")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.delenv(VARIABLE, raising=False)  # on today's TVM
    for name, value in _SMALL.items():
        monkeypatch.setenv(name, value)
    document = nbformat.read(notebook, as_version=4)
    document.cells.append(nbformat.v4.new_code_cell(_LAST_CELL))
    client = nbclient.NotebookClient(document, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}})
    client.execute()
    assert document.cells[-1].outputs[0]["text"] == "False\n"
