"""Logs of the original auto-scheduler that a search may start from: where they lie, and what became of each workload."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.engines.search_protocol import Translation
from workbench.errors import InputError
from workbench.escaping import plain
from workbench.importing import artifacts
from workbench.legacy.auto_scheduler.log import parse_auto_scheduler_log
from workbench.legacy.auto_scheduler.workloads import LoggedWorkload, logged_workloads
from workbench.legacy.log_files import AUTO_SCHEDULER_LOG
from workbench.records.profile import Task
from workbench.records.trial import OK, WRONG_RESULT, Trial
from workbench.session import RECORDS

_KEY_LENGTH = 200

Translated = tuple[Task, LoggedWorkload, Translation]


@dataclass(frozen=True)
class OldLog:
    """One log.

    Attributes:
        path: The place that was given.
        workloads: What it has records of.
        bad_lines: How many lines of it cannot be used.
        kind: Kind of the target that is searched for; workloads for others are not tried.
    """

    path: str
    workloads: tuple[LoggedWorkload, ...]
    bad_lines: int
    kind: str

    @property
    def fitting(self) -> tuple[LoggedWorkload, ...]:
        """The workloads for the target of which a record was right."""
        return tuple(workload for workload in self.workloads if workload.kind == self.kind and workload.records)

    def summary(self, translated: Iterable[Translated], trials_of: Callable[[str], Iterable[Trial]]) -> dict[str, Any]:
        """What the log gave, JSON-ready.

        Args:
            translated: What the tasks of the search could take of it.
            trials_of: All trials of a task.
        """
        own = {id(workload) for workload in self.workloads}
        found = [(task, workload, translation) for task, workload, translation in translated if id(workload) in own]
        workloads = [self._workload(workload, [item for item in found if item[1] is workload], trials_of) for workload in self.workloads]
        return {
            "source": self.path,
            "records": sum(len(workload.records) + workload.failed for workload in self.workloads),
            "bad_lines": self.bad_lines,
            "for_target": sum(len(workload.records) for workload in self.fitting),
            "schedules": sum(task["translated"] for workload in workloads for task in workload["tasks"]),
            "why": "",
            "workloads": workloads,
        }

    def _workload(self, workload: LoggedWorkload, found: Sequence[Translated], trials_of: Callable[[str], Iterable[Trial]]) -> dict[str, Any]:
        fits = [(task, translation) for task, _, translation in found if not translation.unlike]
        return {
            "workload": plain(workload.key, _KEY_LENGTH),
            "records": len(workload.records),
            "failed": workload.failed,
            "claimed_us": workload.records[0].time_us if workload.records else None,
            "why": "" if fits else self._why(workload, found),
            "tasks": [_outcome(task, translation, {trial.fingerprint: trial for trial in trials_of(task.task)}) for task, translation in fits],
        }

    def _why(self, workload: LoggedWorkload, found: Sequence[Translated]) -> str:
        """Why no task took anything of a workload: in the words of the kernel that is most like it."""
        if workload.kind != self.kind:
            return f"it is for {plain(workload.kind, 40)}"
        if not workload.records:
            return "no record of it was right"
        if not found:
            return "no task was searched"
        task, _, translation = max(found, key=lambda item: item[2].fitting)
        return f"it is of no kernel that was searched; the nearest is {task.name}: {plain(translation.unlike, _KEY_LENGTH)}"


def old_log(place: str, kind: str) -> OldLog | None:
    """The log in a place: a file, or among the records of a session; None if a folder has none, or the file is a log of AutoTVM.

    Raises:
        InputError: A file is no log of either, or cannot be read.
    """
    path = Path(place)
    if path.is_dir():
        folder = path / RECORDS if (path / RECORDS).is_dir() else path
        path = folder / AUTO_SCHEDULER_LOG
        if not path.is_file():
            return None
    (artifact,) = artifacts.read_artifacts([path])
    if artifact.kind == artifacts.AUTOTVM_LOG:
        return None
    if artifact.kind != artifacts.AUTO_SCHEDULER_LOG:
        raise InputError(
            f"{plain(place, 120)} is a file of another kind ({artifact.kind}).",
            "A search takes sessions, MetaSchedule databases, and logs of auto_scheduler and AutoTVM.",
        )
    parsed = parse_auto_scheduler_log(artifact.text)
    return OldLog(place, logged_workloads(parsed.entries), len(parsed.bad), kind)


def _outcome(task: Task, translation: Translation, trials: Mapping[str, Trial]) -> dict[str, Any]:
    """What became of the schedules that a task took."""
    measured = [trials[fingerprint] for fingerprint in translation.claimed_us if fingerprint in trials]
    statuses = Counter(trial.status for trial in measured)
    best = min((trial for trial in measured if trial.time_us is not None), key=lambda trial: trial.time_us or 0.0, default=None)
    return {
        "task": task.task,
        "name": task.name,
        "tried": translation.tried,
        "translated": len(translation.claimed_us),
        "untranslatable": dict(translation.untranslatable),
        "measured": len(measured),
        "right": statuses[OK],
        "wrong": statuses[WRONG_RESULT],
        "best_us": None if best is None else best.time_us,
        "best_claimed_us": None if best is None else translation.claimed_us[best.fingerprint],
    }
