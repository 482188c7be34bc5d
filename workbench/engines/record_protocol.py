"""What an engine gives to a search that keeps its trials as records: files in a folder that stock TVM reads."""

from __future__ import annotations

from typing import Protocol

from workbench.engines.search_protocol import TaskSearch
from workbench.records.trial import Trial


class TrialRecords(Protocol):
    """The records of a session's trials; while they are open, this process alone writes them. To be used from one thread.

    What a crash left of a line that was being written is taken away before anything is added.

    Raises (all methods):
        EnvironmentFault: The file system refuses.
    """

    def count(self) -> int:
        """How many records there are, at most: damaged ones may be among them."""
        ...

    def holds(self, search: TaskSearch, trace: str) -> bool:
        """True if the schedule of a task is recorded, whatever its time."""
        ...

    def append(self, search: TaskSearch, trial: Trial, trace: str) -> None:
        """Add a trial that is ok; its record is in the file when this returns.

        Args:
            search: The task's, which knows the kernel's form for records.
            trial: What was measured.
            trace: Its schedule.

        Raises:
            InputError: Stock TVM could not read it; nothing was written.
        """
        ...

    def close(self) -> None:
        """Bring everything to the disk and let others write; may be called twice."""
        ...
