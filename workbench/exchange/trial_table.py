"""All trials of a session as a table for other programs."""

from __future__ import annotations

import csv
import importlib.util
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from workbench.errors import EnvironmentFault
from workbench.escaping import cell, plain
from workbench.records.trial import Trial
from workbench.whole_files import whole_file

TRIAL_COLUMNS = (
    *("task", "kernel", "number", "status", "origin", "time_us", "times_us", "runs", "best_us", "measured_at", "search_s", "build_s", "run_s"),
    *("max_abs", "max_rel", "mismatches", "conditions", "fingerprint", "decisions", "error"),
)


def trials_csv(trials: Iterable[Trial], names: Mapping[str, str]) -> str:
    """The trials as CSV, safe to open in a spreadsheet: lists are joined by spaces or semicolons, an unknown value is an empty cell.

    Args:
        trials: In the order of the table.
        names: Name of each task's kernel.
    """
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(TRIAL_COLUMNS)
    for trial in trials:
        row = _row(trial, names)
        row["times_us"] = " ".join(f"{time:.6g}" for time in trial.times_us)
        row["decisions"] = "; ".join(trial.decisions)
        writer.writerow([cell(value) if isinstance(value, str) else value for value in row.values()])
    return text.getvalue()


def trials_parquet(trials: Iterable[Trial], names: Mapping[str, str], path: Path) -> None:
    """The trials as Parquet, lists as lists.

    Raises:
        EnvironmentFault: pyarrow is not installed, or the disk refuses.
    """
    if importlib.util.find_spec("pyarrow") is None:
        raise EnvironmentFault(
            "Parquet files need pyarrow, which is not installed.", "Install it (make parquet, or pip install pyarrow), or export CSV."
        )
    import pandas as pd  # noqa: PLC0415 - pandas takes 0.3 s to load, and only this function needs it

    frame = pd.DataFrame([_row(trial, names) for trial in trials], columns=list(TRIAL_COLUMNS))
    try:
        with whole_file(path) as file:
            frame.to_parquet(file, index=False)
    except OSError as error:
        raise EnvironmentFault(f"{plain(str(path), 120)} cannot be written: {error.strerror or error}.", "Give another file.") from error


def _row(trial: Trial, names: Mapping[str, str]) -> dict[str, Any]:
    check = trial.check
    return {
        **{name: getattr(trial, name, None) for name in TRIAL_COLUMNS},
        "kernel": names.get(trial.task, ""),
        "times_us": list(trial.times_us),
        "decisions": list(trial.decisions),
        "max_abs": None if check is None else check.max_abs,
        "max_rel": None if check is None else check.max_rel,
        "mismatches": None if check is None else check.mismatches,
    }
