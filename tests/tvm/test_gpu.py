"""The whole job on a CUDA device; a machine without one skips it and says why."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import workbench
from workbench.records.comparison import Comparison
from workbench.records.trial import OK, MeasureOptions

pytestmark = [pytest.mark.gpu, pytest.mark.slow]
QUICK = MeasureOptions(repeat=3, min_repeat_ms=1.0)
HANG_S = 600
RUN_ALONE = """
import sys
sys.modules["workbench"] = None
sys.path.insert(0, sys.argv[1])
from load import load, random_inputs
print([output.shape for output in load()(*random_inputs(0))])
"""


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[workbench.Session]:
    """A small convolution that was searched on the device."""
    with workbench.open("conv2d_relu", target="cuda", session=tmp_path_factory.mktemp("gpu") / "s") as opened:
        opened.profile().select(top=1)
        opened.tune(per_task=24, measure=QUICK).wait(HANG_S)
        yield opened


def test_kernels_are_measured_on_the_device_and_the_right_ones_win(session: workbench.Session) -> None:
    profile = session.profile()
    assert profile.total_us is not None
    trials = [stored.trial for stored in session.directory.store().trials.all()]
    assert trials[0].status == OK
    right = [trial for trial in trials[1:] if trial.status == OK]
    assert right
    assert all(trial.check is not None and trial.check.mismatches == 0 for trial in right)


def test_what_is_applied_is_verified_and_runs_with_tvm_alone(session: workbench.Session) -> None:
    comparison: Comparison = session.apply()
    assert comparison.verification.verified
    done = subprocess.run([sys.executable, "-c", RUN_ALONE, str(Path(session.path) / "tuned")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
