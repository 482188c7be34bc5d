"""Reads a database, whatever its state: each line that can be used becomes a record, and each that cannot says why."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from workbench.errors import InputError
from workbench.escaping import plain
from workbench.tuning_database.checks import Slot, check_record, check_workload
from workbench.tuning_database.combining import without_duplicates
from workbench.tuning_database.content import BadLine, Database, TuningRecord
from workbench.tuning_database.folder import RECORD_FILE, WORKLOAD_FILE, disk_errors, open_pair, shown
from workbench.tuning_database.json_text import FormatError, has_unreadable_escape, parse

MOST_RECORD_BYTES = 4 << 20
MOST_WORKLOAD_BYTES = 16 << 20
MOST_FILE_BYTES = 1 << 30
MOST_LINES = 200_000

_BOM = b"\xef\xbb\xbf"
_TEXT_LIMIT = 100
_REASON_LIMIT = 300
_GIVE = "Give the folder that holds database_workload.json and database_tuning_record.json."

Item = TypeVar("Item")


@dataclass(frozen=True)
class Contents:
    """A database and the state of its files.

    Attributes:
        database: What could be used, duplicates left out.
        slots: The lines of the workload file.
        damaged: Whether stock TVM would fail on it, or believe what is not so.
        complete: Whether the files were read to their ends.
    """

    database: Database
    slots: tuple[Slot, ...]
    damaged: bool
    complete: bool


@dataclass(frozen=True)
class _Line:
    number: int
    raw: bytes
    problem: str = ""


@dataclass
class _State:
    """What is found about the files while they are read."""

    damaged: bool = False
    complete: bool = True


def read_database(folder: Path) -> Database:
    """What can be used of the database in a folder; damage never raises, it is told in `Database.bad_lines`.

    Raises:
        InputError: The folder or one of its two files is missing, is not what it should be, or must not be read.
        EnvironmentFault: The file system refused.
    """
    return read_contents(folder).database


def read_contents(folder: Path) -> Contents:
    """The same with the state of the files."""
    with disk_errors(folder):
        if not folder.is_dir():
            raise InputError(f"{shown(folder)} is no folder.", _GIVE)
        with open_pair(folder) as files:
            missing = [name for name, file in zip((WORKLOAD_FILE, RECORD_FILE), files, strict=True) if file is None]
            if missing:
                raise InputError(f"{shown(folder)} has no {missing[0]}.", _GIVE)
            return _contents(*files)


def bad_line(file: str, number: int, reason: str, raw: bytes) -> BadLine:
    """A line that cannot be used, with as much of it as may be shown."""
    return BadLine(file, number, reason, plain(raw[:1000].decode("utf-8", "backslashreplace").rstrip("\r\n"), _TEXT_LIMIT))


def _contents(workload_file: BinaryIO | None, record_file: BinaryIO | None) -> Contents:
    state = _State()
    record_size = _size(record_file)  # now: what is appended later could point to a workload that is not seen
    slots: list[Slot] = []
    bad_lines: list[BadLine] = []
    workload_lines = _lines(workload_file, _size(workload_file), MOST_WORKLOAD_BYTES, state)
    for line, workload in _checked(workload_lines, lambda value, _: check_workload(value), state):
        slots.append(workload)
        if isinstance(workload, str):
            bad_lines.append(bad_line(WORKLOAD_FILE, line.number, workload, line.raw))
    records: list[TuningRecord] = []
    record_lines = _lines(record_file, record_size, MOST_RECORD_BYTES, state)
    for line, record in _checked(record_lines, lambda value, number: check_record(value, slots, number), state):
        if isinstance(record, str):
            bad_lines.append(bad_line(RECORD_FILE, line.number, record, line.raw))
        else:
            records.append(record)
    modules = [slot.module for slot in slots if not isinstance(slot, str)]
    # Stock TVM numbers a new workload by the different ones that it knows: behind two equal lines, the number would be wrong.
    repeated = len(set(modules)) < len(modules)
    damaged = state.damaged or bool(bad_lines) or repeated or any(record.misleads_stock for record in records)
    unique, duplicates = without_duplicates(records)
    return Contents(Database(unique, tuple(bad_lines), duplicates), tuple(slots), damaged, state.complete)


def _checked(lines: Iterator[_Line], check: Callable[[Any, int], Item], state: _State) -> Iterator[tuple[_Line, Item | str]]:
    """Each line with what it holds, or with what is wrong with it."""
    for line in lines:
        if line.problem:
            yield line, line.problem
            continue
        try:
            item = check(parse(line.raw), line.number)
        except FormatError as error:
            cut = "" if line.raw.endswith(b"\n") else "; the file does not end in a newline, so it may be cut off"
            yield line, plain(str(error), _REASON_LIMIT) + cut
        else:
            state.damaged |= has_unreadable_escape(line.raw)
            yield line, item


def _lines(file: BinaryIO | None, size: int, longest: int, state: _State) -> Iterator[_Line]:
    """The lines of a file in bounded memory; a line that is too long comes with its beginning only."""
    number = position = 0
    end = min(size, MOST_FILE_BYTES)
    while file is not None and position < end and number < MOST_LINES:
        number += 1
        raw = file.readline(min(longest + 1, end - position))
        if not raw:
            return  # the file became shorter
        position += len(raw)
        if raw.startswith(_BOM) and number == 1:
            raw, state.damaged = raw.removeprefix(_BOM), True
        state.damaged |= not raw.endswith(b"\n")
        if len(raw) <= longest:
            yield _Line(number, raw)
            continue
        problem = f"it is longer than {longest:,} bytes"
        yield _Line(number, raw[:1000], problem)
        while not raw.endswith(b"\n") and position < end:
            raw = file.readline(min(1 << 20, end - position))
            if not raw:
                return
            position += len(raw)
    if position < size:
        state.complete = False
        yield _Line(number + 1, b"", f"the file is too large: what follows byte {position:,} was not read")


def _size(file: BinaryIO | None) -> int:
    return os.fstat(file.fileno()).st_size if file is not None else 0
