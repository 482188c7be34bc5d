"""Matching against old TVM itself: it builds networks, tells the exact links of every row, and prints the debug table that is matched without it."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.matching_truth import Verdict, verdicts
from workbench.matching.names import canonical, parse_function
from workbench.matching.patterns import pattern_of

SCRIPT = Path(__file__).with_name("old_tvm_truth.py")
_OWN = Path(__file__).parents[2] / ".venv-relay" / "bin" / "python"
_PYTHON = Path(os.environ.get("WORKBENCH_RELAY_PYTHON", str(_OWN)))
_SURE = 0.9
GONE_BEFORE_FUSION = {"nn.dropout"}

pytestmark = pytest.mark.skipif(not _PYTHON.is_file(), reason="no Python with old TVM: WORKBENCH_RELAY_PYTHON names none")


def matched(network: str, variant: str, folder: Path) -> list[Verdict]:
    command = [str(_PYTHON), str(SCRIPT), network, variant, str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=1800, cwd=folder)
    assert done.returncode == 0, done.stderr[-2000:]
    return verdicts(folder)


PATTERNS = """
import json, tvm
names = map(str, tvm.get_global_func("ir.ListOpNames")())
found = {name: tvm.ir.Op.get(name).get_attr("TOpPattern") for name in names}
print(json.dumps({name: int(pattern) for name, pattern in found.items() if pattern is not None}))
"""


def test_fusion_sees_operators_as_old_tvm_registers_them() -> None:
    done = subprocess.run([str(_PYTHON), "-c", PATTERNS], capture_output=True, text=True, check=True, timeout=600)
    registered = json.loads(done.stdout.strip().split("\n")[-1])
    names = [name for name in registered if not name.startswith(("qnn.", "dyn.")) and name not in GONE_BEFORE_FUSION]
    known = [name for name in names if parse_function(f"fused_{name.replace('.', '_')}").operators == (canonical(name),)]
    assert len(known) > 150
    assert {name: (pattern_of(name), registered[name]) for name in known if pattern_of(name) != registered[name]} == {}


@pytest.mark.parametrize("variant", ["blocked", "plain"])
@pytest.mark.parametrize("network", ["mlp", pytest.param("resnet18", marks=pytest.mark.slow)])
def test_every_row_of_the_sample_networks_is_right(network: str, variant: str, tmp_path: Path) -> None:
    found = matched(network, variant, tmp_path)
    assert [(item.node, item.wrong) for item in found if item.wrong] == []


@pytest.mark.parametrize("variant", ["blocked", pytest.param("plain", marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    "network", ["transformer", *(pytest.param(name, marks=pytest.mark.slow) for name in ("excitation", "shuffled", "detector", "style", "unet"))]
)
def test_every_row_of_networks_of_other_kinds_is_right(network: str, variant: str, tmp_path: Path) -> None:
    found = matched(network, variant, tmp_path)
    assert [(item.node, item.wrong) for item in found if item.wrong] == []


@pytest.mark.slow
@pytest.mark.parametrize("variant", ["blocked", "plain"])
@pytest.mark.parametrize(
    "network",
    ["branches", "dqn", "dcgan", "mobilenet", "mobilenet_nhwc", "squeezenet", "vgg16", "resnet50_nhwc", "resnet3d", "inception_v3", "densenet121"],
)
def test_no_row_of_other_networks_is_surely_wrong_and_most_are_right(network: str, variant: str, tmp_path: Path) -> None:
    found = matched(network, variant, tmp_path)
    share = sum(not item.wrong for item in found) / len(found)
    print(f"{network}, {variant}: {share:.0%} of {len(found)} rows right")  # noqa: T201 - the share is what is asked for
    assert [(item.node, item.wrong) for item in found if item.wrong and item.match.confidence >= _SURE] == []
    assert share > 0.9
