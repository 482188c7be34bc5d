"""Writes each trial the moment it is measured: to the store, and as a record that stock TVM reads."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from workbench.engines.record_protocol import TrialRecords
from workbench.engines.search_protocol import Artifact, Candidate, Experience, Failed, Measured
from workbench.errors import InputError, SessionError
from workbench.escaping import plain
from workbench.records.trial import OK, MeasureOptions, Trial
from workbench.records.tuning import TaskProgress
from workbench.search.task_run import TaskRun
from workbench.store import Store

RECORD_ERROR = "record"
"""Name in ``first_errors`` of why a trial is in the store and not among the records."""


class Recorder:
    """Numbers and stores trials; used by one thread at a time.

    Args:
        open_store: Opens the session's store for the thread that records.
        folder: Directory of the records for stock TVM.
        open_records: Opens the records in a folder, in the form of the engine's TVM.
        conditions: Digest of what makes times comparable.
        options: How trials are measured.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        folder: Path,
        open_records: Callable[[Path], TrialRecords],
        *,
        conditions: str,
        options: MeasureOptions,
    ) -> None:
        self._folder = folder
        with _own_records(folder):
            self._records = open_records(folder)
        try:
            self._store = open_store()
            # Reading thousands of records takes seconds, counting them does not; a trial is recorded once.
            self._is_complete = self._records.count() >= self._store.trials.count_recordable()
        except BaseException:
            self._records.close()
            raise
        self._conditions = conditions
        self._options = options

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
        search = run.search
        if search is None or self._is_complete or not known:
            return 0
        with _own_records(self._folder):
            missing = [item for item in known if item.trial.status == OK and item.trace and not self._records.holds(search, item.trace)]
        for item in missing:
            self._append(run, item.trial, item.trace)
        return len(missing)

    def note(self, progress: TaskProgress) -> None:
        """Store how far a task is."""
        self._store.trials.set_progress(progress)

    def close(self) -> None:
        """Close the files."""
        try:
            self._records.close()
        finally:
            self._store.close()

    def _append(self, run: TaskRun, trial: Trial, trace: str) -> None:
        """Write a trial as a record; one that stock TVM could not read is told of and left out."""
        if trial.status != OK or not trace or run.search is None:
            return
        try:
            self._records.append(run.search, trial, trace)
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
