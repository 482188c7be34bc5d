"""Matching against old TVM itself: it builds networks, tells the exact links of every row, and prints the debug table that is matched without it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.matching_truth import Verdict, verdicts

SCRIPT = Path(__file__).with_name("old_tvm_truth.py")
_OWN = Path(__file__).parents[2] / ".venv-relay" / "bin" / "python"
_PYTHON = Path(os.environ.get("WORKBENCH_RELAY_PYTHON", str(_OWN)))
_SURE = 0.9

pytestmark = pytest.mark.skipif(not _PYTHON.is_file(), reason="no Python with old TVM: WORKBENCH_RELAY_PYTHON names none")


def matched(network: str, variant: str, folder: Path) -> list[Verdict]:
    command = [str(_PYTHON), str(SCRIPT), network, variant, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return verdicts(folder)


@pytest.mark.parametrize("variant", ["blocked", "plain"])
@pytest.mark.parametrize("network", ["mlp", pytest.param("resnet18", marks=pytest.mark.slow)])
def test_every_row_of_the_sample_networks_is_right(network: str, variant: str, tmp_path: Path) -> None:
    found = matched(network, variant, tmp_path)
    assert [(item.node, item.wrong) for item in found if item.wrong] == []


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["blocked", "plain"])
@pytest.mark.parametrize("network", ["branches", "dqn", "mobilenet", "squeezenet", "vgg16", "resnet50_nhwc"])
def test_no_row_of_other_networks_is_surely_wrong_and_most_are_right(network: str, variant: str, tmp_path: Path) -> None:
    found = matched(network, variant, tmp_path)
    share = sum(not item.wrong for item in found) / len(found)
    print(f"{network}, {variant}: {share:.0%} of {len(found)} rows right")  # noqa: T201 - the share is what is asked for
    assert [(item.node, item.wrong) for item in found if item.wrong and item.match.confidence >= _SURE] == []
    assert share > 0.9
