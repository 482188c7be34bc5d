"""Records of other searches that a search may start from, and how many schedules each source of them gave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workbench.records.target import TargetSpec
from workbench.session import RECORDS
from workbench.tuning_database import Database, TuningRecord, for_target, merge, read_database
from workbench.worker.log_records import has_logs, read_logs


@dataclass(frozen=True)
class _Source:
    """One place that records were read from.

    Attributes:
        path: The place.
        records: How many records it has.
        bad_lines: How many lines of it cannot be used.
        fitting: The records for the target.
    """

    path: str
    records: int
    bad_lines: int
    fitting: Database


class Transfer:
    """The records of some places for one target.

    Args:
        paths: Sessions, or folders of databases.
        target: What the records have to be for.

    Attributes:
        records: All of them together; of equal schedules the fastest.

    Raises:
        InputError: A place holds no database.
        EnvironmentFault: The file system refused.
    """

    def __init__(self, paths: Sequence[str], target: TargetSpec) -> None:
        self._sources = [_source(path, target) for path in paths]
        self.records = merge(source.fitting for source in self._sources).records

    def summary(self, taken: Iterable[TuningRecord]) -> list[dict[str, Any]]:
        """What each source gave, JSON-ready.

        Args:
            taken: The records of `records` that gave a schedule to be tried, once for each schedule.
        """
        # Records of two places may be equal, so it is the very object that tells where one is from.
        place_of = {id(record): place for place, source in enumerate(self._sources) for record in source.fitting.records}
        schedules = Counter(place_of[id(record)] for record in taken)
        return [
            {
                "source": source.path,
                "records": source.records,
                "bad_lines": source.bad_lines,
                "for_target": len(source.fitting.records),
                "schedules": schedules[place],
            }
            for place, source in enumerate(self._sources)
        ]


def _source(text: str, target: TargetSpec) -> _Source:
    path = Path(text)
    folder = path / RECORDS if (path / RECORDS).is_dir() else path
    found = read_logs(folder) if has_logs(folder) else read_database(folder)
    return _Source(text, len(found.records), len(found.bad_lines), for_target(found, target.options))
