"""Appends records to a database, one at a time, such that a crash at any moment loses at most the record that was being written."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from workbench.errors import InputError
from workbench.tuning_database.checks import check_record, check_workload
from workbench.tuning_database.content import Workload
from workbench.tuning_database.folder import RECORD_FILE, WORKLOAD_FILE, append, disk_errors, locked, open_file, shown
from workbench.tuning_database.json_text import FormatError, canonical, parse
from workbench.tuning_database.reading import MOST_RECORD_BYTES, MOST_WORKLOAD_BYTES
from workbench.tuning_database.repair import record_line, repair_locked

_REMEDY = "Leave this schedule out."


class DatabaseWriter:
    """Writes to the database in a folder, as the only process that does.

    A damaged database is repaired first, as `repair_database` does. A record is in the file when `append` returns: the death of the
    process does not lose it. It is on the disk when the system has written it there, at the latest when the writer is closed.

    Args:
        folder: Created if it is missing.

    Raises:
        InputError: The files are not regular or too large to be repaired, or another process writes them.
        EnvironmentFault: The file system refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers: dict[bytes, int] = {}
        with contextlib.ExitStack() as stack, disk_errors(folder):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(parents=True)
            stack.enter_context(locked(folder))
            contents, _ = repair_locked(folder, only_damage=True)
            for number, slot in enumerate(contents.slots):
                if isinstance(slot, Workload):
                    self._numbers[_digest(slot.module)] = number
            self._workloads = _appender(stack, folder / WORKLOAD_FILE)
            self._records = _appender(stack, folder / RECORD_FILE)
            self._stack = stack.pop_all()
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, *, structural_hash: str, module: str, trace: Any, run_secs: Sequence[float], target: Any, args_info: Any) -> None:
        """Write a record, and its workload if it is the first of it; all arguments are the JSON values that TVM's ``as_json`` gives.

        Args:
            structural_hash: TVM's hash of the module, as text.
            module: The module in Base64.
            trace: ``[instructions, decisions]``.
            run_secs: Measured times in seconds; ``[1e10]`` is stock TVM's mark of a failure.
            target: TVM's target dict, or None.
            args_info: Types and shapes of the arguments, or None.

        Raises:
            InputError: Stock TVM could not load it, or would take it for what it is not; nothing was written.
            EnvironmentFault: The disk refuses; what was written of it is taken back.
        """
        if self._closed:
            raise ValueError("the writer is closed")
        digest = _digest(module)
        number = self._numbers.get(digest, len(self._numbers))
        try:
            workload = Workload(structural_hash, module)
            workload_line = b""
            if digest not in self._numbers:
                workload_line = canonical([structural_hash, module]).encode() + b"\n"
                workload = check_workload(parse(workload_line))
            value = [number, [trace, list(run_secs), target, args_info]]
            record = check_record(parse(canonical(value).encode()), [workload] * (number + 1), 0)
        except FormatError as error:
            raise InputError(f"A record cannot be kept in the database: {error}.", _REMEDY) from error
        line = record_line(number, record).encode() + b"\n"
        if record.misleads_stock or len(line) > MOST_RECORD_BYTES or len(workload_line) > MOST_WORKLOAD_BYTES:
            reason = "a time is 0 s or less" if record.misleads_stock else "it is too long"
            raise InputError(f"A record cannot be kept in the database: {reason}.", _REMEDY)
        with disk_errors(self._folder):
            if workload_line:
                append(self._workloads, workload_line)
                self._numbers[digest] = number
                os.fsync(self._workloads)  # a record without its workload would be lost
            append(self._records, line)

    def close(self) -> None:
        """Bring everything to the disk and let others write; may be called twice."""
        if self._closed:
            return
        self._closed = True
        with self._stack, disk_errors(self._folder):
            os.fsync(self._records)


def _digest(module: str) -> bytes:
    return hashlib.sha256(module.encode("utf-8", "surrogatepass")).digest()


def _appender(stack: contextlib.ExitStack, path: Path) -> int:
    try:
        descriptor = open_file(path, os.O_WRONLY | os.O_APPEND)
    except FileNotFoundError as error:
        raise InputError(f"{shown(path)} was removed.", "Try again.") from error
    stack.callback(os.close, descriptor)
    return descriptor
