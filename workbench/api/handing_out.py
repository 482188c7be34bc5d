"""What a session hands out to others: its report, and exports."""

from __future__ import annotations

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Any

from workbench.api.exporting import export_parts
from workbench.api.report import winner_texts, write_report
from workbench.session import SessionDirectory
from workbench.version import __version__


class HandsOut(ABC):
    """The part of a session that writes files for others."""

    directory: SessionDirectory

    @abstractmethod
    def inspect(self, task: str, view: str, *, trial: int | None = None) -> str:
        """One view of a task's trial as text."""

    def report(self, path: str | Path = "report.html", *, sources: bool = True) -> Path:
        """Write one self-contained page about the session: before and after, curves, verdicts, sources, environment; returns its path.

        Args:
            path: The file; one that is there is replaced.
            sources: False leaves out the sources of the winners, which a worker has to make.

        Raises:
            SessionError: The session has no profile yet, or is damaged.
            EnvironmentFault: The file cannot be written.
        """
        texts = winner_texts(self.directory, lambda task, view, trial: self.inspect(task, view, trial=trial)) if sources else []
        return write_report(self.directory, Path(path), version=__version__, texts=texts)

    def export(
        self,
        *,
        trials: str | Path | None = None,
        records: str | Path | None = None,
        selection: str | Path | None = None,
        archive: str | Path | None = None,
    ) -> dict[str, dict[str, Any]]:
        """Write what a path is given for; returns what each file holds.

        Args:
            trials: All trials as CSV, or as Parquet for a name that ends in ``.parquet``.
            records: A folder for a MetaSchedule database that stock TVM loads.
            selection: The selection.
            archive: The whole session, for `workbench.open_archive`.

        Raises:
            SessionError: The session does not hold that.
            EnvironmentFault: A file cannot be written.
        """
        given = {"trials": trials, "records": records, "selection": selection, "archive": archive}
        return export_parts(self.directory, **{name: None if path is None else Path(path) for name, path in given.items()})
