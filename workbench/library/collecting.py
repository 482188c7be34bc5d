"""Takes the winners of a session into the library."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import dataclass

from workbench.errors import SessionError
from workbench.escaping import plain
from workbench.library.shelf import Library, Winner, digest_of
from workbench.records.tuning import FASTER, TaskProgress
from workbench.session import SessionDirectory
from workbench.store import Store
from workbench.tuning_database import RECORD_FILE, TuningRecord, read_database
from workbench.tuning_database.json_text import FormatError, canonical, without_truth_values


@dataclass(frozen=True)
class Collected:
    """What became of the winners of a session.

    Attributes:
        added: Those that the library now has.
        left_out: Why another one was left out, by the name of its kernel.
    """

    added: tuple[Winner, ...]
    left_out: Mapping[str, str]


def collect(directory: SessionDirectory, library: Library) -> Collected:
    """Take the winners of a session into the library.

    Raises:
        SessionError: The session is damaged, or no search has named a winner in it.
        EnvironmentFault: The library cannot be written.
    """
    with directory.store() as store:
        won = [task for task in store.trials.progress() if task.final is not None and task.final.verdict == FASTER]
        if not won:
            raise SessionError(f"No search has named a winner in {plain(str(directory.path), 120)}.", "Tune it to the end first: workbench tune.")
        if not (directory.records / RECORD_FILE).exists():
            told = f"The session in {plain(str(directory.path), 120)} has no records in MetaSchedule's form, which the library keeps."
            raise SessionError(told, "Logs of older TVM are handed on with: workbench export --records DIR.")
        records = {digest_of(record.trace_json): record for record in read_database(directory.records).records}
        added, left_out = [], {}
        for task in won:
            found = _winner(store, task, records)
            if isinstance(found, str):
                left_out[task.name] = found
            elif library.add(*found):
                added.append(found[0])
            else:
                left_out[task.name] = "the library has better ones"
    return Collected(tuple(added), left_out)


def _winner(store: Store, task: TaskProgress, records: Mapping[str, TuningRecord]) -> tuple[Winner, TuningRecord] | str:
    """A task's winner with its record, or why it has none."""
    final, profile, manifest = task.final, store.profile(), store.manifest()
    trace = None if final is None else store.trials.trace(task.task, final.winner)
    trial = None if final is None else store.trials.trial(task.task, final.winner)
    if final is None or trial is None or not trace or profile is None:
        return "its trial is gone"
    try:
        digest = digest_of(canonical(without_truth_values(json.loads(trace))))
    except (FormatError, ValueError):
        return "its trace is damaged"
    record, kernel_hash = records.get(digest), store.structural_hashes().get(task.task)
    known = next((item for item in profile.tasks if item.task == task.task), None)
    if record is None or record.target is None:
        return "records/ lacks it: the next search adds it"
    if kernel_hash is None or known is None:
        return "the profile has no such kernel any more"
    versions = manifest.get("versions")
    winner = Winner(
        kernel_hash=kernel_hash,
        kernel=task.name,
        target=profile.target,
        model=profile.model,
        shapes=known.shapes,
        baseline_us=final.baseline_us,
        winner_us=final.winner_us,
        conditions=task.conditions,
        tvm=str(versions.get("tvm", "")) if isinstance(versions, Mapping) else "",
        trial=final.winner,
        decisions=trial.decisions,
        trace_digest=digest,
        added_at=time.time(),
    )
    return winner, record
