"""What a session holds of searches, as a search asks for it; it reads no store itself."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from workbench.engines.search_protocol import Experience
from workbench.records.conditions import Differences, unknown_differences
from workbench.records.tuning import TaskProgress


@dataclass(frozen=True)
class History:
    """What was measured before and meanwhile.

    Attributes:
        conditions: Digest of what makes times comparable now.
        trials: Trials of the session before this search.
        progress_of: How far the searches of a task came; None if there was none.
        trials_of: All trials of a task with their traces.
        differences: Says in what other conditions differ from the present ones.
    """

    conditions: str
    trials: int
    progress_of: Callable[[str], TaskProgress | None]
    trials_of: Callable[[str], list[Experience]]
    differences: Differences = unknown_differences
