"""Writes each trial the moment it is measured: to the store, and as a record that stock TVM reads."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.engines.search_protocol import Artifact, Candidate, Experience, Failed, Measured
from workbench.errors import InputError, SessionError
from workbench.escaping import plain
from workbench.records.trial import OK, MeasureOptions, Trial
from workbench.records.tuning import TaskProgress
from workbench.regular_files import reader
from workbench.search.task_run import TaskRun
from workbench.store import Store
from workbench.tuning_database import RECORD_FILE, DatabaseWriter, read_database
from workbench.tuning_database.json_text import FormatError, canonical, without_truth_values

RECORD_ERROR = "record"
"""Name in ``first_errors`` of why a trial is in the store and not among the records."""


class Recorder:
    """Numbers and stores trials; used by one thread at a time.

    Args:
        open_store: Opens the session's store for the thread that records.
        records: Directory of the records for stock TVM.
        target: TVM's target of the records.
        conditions: Digest of what makes times comparable.
        options: How trials are measured.
    """

    def __init__(self, open_store: Callable[[], Store], records: Path, target: dict[str, Any], *, conditions: str, options: MeasureOptions) -> None:
        self._records = records
        with _own_records(records):
            self._writer = DatabaseWriter(records)
        try:
            self._store = open_store()
        except BaseException:
            self._writer.close()
            raise
        self._target = target
        self._conditions = conditions
        self._options = options
        self._recorded: dict[str, set[bytes]] | None = None
        # Reading thousands of records takes seconds, counting them does not; a trial is recorded once.
        self._is_complete = _lines(records / RECORD_FILE) >= self._store.trials.count_recordable()

    def record(self, run: TaskRun, candidate: Candidate, built: Artifact | Failed, outcome: Measured | Failed | None) -> Trial:
        """Store a candidate as the next trial of its task; one that could not be stored is not counted either."""
        trial = run.make_trial(candidate, built, outcome, conditions=self._conditions, options=self._options)
        progress = run.progress_with(trial)
        self._store.trials.add(trial, candidate.trace, progress)
        run.take_note(trial, progress)
        self._append(run, trial, candidate.trace)
        return trial

    def catch_up(self, run: TaskRun, known: Sequence[Experience]) -> int:
        """Append earlier trials that the records lack, since a worker may die between storing a trial and recording it.

        Args:
            run: The task, prepared.
            known: All its earlier trials.

        Returns:
            How many there were.
        """
        if run.search is None or self._is_complete or not known:
            return 0
        if self._recorded is None:  # once a search: what it records itself is noted
            self._recorded = {}
            with _own_records(self._records):
                database = read_database(self._records)
            for record in database.records:
                self._recorded.setdefault(record.workload.module, set()).add(_digest(record.trace_json))
        recorded = self._recorded.get(run.search.workload[1], set())
        missing = [item for item in known if item.trial.status == OK and item.trace and _digest(_canonical(item.trace)) not in recorded]
        for item in missing:
            self._append(run, item.trial, item.trace)
        return len(missing)

    def note(self, progress: TaskProgress) -> None:
        """Store how far a task is."""
        self._store.trials.set_progress(progress)

    def close(self) -> None:
        """Close the files."""
        try:
            self._writer.close()
        finally:
            self._store.close()

    def _append(self, run: TaskRun, trial: Trial, trace: str) -> None:
        """Write a trial as a record; one that stock TVM could not read is told of and left out."""
        if trial.status != OK or not trace or run.search is None:
            return
        structural_hash, module = run.search.workload
        try:
            self._writer.append(
                structural_hash=structural_hash,
                module=module,
                trace=_value(trace),
                run_secs=[(trial.time_us or 0.0) / 1e6],
                target=self._target,
                args_info=run.search.arguments,
            )
            if self._recorded is not None:
                self._recorded.setdefault(module, set()).add(_digest(_canonical(trace)))
        except InputError as error:  # its search goes on: the store has the trial
            errors = {RECORD_ERROR: f"Trial {trial.number}: {error.message} The session keeps it.", **run.progress.first_errors}
            run.progress = replace(run.progress, first_errors=errors)


@contextlib.contextmanager
def _own_records(folder: Path) -> Iterator[None]:
    """Say what can be done about the session's own records, which were not given by the user and can be made again.

    Raises:
        SessionError: They cannot be used.
    """
    try:
        yield
    except InputError as error:
        raise SessionError(
            f"The session's own records cannot be used: {error.message}",
            f"End what else uses {plain(str(folder), 120)}, or move it away: the next search writes it again from the session's trials.",
        ) from error


def _value(trace: str) -> Any:
    """The JSON value of a trace as records have it; None, which no record can hold, for what is none."""
    try:
        return without_truth_values(json.loads(trace))
    except ValueError:
        return None


def _canonical(trace: str) -> str:
    """The text of a trace as records have it; empty for what no record can hold."""
    try:
        return canonical(_value(trace))
    except FormatError:
        return ""


def _digest(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()


def _lines(path: Path) -> int:
    with reader(path) as file:
        return sum(piece.count(b"\n") for piece in iter(lambda: file.read(1 << 20), b""))
