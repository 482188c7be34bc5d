"""Finds out what each file is, by its content: old tools named their files as they liked."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from workbench.errors import InputError
from workbench.escaping import plain

MOST_BYTES = 512 * 2**20
"""Size of a file that is read; logs of long searches have some hundred megabytes."""
_MOST_FILES = 1000
_HEAD = 2**16

RELAY, DEBUG_TABLE, REPORT, GRAPH, TRACE = "Relay text", "debug table", "profiler report", "graph", "execution trace"
AUTO_SCHEDULER_LOG, AUTOTVM_LOG, METASCHEDULE = "auto_scheduler log", "AutoTVM log", "MetaSchedule database"
AUTO_SCHEDULER_TASKS, AUTOTVM_TASKS, LATENCY_CURVE = "auto_scheduler tasks", "AutoTVM tasks", "total latency"

_RELAY = re.compile(r"^\s*(?:v\d+\.\d+\.\d+\s)?\s*(?:#\[version|def\s*@|fn\s*[(\[]|free_var\s*%)", re.MULTILINE)
_REMEDY = (
    "It reads Relay text, debug tables and dumps, graph JSON, profiler reports, task lists, and logs of auto_scheduler and AutoTVM; "
    "a MetaSchedule database is a folder with its two files."
)
_WORKLOADS, _RECORDS = "database_workload.json", "database_tuning_record.json"


@dataclass(frozen=True)
class Artifact:
    """One file, or the folder of a database.

    Attributes:
        kind: One of the kinds above.
        path: Where it is.
        text: Its content; empty for a database.
    """

    kind: str
    path: Path
    text: str


def read_artifacts(paths: Iterable[Path]) -> tuple[Artifact, ...]:
    """Read files, and what is known in folders; a debug runtime's dump is a folder.

    Raises:
        InputError: A file cannot be read, is too large, or is nothing that is known.
    """
    found: list[Artifact] = []
    for path in paths:
        if path.is_dir():
            found.extend(_in_folder(path))
        else:
            artifact = _file(path)
            if artifact is None:
                raise InputError(f"{plain(str(path), 120)} is no artifact of TVM that is known.", _REMEDY)
            found.append(artifact)
    if not found:
        raise InputError("There is nothing to import.", _REMEDY)
    return tuple(found)


def _in_folder(folder: Path) -> list[Artifact]:
    """The artifacts in a folder and below; other files are passed over."""
    if (folder / _RECORDS).is_file() and (folder / _WORKLOADS).is_file():
        return [Artifact(METASCHEDULE, folder, "")]
    names = sorted(path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    if len(names) > _MOST_FILES:
        raise InputError(f"{plain(str(folder), 120)} has {len(names):,} files; at most {_MOST_FILES:,} are looked through.", "Name the files.")
    databases = {path.parent for path in names if path.name == _RECORDS and path.with_name(_WORKLOADS) in names}
    found = [Artifact(METASCHEDULE, place, "") for place in sorted(databases)]
    files = [path for path in names if path.parent not in databases and path.stat().st_size <= MOST_BYTES]
    return [*found, *(artifact for path in files if (artifact := _file(path)) is not None)]


def _file(path: Path) -> Artifact | None:
    text = _text(path)
    kind = kind_of(text)
    return None if kind is None else Artifact(kind, path, text)


def _text(path: Path) -> str:
    shown = plain(str(path), 120)
    try:
        if not path.is_file():
            raise InputError(f"{shown} is no file." if path.exists() else f"There is no {shown}.", "Check the path.")
        size = path.stat().st_size
        if size > MOST_BYTES:
            raise InputError(f"{shown} has {size / 2**20:,.0f} MiB; at most {MOST_BYTES // 2**20} are read.", "Give a part of it.")
        return path.read_bytes().decode("utf-8", "replace")
    except OSError as error:
        raise InputError(f"{shown} cannot be read: {error.strerror}.", "Check the path and its permissions.") from error


def kind_of(text: str) -> str | None:
    """What a text is; None for nothing that is known."""
    head = text[:_HEAD]
    if head.lstrip().startswith("{") and (kind := _kind_of_json(text)) is not None:
        return kind
    if head.startswith("ElapsedTime(s)\t"):
        return LATENCY_CURVE
    if "Node Name" in text and "Time(us)" in text:
        return DEBUG_TABLE
    if "Duration (us)" in text and "Percent" in text:
        return REPORT
    if "Task(func_name=" in text:
        return AUTOTVM_TASKS
    if "weight" in head and " desc " in head and " key [" in head:
        return AUTO_SCHEDULER_TASKS
    if _RELAY.search(head):
        return RELAY
    first = next((line for line in head.splitlines() if line.strip() and not line.lstrip().startswith("#")), "")
    return _kind_of_line(first)


def _kind_of_json(text: str) -> str | None:
    """A whole JSON document: a graph or a trace; a log has one a line."""
    line = text.lstrip().partition("\n")[0]
    if (kind := _kind_of_line(line)) is not None:
        return kind
    if '"traceEvents"' in text[:_HEAD]:
        return TRACE
    return GRAPH if '"nodes"' in text[:_HEAD] else None


def _kind_of_line(line: str) -> str | None:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(value, dict):
        return None
    if "input" in value and "result" in value:
        return AUTOTVM_LOG
    if not {"i", "r", "v"} <= set(value):
        return None
    return AUTO_SCHEDULER_LOG if isinstance(value["v"], str) else AUTOTVM_LOG
