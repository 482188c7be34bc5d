"""Tiers: tests below ``tests/tvm`` are marked ``tvm``, and tests whose machine or package is missing are skipped with the remedy."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from pathlib import Path

import pytest

from workbench.machine import cuda_facts

TVM_TESTS = Path(__file__).parent / "tvm"


def pytest_configure() -> None:
    """No test finds the record library of whoever runs it; one that needs a library makes its own."""
    os.environ["XDG_DATA_HOME"] = str(Path(tempfile.gettempdir()) / "workbench-tests-have-no-library")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(TVM_TESTS):
            item.add_marker(pytest.mark.tvm)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("torch") and importlib.util.find_spec("torch") is None:
        pytest.skip("torch is not installed: make test-torch")
    if item.get_closest_marker("gpu"):
        facts = cuda_facts()
        if not facts.devices:
            pytest.skip(f"needs a CUDA device: {facts.why_none}")
