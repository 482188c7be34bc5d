"""`workbench demo` to its end with the smallest budget: what it applies loads in plain TVM, and computes what the untuned model does."""

from __future__ import annotations

import json
import math
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import relax

from workbench.cli import demo
from workbench.cli.main import main
from workbench.engines.relax import program_files
from workbench.engines.relax.build import build
from workbench.engines.relax.lowering import Lowered
from workbench.engines.targets import to_tvm
from workbench.records.comparison import Comparison
from workbench.records.target import TargetSpec
from workbench.session import SessionDirectory

HANG_S = 120
WITHOUT_THE_WORKBENCH = """
import sys
sys.modules["workbench"] = None
sys.path.insert(0, sys.argv[1])
import numpy as np
from load import load, random_inputs
data, = random_inputs(7)
output, = load()(data)
np.savez(sys.argv[2], data=data, output=output)
"""


def telling_weights(lowered: Lowered) -> list[Any]:
    """Random weights that keep the values' size: those of the bundled network are all the same, and so are its outputs."""
    random = np.random.default_rng(3)
    found = []
    for parameter in lowered.parameters:
        shape = tuple(int(size) for size in parameter.shape)
        values = random.standard_normal(shape, dtype=np.float32)
        found.append(tvm.runtime.tensor(values * np.float32(math.sqrt(2.0 / max(math.prod(shape[1:]), 1)))))
    return found


@pytest.mark.slow
def test_the_demo_ends_with_a_tuned_model_that_plain_tvm_runs_as_the_untuned_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(demo, "_SHARE", 0.2)
    monkeypatch.setattr(demo, "_TRIALS_PER_TASK", 3)
    monkeypatch.setattr(demo, "_MOST_SECONDS", 30.0)
    assert main(["demo", "--session", str(tmp_path / "s"), "--json", "-"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert set(told) == {"profile", "selection", "search", "comparison", "report"}
    assert told["profile"]["model"] == "squeezenet"
    assert told["search"]["trials"] > 0
    comparison = Comparison.from_dict(told["comparison"])
    assert comparison.applied
    assert comparison.verification.verified
    assert Path(told["report"]).read_text(encoding="utf-8").endswith("</html>\n")

    session = SessionDirectory.open(tmp_path / "s")
    lowered = program_files.load(session.program)
    weights = telling_weights(lowered)
    shutil.copytree(session.tuned, tmp_path / "tuned")
    program_files.save_parameters(weights, tmp_path / "tuned" / "params.bin")
    command = [sys.executable, "-c", WITHOUT_THE_WORKBENCH, str(tmp_path / "tuned"), str(tmp_path / "answer.npz")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG_S, check=False)
    assert done.returncode == 0, done.stderr
    with np.load(tmp_path / "answer.npz") as arrays:
        data, found = arrays["data"], arrays["output"]
    with session.store() as store:
        target = TargetSpec.from_dict(store.manifest()["target"])
    untuned = relax.VirtualMachine(build(lowered.module, to_tvm(target)).executable, tvm.cpu())
    result = untuned["main"](tvm.runtime.tensor(data), *weights)
    expected = (result if hasattr(result, "numpy") else result[0]).numpy()
    assert expected.std() > 1e-5  # of 1,000 classes, one tells from another
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
