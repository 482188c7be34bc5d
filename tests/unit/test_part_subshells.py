"""A part in a real kernel answers the page that asks, though the page before it, and the subshell that it used, have gone."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

ROOT = Path(__file__).parents[2]
HANG_S = 60.0
CODE = """
from tests.monitor_samples import FakeFeed
from tests.notebook_samples import profile_of
from workbench.notebook import TuningMonitor
monitor = TuningMonitor(FakeFeed(profile_of(4, kernels=2)))
print(monitor.comm.comm_id)
"""


@pytest.fixture
def kernel() -> Iterator[BlockingKernelClient]:
    manager = KernelManager(kernel_name="python3")
    manager.kernel_spec.argv[0] = sys.executable
    manager.start_kernel(env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])})
    client = manager.blocking_client()
    client.start_channels()
    try:
        client.wait_for_ready(timeout=HANG_S)
        yield client
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def control(kernel: BlockingKernelClient, kind: str, content: dict[str, Any]) -> dict[str, Any]:
    message = kernel.session.msg(kind, content)
    kernel.control_channel.send(message)
    while (reply := kernel.get_control_msg(timeout=HANG_S))["parent_header"].get("msg_id") != message["header"]["msg_id"]:
        pass
    assert reply["content"]["status"] == "ok", reply["content"]
    found: dict[str, Any] = reply["content"]
    return found


def is_welcome(kernel: BlockingKernelClient, comm: str, subshell: str) -> bool:
    """Whether a view that says `ready` over a subshell is answered; the kernel says when it is done with the message."""
    message = kernel.session.msg("comm_msg", {"comm_id": comm, "data": {"method": "custom", "content": {"kind": "ready"}}})
    message["header"]["subshell_id"] = subshell
    kernel.shell_channel.send(message)
    welcome, deadline = False, time.monotonic() + HANG_S
    while time.monotonic() < deadline:
        said = kernel.get_iopub_msg(timeout=HANG_S)
        if said["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        if said["msg_type"] == "comm_msg" and said["content"]["data"].get("content", {}).get("kind") == "welcome":
            welcome = True
        if said["msg_type"] == "status" and said["content"]["execution_state"] == "idle":
            return welcome
    raise AssertionError("the kernel never became idle")


def test_a_page_that_is_loaded_again_is_answered_though_the_subshell_of_the_one_before_has_gone(kernel: BlockingKernelClient) -> None:
    printed: list[str] = []
    kernel.execute_interactive(
        CODE, timeout=HANG_S, output_hook=lambda said: printed.append(said["content"].get("text", "")) if said["msg_type"] == "stream" else None
    )
    comm = "".join(printed).strip()
    first = control(kernel, "create_subshell_request", {})["subshell_id"]
    assert is_welcome(kernel, comm, first)
    control(kernel, "delete_subshell_request", {"subshell_id": first})
    second = control(kernel, "create_subshell_request", {})["subshell_id"]
    assert is_welcome(kernel, comm, second)
