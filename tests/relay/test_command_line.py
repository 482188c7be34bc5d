"""The command line with ``--engine relay --python PATH``, from the profile to a tuned module, each command in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.relay.models import CONVOLUTION
from workbench.old_python import VARIABLE

HANG_S = 600
TRIALS = 6

Answer = subprocess.CompletedProcess[str]


@pytest.fixture
def call(tmp_path: Path) -> Callable[..., Answer]:
    """Runs the command line in a folder with a model, where no old Python is named but by the command."""

    def run(*arguments: str) -> Answer:
        environment = {name: value for name, value in os.environ.items() if name != VARIABLE}
        environment["PYTHONPATH"] = os.pathsep.join(sys.path)
        command = [sys.executable, "-m", "workbench.cli.main", *arguments]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=HANG_S, check=False, stdin=subprocess.DEVNULL
        )

    return run


def answer_of(done: Answer) -> Any:
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_whole_job_is_done_from_the_command_line(call: Callable[..., Answer], old_python: Path, tmp_path: Path) -> None:
    (tmp_path / "net.relay").write_text(CONVOLUTION)
    with_python = ("--python", str(old_python))
    options = ("--target", "cpu", "--threads", "2", "--repeat", "2")
    profile = answer_of(call("profile", "net.relay", "--engine", "relay", *with_python, *options, "--session", "s", "--json", "-"))
    assert (profile["engine"], profile["measured"]) == ("relay", True)
    assert [row["node_name"] for row in profile["rows"]]
    assert all(row["origins"] for row in profile["rows"])

    tasks = answer_of(call("tasks", "--session", "s", "--json", "-"))["tasks"]
    spaces = {task["name"]: task.get("spaces", {}) for task in tasks}
    assert set(spaces["fused_nn_contrib_conv2d_NCHWc_nn_relu"]) == {"auto-scheduler", "autotvm"}
    assert all(size >= 1 for sizes in spaces.values() for size in sizes.values())
    assert "autotvm" not in spaces["fused_nn_softmax"]
    selected = answer_of(call("select", "--session", "s", "--ops", "nn.conv2d", "--json", "-"))["tasks"]
    (task,) = {item["task"] for item in selected if "conv2d" in item["name"]}
    assert call("select", "--session", "s", "--tasks", task).returncode == 0

    refused = call("tune", "--session", "s", "--trials", str(TRIALS))
    assert refused.returncode == 3, refused.stderr
    assert VARIABLE in refused.stderr
    tuned = answer_of(call("tune", "--session", "s", *with_python, "--trials", str(TRIALS), "--seed", "1", "--json", "-"))
    assert tuned["trials"] == TRIALS
    assert tuned["tasks"][0]["baseline_us"] > 0
    resumed = answer_of(call("tune", "--session", "s", *with_python, "--trials", str(TRIALS + 2), "--resume", "--json", "-"))
    assert resumed["trials"] == TRIALS + 2

    views = answer_of(call("inspect", "--session", "s", *with_python, "--task", task, "--show", "schedule,tir,source", "--json", "-"))
    assert "define" in json.dumps(views)
    applied = call("apply", "--session", "s", *with_python, "--json", "-")
    assert applied.returncode == 0, applied.stderr
    assert json.loads(applied.stdout)["verified"] is True
    assert (tmp_path / "s" / "tuned" / "verify.json").is_file()
