"""Commands on a session with many rows: work and memory grow with the rows and not faster; counted, not timed."""

from __future__ import annotations

import sys
import tracemalloc
from pathlib import Path
from typing import Any

import pytest

from workbench.cli.main import main


@pytest.mark.parametrize("command", ["tasks", "select"])
def test_work_and_memory_grow_with_the_rows_and_not_faster(command: str, tmp_path: Path, sessions: Any) -> None:
    work, memory = [], []
    for rows in (100, 1000):
        profile = sessions.profile([f"kernel{index % (rows // 2)}" for index in range(rows)])
        place = sessions.write(tmp_path / f"{rows}", profile).path
        arguments = (command, "--session", str(place), "--json", str(tmp_path / "x.json"), *(["--share", "0.9"] if command == "select" else []))
        calls = [0]

        def count(*_: Any, calls: list[int] = calls) -> None:
            calls[0] += 1

        sys.setprofile(count)
        try:
            main(arguments)
        finally:
            sys.setprofile(None)
        work.append(calls[0])
        tracemalloc.start()
        main(arguments)
        memory.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
    assert work[1] < 11 * work[0]
    assert memory[1] < 11 * memory[0]
