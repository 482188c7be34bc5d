"""A log of AutoTVM as records of another search, which an engine for older TVM may start from."""

from __future__ import annotations

import json
from pathlib import Path

from workbench.errors import EnvironmentFault, TargetError
from workbench.escaping import plain
from workbench.legacy.autotvm_log import AutoTvmRecord, parse_autotvm_log
from workbench.legacy.log_files import AUTOTVM_LOG
from workbench.legacy.target_string import parse_target_string
from workbench.records.trial import OK
from workbench.regular_files import read_text
from workbench.tuning_database import BadLine, Database, TuningRecord, Workload


def autotvm_log(place: Path) -> Path | None:
    """The log in a place: a file, or the one that a folder has; None if it has none."""
    path = place / AUTOTVM_LOG if place.is_dir() else place
    return path if path.exists() else None


def read_autotvm_log(path: Path) -> Database:
    """The measured schedules in a log: a record's trace is its line without the result, its workload what the line names.

    Raises:
        EnvironmentFault: The log cannot be read.
    """
    try:
        content = read_text(path)
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFault(f"The log {plain(str(path), 120)} cannot be read: {plain(str(error), 200)}.", "Give another one.") from error
    lines = content.split("\n")
    parsed = parse_autotvm_log(content)
    bad = [BadLine(AUTOTVM_LOG, line.line, plain(line.reason, 200), plain(lines[line.line - 1], 60)) for line in parsed.bad]
    return Database(tuple(_record(entry, lines[entry.line - 1]) for entry in parsed.entries if entry.result.status == OK), tuple(bad))


def _record(entry: AutoTvmRecord, line: str) -> TuningRecord:
    values = {name: value for name, value in json.loads(line).items() if name != "result"}
    trace = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return TuningRecord(Workload("", f"{entry.task} {entry.arguments}"), trace, entry.result.times_s, _target(entry.target), "null", entry.line)


def _target(text: str) -> str:
    """The target dict of a target string, as JSON; null for one that says nothing to today's TVM."""
    try:
        return parse_target_string(text).config
    except TargetError:
        return "null"
