"""The records of a session as a database for stock TVM, on its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from workbench.errors import InputError, SessionError
from workbench.escaping import plain
from workbench.session import SessionDirectory
from workbench.tuning_database import RECORD_FILE, WORKLOAD_FILE, DatabaseWriter, TuningRecord, read_database


def export_records(directory: SessionDirectory, folder: Path) -> int:
    """Write a session's records as a new MetaSchedule database; lines that stock TVM could not read are left out.

    Args:
        directory: The session.
        folder: Where the two files go; made if it is missing.

    Returns:
        Number of records.

    Raises:
        SessionError: The session has no records.
        InputError: The folder holds a database already.
        EnvironmentFault: The disk refuses.
    """
    if not directory.records.is_dir():
        raise SessionError(f"The session in {plain(str(directory.path), 120)} has no records yet.", "Tune something first.")
    if any((folder / name).exists() for name in (WORKLOAD_FILE, RECORD_FILE)):
        raise InputError(f"{plain(str(folder), 120)} holds a database already.", "Give another folder.")
    return write_records(folder, [record for record in read_database(directory.records).records if not record.misleads_stock])


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
