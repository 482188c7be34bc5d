"""The old Python that the tests of the relay engine run on, and models for it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from workbench.engines.relay.interpreter import Interpreter

OWN = Path(__file__).parents[2] / ".venv-relay" / "bin" / "python"


@pytest.fixture(scope="session")
def old_python() -> Path:
    """The program; without one, everything that asks for it is skipped."""
    named = os.environ.get("WORKBENCH_RELAY_PYTHON", "")
    if named:
        return Path(named)
    if OWN.exists():
        return OWN
    pytest.skip("NO OLD PYTHON WITH RELAY: `make test-relay` sets one up, or name one in WORKBENCH_RELAY_PYTHON")


@pytest.fixture
def child(old_python: Path) -> Iterator[Interpreter]:
    """A process of the old Python, killed at the end."""
    interpreter = Interpreter(old_python, threads=2)
    yield interpreter
    interpreter.close()
