"""Logs of older TVM as records of other searches, which an engine for such a TVM may start from."""

from __future__ import annotations

import json
from pathlib import Path

from workbench.errors import EnvironmentFault, TargetError
from workbench.escaping import plain
from workbench.legacy.auto_scheduler.log import AutoSchedulerRecord, parse_auto_scheduler_log
from workbench.legacy.autotvm_log import AutoTvmRecord, parse_autotvm_log
from workbench.legacy.log_files import AUTO_SCHEDULER_LOG, AUTOTVM_LOG, LOGS
from workbench.legacy.target_string import parse_target_string
from workbench.records.trial import OK
from workbench.regular_files import read_text
from workbench.tuning_database import BadLine, Database, TuningRecord, Workload

_RESULTS = ("r", "result")


def has_logs(folder: Path) -> bool:
    """True if there is such a log in a folder."""
    return any((folder / name).exists() for name in LOGS)


def read_logs(folder: Path) -> Database:
    """The measured schedules in a folder's logs: a record's trace is its line without the result, its workload what the line names.

    Raises:
        EnvironmentFault: A log cannot be read.
    """
    records: list[TuningRecord] = []
    bad: list[BadLine] = []
    try:
        for name, parse in ((AUTO_SCHEDULER_LOG, parse_auto_scheduler_log), (AUTOTVM_LOG, parse_autotvm_log)):
            content = read_text(folder / name) if (folder / name).exists() else ""
            lines = content.split("\n")
            parsed = parse(content)
            records += [_record(entry, lines[entry.line - 1]) for entry in parsed.entries if entry.result.status == OK]
            bad += [BadLine(name, line.line, plain(line.reason, 200), plain(lines[line.line - 1], 60)) for line in parsed.bad]
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFault(f"The logs in {plain(str(folder), 120)} cannot be read: {plain(str(error), 200)}.", "Give another folder.") from error
    return Database(tuple(records), tuple(bad))


def _record(entry: AutoSchedulerRecord | AutoTvmRecord, line: str) -> TuningRecord:
    values = {name: value for name, value in json.loads(line).items() if name not in _RESULTS}
    workload = entry.workload_key if isinstance(entry, AutoSchedulerRecord) else f"{entry.task} {entry.arguments}"
    trace = json.dumps(values, sort_keys=True, separators=(",", ":"))
    return TuningRecord(Workload("", workload), trace, entry.result.times_s, _target(entry.target), "null", entry.line)


def _target(text: str) -> str:
    """The target dict of a target string, as JSON; null for one that says nothing to today's TVM."""
    try:
        return parse_target_string(text).config
    except TargetError:
        return "null"
