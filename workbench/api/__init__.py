"""The Python interface: sessions, profiles, selections, searches, without a notebook."""

from workbench.api.best_schedule import BestSchedule
from workbench.api.comparison import Comparison
from workbench.api.opening import open, open_archive  # noqa: A004 - workbench.open reads well, and shadows nothing here
from workbench.api.pair import compare_sessions
from workbench.api.profile import SessionProfile
from workbench.api.search import Search
from workbench.api.search_task import SearchTask
from workbench.api.session import Session
from workbench.records.trial import MeasureOptions

__all__ = [
    "BestSchedule",
    "Comparison",
    "MeasureOptions",
    "Search",
    "SearchTask",
    "Session",
    "SessionProfile",
    "compare_sessions",
    "open",
    "open_archive",
]
