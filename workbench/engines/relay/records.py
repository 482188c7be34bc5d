"""The session's trials as logs in the forms of auto_scheduler and AutoTVM, which stock TVM of that age applies."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

from workbench.engines.relay.traces import fingerprint, is_auto_scheduler, line_with, without_result
from workbench.engines.search_protocol import TaskSearch
from workbench.errors import InputError
from workbench.legacy.log_files import AUTO_SCHEDULER_LOG, AUTOTVM_LOG, LOGS
from workbench.records.trial import Trial
from workbench.regular_files import reader
from workbench.tuning_database.folder import append, disk_errors, locked, open_file

_PIECE_BYTES = 1 << 12


class LogRecords:
    """Implements `workbench.engines.record_protocol.TrialRecords`.

    Args:
        folder: Of the logs.

    Raises:
        InputError: The logs are no regular files, or another process writes them.
        EnvironmentFault: The file system refuses.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._recorded: set[str] | None = None  # digests of schedules; read when they are first asked for
        with contextlib.ExitStack() as stack, disk_errors(folder):
            with contextlib.suppress(FileExistsError):
                folder.mkdir(parents=True)
            stack.enter_context(locked(folder))
            self._logs = {name: _open(stack, folder / name) for name in LOGS}
            self._stack = stack.pop_all()
        self._closed = False

    def count(self) -> int:
        """Lines of both logs."""
        return sum(_lines(self._folder / name) for name in LOGS)

    def holds(self, search: TaskSearch, trace: str) -> bool:
        """True if a line has this schedule, which names its kernel."""
        del search
        return fingerprint(trace) in self._known()

    def append(self, search: TaskSearch, trial: Trial, trace: str) -> None:
        """Add a line to the log that the schedule is for."""
        del search
        line = line_with(trace, [time_us / 1e6 for time_us in trial.times_us], trial.measured_at)
        name = AUTO_SCHEDULER_LOG if is_auto_scheduler(trace) else AUTOTVM_LOG
        with disk_errors(self._folder):
            append(self._logs[name], line.encode() + b"\n")
        if self._recorded is not None:
            self._recorded.add(fingerprint(trace))

    def close(self) -> None:
        """Bring the logs to the disk, and let others write them."""
        if self._closed:
            return
        self._closed = True
        with self._stack, disk_errors(self._folder):
            for descriptor in self._logs.values():
                os.fsync(descriptor)

    def _known(self) -> set[str]:
        if self._recorded is None:
            self._recorded = set()
            for name in LOGS:
                with reader(self._folder / name) as file:
                    for line in file:
                        with contextlib.suppress(InputError, UnicodeDecodeError):  # a damaged line records nothing
                            self._recorded.add(fingerprint(without_result(line.decode())))
        return self._recorded


def _open(stack: contextlib.ExitStack, path: Path) -> int:
    """A log to append to; what a crash left of its last line is taken away."""
    descriptor = open_file(path, os.O_RDWR | os.O_APPEND | os.O_CREAT)
    stack.callback(os.close, descriptor)
    size = end = os.fstat(descriptor).st_size
    while end and os.pread(descriptor, 1, end - 1) != b"\n":
        start = max(end - _PIECE_BYTES, 0)
        place = os.pread(descriptor, end - start, start).rfind(b"\n")
        end = start + place + 1 if place >= 0 else start
    if end != size:
        os.ftruncate(descriptor, end)
    return descriptor


def _lines(path: Path) -> int:
    with reader(path) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
