"""Processes of another Python that load TVM ahead; run with this Python as the other one, and with nothing to load."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from workbench.engines.relay import interpreter
from workbench.engines.relay.children import Spares
from workbench.engines.relay.interpreter import Interpreter

BUILDING = """
import os
from .wire import Blob

def warm(held, arguments, blobs, progress):
    {body}

CALLS = {{"warm": warm}}
"""


@pytest.fixture
def spares_of(tmp_path: Path) -> Iterator[Callable[[str], Spares]]:
    """Makes spares whose loading runs a line of code."""
    made: list[Spares] = []

    def make(body: str) -> Spares:
        shutil.copytree(interpreter.FOLDER / "tvm_side", tmp_path / "tvm_side")
        (tmp_path / "tvm_side" / "building.py").write_text(BUILDING.format(body=body))
        made.append(Spares(lambda: Interpreter(Path(sys.executable), threads=1, folder=tmp_path)))
        return made[-1]

    yield make
    for spares in made:
        spares.close()


def test_those_that_were_started_ahead_are_ready_when_they_are_taken(spares_of: Callable[[str], Spares]) -> None:
    spares = spares_of("pass")
    spares.fill(2)
    spares.fill(2)  # these are there already
    taken = [spares.take() for _ in range(3)]
    try:
        assert [(child.alive, child.starts) for child in taken] == [(True, 1), (True, 1), (False, 0)]
    finally:
        for child in taken:
            child.close()


def test_one_that_cannot_load_is_left_to_whoever_takes_it(spares_of: Callable[[str], Spares]) -> None:
    spares = spares_of("os._exit(3)")
    spares.fill(1)
    child = spares.take()
    assert not child.alive
    child.close()


def test_closing_ends_those_that_are_still_loading(spares_of: Callable[[str], Spares]) -> None:
    spares = spares_of("import time; time.sleep(600)")
    spares.fill(1)
    spares.close()
    child = spares.take()
    assert child.starts == 0
