"""Records of other searches that a search may start from, and how many schedules each source of them gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.legacy.auto_scheduler.workloads import LoggedWorkload
from workbench.records.request import RELAY
from workbench.records.target import TargetSpec
from workbench.records.trial import Trial
from workbench.session import RECORDS
from workbench.tuning_database import RECORD_FILE, Database, TuningRecord, for_target, merge, read_database
from workbench.worker.autotvm_records import autotvm_log, read_autotvm_log
from workbench.worker.old_logs import Translated, old_log

_NO_TEMPLATES = "it is a log of AutoTVM, whose templates today's TVM does not have; an engine for older TVM takes it (--engine relay)"


@dataclass(frozen=True)
class _Source:
    """One place that records were read from.

    Attributes:
        path: The place.
        records: How many records it has.
        bad_lines: How many lines of it cannot be used.
        fitting: The records for the target.
        why: Why none is used; empty if some can be.
    """

    path: str
    records: int
    bad_lines: int
    fitting: Database
    why: str = ""


class Transfer:
    """The records of some places for one target.

    Args:
        paths: Sessions, folders of databases or of an AutoTVM log, or logs of auto_scheduler or AutoTVM.
        target: What the records have to be for.
        engine: Name of the engine that searches.

    Attributes:
        records: Those of databases together; of equal schedules the fastest.
        logged: The workloads of the logs.

    Raises:
        InputError: A place holds neither.
        EnvironmentFault: The file system refused.
    """

    def __init__(self, paths: Sequence[str], target: TargetSpec, *, engine: str) -> None:
        logs = [(path, old_log(path, target.kind)) for path in paths]
        self._logs = [log for _, log in logs if log is not None]
        self._sources = [_source(path, target, engine) for path, log in logs if log is None or _has_records(path)]
        self.records = merge(source.fitting for source in self._sources).records
        self.logged: tuple[LoggedWorkload, ...] = tuple(workload for log in self._logs for workload in log.fitting)

    def summary(
        self, taken: Iterable[TuningRecord], translated: Sequence[Translated], trials_of: Callable[[str], Iterable[Trial]]
    ) -> list[dict[str, Any]]:
        """What each source gave, JSON-ready: databases, then logs.

        Args:
            taken: The records of `records` that gave a schedule to be tried, once for each schedule.
            translated: What the tasks could take of `logged`.
            trials_of: All trials of a task.
        """
        # Records of two places may be equal, so it is the very object that tells where one is from.
        place_of = {id(record): place for place, source in enumerate(self._sources) for record in source.fitting.records}
        schedules = Counter(place_of[id(record)] for record in taken)
        databases = [
            {
                "source": source.path,
                "records": source.records,
                "bad_lines": source.bad_lines,
                "for_target": len(source.fitting.records),
                "schedules": schedules[place],
                "why": source.why,
                "workloads": [],
            }
            for place, source in enumerate(self._sources)
        ]
        return [*databases, *(log.summary(translated, trials_of) for log in self._logs)]


def _folder(text: str) -> Path:
    path = Path(text)
    return path / RECORDS if (path / RECORDS).is_dir() else path


def _has_records(text: str) -> bool:
    """True for a folder with records beside an auto_scheduler log."""
    folder = _folder(text)
    return folder.is_dir() and ((folder / RECORD_FILE).is_file() or autotvm_log(folder) is not None)


def _source(text: str, target: TargetSpec, engine: str) -> _Source:
    folder = _folder(text)
    log = autotvm_log(folder)
    if log is None or (engine != RELAY and (folder / RECORD_FILE).is_file()):
        found = read_database(folder)
        return _Source(text, len(found.records), len(found.bad_lines), for_target(found, target.options))
    found = read_autotvm_log(log)
    if engine != RELAY:
        return _Source(text, len(found.records), len(found.bad_lines), Database((), ()), _NO_TEMPLATES)
    return _Source(text, len(found.records), len(found.bad_lines), for_target(found, target.options))
