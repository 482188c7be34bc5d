"""`workbench.SearchTask` on older TVM: the auto-scheduler's operator-level way of working, by the original."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench
from tests.relay.test_models_in import LAYERS
from workbench.errors import ModelError
from workbench.records.trial import OK, MeasureOptions

ARGS = (1, 7, 7, 32, 16, 3, 3, 1, 1)
QUICK = MeasureOptions(repeat=3, min_repeat_ms=1.0)
HANG_S = 400

CHECK = """
import sys
import numpy as np
import tvm
rng = np.random.default_rng(0)
data, kernel, bias = (rng.standard_normal(s, dtype="float32") for s in ((1, 16, 7, 7), (32, 16, 3, 3), (1, 32, 1, 1)))
windows = np.lib.stride_tricks.sliding_window_view(np.pad(data, ((0, 0), (0, 0), (1, 1), (1, 1))), (3, 3), axis=(2, 3))
expected = np.maximum(np.einsum("nchwij,ocij->nohw", windows, kernel) + bias, 0)
arrays = [tvm.nd.array(value) for value in (data, kernel, bias, np.zeros_like(expected))]
tvm.runtime.load_module(sys.argv[1])[sys.argv[2]](*arrays)
np.testing.assert_allclose(arrays[-1].numpy(), expected, rtol=1e-3, atol=1e-3)
"""


@pytest.fixture(scope="module")
def task(old_python: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[workbench.SearchTask]:
    """The bundled convolution, searched for five trials."""
    session = tmp_path_factory.mktemp("task") / "s"
    with workbench.SearchTask("conv2d_relu", ARGS, "cpu", session=session, threads=2, engine="relay", python=old_python) as made:
        made.tune(5, measure=QUICK)
        yield made.wait(HANG_S)


def test_it_is_one_kernel_whose_computation_is_shown(task: workbench.SearchTask) -> None:
    assert len(task.kernels) == 1
    assert "PLACEHOLDER [1, 16, 7, 7]" in task.compute_dag
    assert "PLACEHOLDER [32, 16, 3, 3]" in task.compute_dag


def test_the_best_is_read_built_and_right(task: workbench.SearchTask, old_python: Path) -> None:
    assert len(task.trials()) == 5
    best = task.apply_best()
    command = [str(old_python), "-c", CHECK, str(best.library), best.kernel]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    assert "T.prim_func" in task.print_best("tir")
    assert "def " in task.print_best("schedule", trial=1)
    assert task.session.manifest()["target"]["kind"] == "llvm"


def test_it_is_gone_on_with(task: workbench.SearchTask) -> None:
    before = task.trials()
    task.resume(len(before) + 2, measure=QUICK).wait(HANG_S)
    after = task.trials()
    assert after[: len(before)] == before
    assert len({trial.fingerprint for trial in after}) == len(after) == len(before) + 2


def test_a_function_of_the_old_python_needs_trust_and_one_of_this_process_is_refused(
    old_python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "layers_of_old_tvm.py").write_text(LAYERS)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match="runs Python code"):
        workbench.SearchTask("layers_of_old_tvm:scaled", (6, 8, 3.0), "cpu", engine="relay", python=old_python)
    options = {"engine": "relay", "python": old_python, "threads": 2}
    with workbench.SearchTask("layers_of_old_tvm:scaled", (6, 8, 3.0), "cpu", trust=True, **options) as own:
        assert "scaled(i" in own.compute_dag
        own.tune(3, measure=QUICK).wait(HANG_S)
        assert [trial.status for trial in own.trials()] == [OK] * 3
        path = own.session.path
    with workbench.open(path, python=old_python) as reopened, pytest.raises(ModelError, match="runs Python code"):
        reopened.inspect(reopened.profile().tasks[0].task, "tir")
    with (
        workbench.SearchTask(lambda size: [], (4,), "cpu", session=tmp_path / "lambda", **options) as refused,
        pytest.raises(ModelError, match="says nothing to the old TVM"),
    ):
        refused.tune(2)
