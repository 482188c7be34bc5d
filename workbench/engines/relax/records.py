"""The session's trials as MetaSchedule's database of two JSON files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from workbench.engines.search_protocol import TaskSearch
from workbench.records.trial import Trial
from workbench.regular_files import reader
from workbench.tuning_database import RECORD_FILE, DatabaseWriter, read_database
from workbench.tuning_database.json_text import FormatError, canonical, without_truth_values


class MetaScheduleRecords:
    """Implements `workbench.engines.record_protocol.TrialRecords`.

    Args:
        folder: Of the database.
        target: TVM's target of the records.

    Raises:
        InputError: The files cannot be used.
        EnvironmentFault: The file system refuses.
    """

    def __init__(self, folder: Path, target: dict[str, Any]) -> None:
        self._folder = folder
        self._writer = DatabaseWriter(folder)
        self._target = target
        self._recorded: dict[str, set[bytes]] | None = None  # read when it is first asked for: thousands of records take seconds

    def count(self) -> int:
        """Lines of the record file."""
        with reader(self._folder / RECORD_FILE) as file:
            return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))

    def holds(self, search: TaskSearch, trace: str) -> bool:
        """True if the workload has a record of this trace."""
        if self._recorded is None:
            self._recorded = {}
            for record in read_database(self._folder).records:
                self._recorded.setdefault(record.workload.module, set()).add(_digest(record.trace_json))
        return _digest(_canonical(trace)) in self._recorded.get(search.workload[1], ())

    def append(self, search: TaskSearch, trial: Trial, trace: str) -> None:
        """Write a record, and its workload if it is the first of it."""
        structural_hash, module = search.workload
        self._writer.append(
            structural_hash=structural_hash,
            module=module,
            trace=_value(trace),
            run_secs=[(trial.time_us or 0.0) / 1e6],
            target=self._target,
            args_info=search.arguments,
        )
        if self._recorded is not None:
            self._recorded.setdefault(module, set()).add(_digest(_canonical(trace)))

    def close(self) -> None:
        """Close the files."""
        self._writer.close()


def _value(trace: str) -> Any:
    """The JSON value of a trace as records have it; None, which no record can hold, for what is none."""
    try:
        return without_truth_values(json.loads(trace))
    except ValueError:
        return None


def _canonical(trace: str) -> str:
    """The text of a trace as records have it; empty for what no record can hold."""
    try:
        return canonical(_value(trace))
    except FormatError:
        return ""


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()
