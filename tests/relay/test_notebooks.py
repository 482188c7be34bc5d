"""The operator-level notebook with the same cells on the original auto_scheduler."""

from __future__ import annotations

from pathlib import Path

import pytest

from workbench.old_python import VARIABLE

NOTEBOOK = Path(__file__).parents[2] / "notebooks" / "autoscheduler_conv2d.ipynb"
_LAST_CELL = "print('tvm' in sys.modules, task.session.request.engine, len(task.trials()))"


def test_the_notebook_runs_on_the_old_tvm_where_one_is_named(old_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    nbclient = pytest.importorskip("nbclient", reason="the extra notebook is not installed")
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    monkeypatch.setenv(VARIABLE, str(old_python))
    document = nbformat.read(NOTEBOOK, as_version=4)
    document.cells.insert(-1, nbformat.v4.new_code_cell(_LAST_CELL))
    nbclient.NotebookClient(document, timeout=600, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    assert document.cells[-2].outputs[0]["text"] == "False relay 15\n"
