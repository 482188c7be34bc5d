"""Repairs a database: bad lines are set aside, the originals are kept, and what remains is a clean pair of files that stock TVM loads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from workbench.errors import InputError
from workbench.escaping import plain
from workbench.tuning_database.checks import Slot
from workbench.tuning_database.content import BadLine, Database, TuningRecord, Workload
from workbench.tuning_database.folder import (
    RECORD_FILE,
    SET_ASIDE,
    WORKLOAD_FILE,
    disk_errors,
    finish_interrupted,
    holds,
    locked,
    open_file,
    open_pair,
    replace_pair,
    shown,
)
from workbench.tuning_database.json_text import canonical
from workbench.tuning_database.reading import Contents, bad_line, read_contents

_CHUNK = 1 << 20
_REASON_LIMIT = 300
_DUPLICATE = "the same workload, trace and target as another line, and not faster"

Check = Callable[[TuningRecord], str]


@dataclass(frozen=True)
class Repair:
    """What a repair did.

    Attributes:
        database: The database afterwards.
        set_aside: The lines that were moved to ``<file>.set-aside``, under the numbers that they had; empty if nothing had to be repaired.
    """

    database: Database
    set_aside: tuple[BadLine, ...] = ()


def repair_database(folder: Path, *, check: Check | None = None) -> Repair:
    """Move what cannot be used out of a database, so that stock TVM loads the rest; a sound one is left as it is.

    Bad lines, duplicates, and records whose time is 0 s or less go to ``<file>.set-aside``, each behind its number and the reason;
    the first original of each file that changes stays as ``<file>.original``.

    Args:
        folder: Where the two files are; a missing one is created empty.
        check: Says what is wrong with a record, or nothing: what only TVM can know, such as a trace that names a missing block.

    Raises:
        InputError: There is no database, its files are not regular or too large, or another process writes it.
        EnvironmentFault: The file system refused.
    """
    if not any(os.path.lexists(folder / name) for name in (WORKLOAD_FILE, RECORD_FILE)):
        read_contents(folder)  # says what is missing
    with locked(folder), disk_errors(folder):
        contents, set_aside = repair_locked(folder, check)
    return Repair(contents.database, set_aside)


def repair_locked(folder: Path, check: Check | None = None, *, only_damage: bool = False) -> tuple[Contents, tuple[BadLine, ...]]:
    """The same for who holds the folder's lock; `only_damage` leaves a database as it is that has duplicates only."""
    finish_interrupted(folder)
    for name in (WORKLOAD_FILE, RECORD_FILE):
        os.close(open_file(folder / name, os.O_RDONLY | os.O_CREAT))
    contents = read_contents(folder)
    refused = _refused(contents.database.records, check)
    if not refused and not contents.damaged and (only_damage or not contents.database.duplicates):
        return contents, ()
    if not contents.complete:
        raise InputError(f"The database in {shown(folder)} is too large to be repaired.", "Split its record file.")
    workloads, doubles = _different(contents.slots)
    kept = [record for record in contents.database.records if record.line not in refused]
    set_aside = _set_aside(folder, contents, {record.line for record in kept}, doubles, refused)
    places = {workload.module: place for place, workload in enumerate(workloads)}
    new = {
        WORKLOAD_FILE: [canonical([workload.structural_hash, workload.module]) for workload in workloads],
        RECORD_FILE: [record_line(places[record.workload.module], record) for record in kept],
    }
    renumbered = bool(doubles) or any(isinstance(slot, str) for slot in contents.slots[: len(workloads)])
    changed = {name: lines for name, lines in new.items() if renumbered or not holds(folder / name, lines)}
    replace_pair(folder, changed, renumbered=renumbered)
    return read_contents(folder), set_aside


def record_line(index: int, record: TuningRecord) -> str:
    """A record as its line in the file, without the newline."""
    run_secs = canonical(None if record.run_secs is None else list(record.run_secs))
    return f"[{index},[{record.trace_json},{run_secs},{record.target_json},{record.args_info_json}]]"


def _refused(records: tuple[TuningRecord, ...], check: Check | None) -> dict[int, str]:
    """Records that can be read and must not stay, by their lines."""
    refused = {}
    for record in records:
        reason = "a time of 0 s or less, which stock TVM would take for the best" if record.misleads_stock else check(record) if check else ""
        if reason:
            refused[record.line] = plain(reason, _REASON_LIMIT)
    return refused


def _different(slots: tuple[Slot, ...]) -> tuple[list[Workload], dict[int, str]]:
    """The workloads that stay, and the lines that say again what another said."""
    workloads: dict[str, Workload] = {}
    doubles = {}
    for number, slot in enumerate(slots, start=1):
        if isinstance(slot, str):
            continue
        if slot.module in workloads:
            doubles[number] = "the same workload as another line"
        workloads.setdefault(slot.module, slot)
    return list(workloads.values()), doubles


def _set_aside(folder: Path, contents: Contents, kept: set[int], doubles: dict[int, str], refused: dict[int, str]) -> tuple[BadLine, ...]:
    """Append all lines that do not stay, byte by byte, to the files beside; returns them in their order."""
    bad = contents.database.bad_lines
    workload_reasons = {**doubles, **{line.line: line.reason for line in bad if line.file == WORKLOAD_FILE}}
    record_reasons = {**refused, **{line.line: line.reason for line in bad if line.file == RECORD_FILE}}
    with open_pair(folder) as (workload_file, record_file):
        moved = _move_aside(folder / WORKLOAD_FILE, workload_file, workload_reasons.get)
        # A record line that is neither bad nor kept was left out as a duplicate.
        moved += _move_aside(folder / RECORD_FILE, record_file, lambda number: None if number in kept else record_reasons.get(number, _DUPLICATE))
    return tuple(moved)


def _move_aside(path: Path, file: BinaryIO | None, reason_of: Callable[[int], str | None]) -> list[BadLine]:
    moved: list[BadLine] = []
    number, at_start = 1, True
    with contextlib.ExitStack() as stack:
        target: BinaryIO | None = None
        while file is not None and (piece := file.readline(_CHUNK)):
            reason = reason_of(number)
            if reason is not None:
                if target is None:
                    descriptor = open_file(path.with_name(path.name + SET_ASIDE), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
                    target = stack.enter_context(os.fdopen(descriptor, "ab"))
                if at_start:
                    target.write(f"# line {number}: {reason}\n".encode())
                    moved.append(bad_line(path.name, number, reason, piece))
                target.write(piece)
            at_start = piece.endswith(b"\n")
            number += at_start
        if target is not None:
            target.write(b"" if at_start else b"\n")
            target.flush()
            os.fsync(target.fileno())
    return moved
