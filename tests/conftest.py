"""Tiers: tests below ``tests/tvm`` are marked ``tvm``, those of a browser come last.

Tests whose machine or package is missing are skipped with the remedy.
"""

from __future__ import annotations

import importlib.util
import os
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.old_python import WHERE, find_old_python
from workbench.machine import cuda_facts

TVM_TESTS = Path(__file__).parent / "tvm"
BROWSER_TESTS = Path(__file__).parent / "browser"
RELAY_TESTS = Path(__file__).parent / "relay"


@pytest.fixture(scope="session", autouse=True)
def _cache_of_its_own(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What the workbench keeps for a user stays out of the user's own cache; one folder for all tests, so that it is found out once."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        patch.setenv("XDG_DATA_HOME", str(tmp_path_factory.mktemp("data")))
        yield


def pytest_configure() -> None:
    """No test finds the record library of whoever runs it, one that needs a library makes its own; Control-C reaches what tests start."""
    os.environ["XDG_DATA_HOME"] = str(Path(tempfile.gettempdir()) / "workbench-tests-have-no-library")
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as a shell starts what runs in the background; what tests start would never see Control-C
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(TVM_TESTS):
            item.add_marker(pytest.mark.tvm)
        if item.path.is_relative_to(RELAY_TESTS):
            item.add_marker(pytest.mark.relay)
    items.sort(key=_drives_a_browser)


def _drives_a_browser(item: pytest.Item) -> bool:
    """True for the tests that come last: while their browser runs, the thread of the tests has an event loop, and no test can run its own."""
    return item.path.is_relative_to(BROWSER_TESTS)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: make test-torch")
    if item.get_closest_marker("relay") and find_old_python() is None:
        pytest.skip(WHERE)
    if item.get_closest_marker("onnxruntime") and importlib.util.find_spec("onnxruntime") is None:
        pytest.skip("onnxruntime is not installed: make test-onnxruntime")
    if item.get_closest_marker("gpu"):
        facts = cuda_facts()
        if not facts.devices:
            pytest.skip(f"needs a CUDA device: {facts.why_none}")
