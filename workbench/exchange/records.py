"""The records of a session for stock TVM, on their own: a MetaSchedule database, or the logs of older TVM."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

from workbench.errors import EnvironmentFault, InputError, SessionError
from workbench.escaping import plain
from workbench.legacy.log_files import LOGS, good_lines
from workbench.session import SessionDirectory
from workbench.tuning_database import RECORD_FILE, WORKLOAD_FILE, DatabaseWriter, TuningRecord, read_database


def export_records(directory: SessionDirectory, folder: Path) -> int:
    """Write a session's records as a new MetaSchedule database, or as logs of older TVM; lines that stock TVM could not read are left out.

    Args:
        directory: The session.
        folder: Where the files go; made if it is missing.

    Returns:
        Number of records.

    Raises:
        SessionError: The session has no records.
        InputError: The folder holds such files already.
        EnvironmentFault: The disk refuses.
    """
    if not directory.records.is_dir():
        raise SessionError(f"The session in {plain(str(directory.path), 120)} has no records yet.", "Tune something first.")
    if any((folder / name).exists() for name in (WORKLOAD_FILE, RECORD_FILE, *LOGS)):
        raise InputError(f"{plain(str(folder), 120)} holds records already.", "Give another folder.")
    if any((directory.records / name).exists() for name in LOGS):
        return _copy_logs(directory.records, folder)
    return write_records(folder, [record for record in read_database(directory.records).records if not record.misleads_stock])


def _copy_logs(records: Path, folder: Path) -> int:
    """Write the logs' readable lines; returns how many."""
    try:
        found = good_lines(records)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(parents=True)
        for name, lines in found.items():
            if lines:
                (folder / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise EnvironmentFault(
            f"The logs cannot be exported to {plain(str(folder), 120)}: {plain(str(error), 200)}.", "Give another folder."
        ) from error
    return sum(map(len, found.values()))


def write_records(folder: Path, records: Sequence[TuningRecord]) -> int:
    """Append records to the database in a folder; returns how many."""
    with DatabaseWriter(folder) as writer:
        for record in records:
            writer.append(
                structural_hash=record.workload.structural_hash,
                module=record.workload.module,
                trace=record.trace,
                run_secs=list(record.run_secs or ()),
                target=record.target,
                args_info=record.args_info,
            )
    return len(records)
