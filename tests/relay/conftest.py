"""The old Python that the tests of the relay engine run on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.old_python import WHERE, find_old_python
from workbench.engines.relay.interpreter import Interpreter


@pytest.fixture(scope="session")
def old_python() -> Path:
    """The program."""
    found = find_old_python()
    if found is None:
        pytest.skip(WHERE)
    return found


@pytest.fixture
def child(old_python: Path) -> Iterator[Interpreter]:
    """A process of the old Python, killed at the end."""
    interpreter = Interpreter(old_python, threads=2)
    yield interpreter
    interpreter.close()
