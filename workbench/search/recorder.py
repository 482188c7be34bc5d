"""Writes each trial the moment it is measured: to the store, and as a record that stock TVM reads."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from workbench.engines.search_protocol import Artifact, Candidate, Failed, Measured
from workbench.records.trial import OK, MeasureOptions, Trial
from workbench.search.task_run import TaskRun
from workbench.store import Store
from workbench.tuning_database import DatabaseWriter


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
        self._store = open_store()
        self._writer = DatabaseWriter(records)
        self._target = target
        self._conditions = conditions
        self._options = options

    def record(self, run: TaskRun, candidate: Candidate, built: Artifact | Failed, outcome: Measured | Failed | None) -> Trial:
        """Store a candidate as the next trial of its task."""
        trial = run.make_trial(candidate, built, outcome, conditions=self._conditions, options=self._options)
        run.take_note(trial)
        self._store.trials.add(trial, candidate.trace, run.progress)
        if trial.status == OK and candidate.trace and run.search is not None:
            structural_hash, module = run.search.workload
            self._writer.append(
                structural_hash=structural_hash,
                module=module,
                trace=json.loads(candidate.trace),
                run_secs=[(trial.time_us or 0.0) / 1e6],
                target=self._target,
                args_info=run.search.arguments,
            )
        return trial

    def note(self, run: TaskRun) -> None:
        """Store how far a task is."""
        self._store.trials.set_progress(run.progress)

    def close(self) -> None:
        """Close the files."""
        self._writer.close()
        self._store.close()
