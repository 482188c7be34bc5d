"""Interactive kernel tuning for Apache TVM: see where a model's time goes, pick hotspots, search schedules for those alone.

The names below are loaded on first use, so that ``import workbench`` loads neither TVM nor pandas nor a widget library.
"""

from typing import TYPE_CHECKING, Any

from workbench import errors
from workbench.errors import WorkbenchError
from workbench.version import __version__
from workbench.workloads import register_workload

if TYPE_CHECKING:
    from workbench.api import (
        BestSchedule,
        Comparison,
        MeasureOptions,
        Search,
        SearchTask,
        Session,
        SessionProfile,
        compare_sessions,
        open,  # noqa: A004 - workbench.open reads well
        open_archive,
    )

__all__ = [
    "BestSchedule",
    "Comparison",
    "MeasureOptions",
    "Search",
    "SearchTask",
    "Session",
    "SessionProfile",
    "WorkbenchError",
    "__version__",
    "compare_sessions",
    "errors",
    "open",
    "open_archive",
    "register_workload",
]

_LAZY = {
    "BestSchedule",
    "Comparison",
    "MeasureOptions",
    "Search",
    "SearchTask",
    "Session",
    "SessionProfile",
    "compare_sessions",
    "open_archive",
    "open",
}


def __getattr__(name: str) -> Any:
    if name in _LAZY:
        from workbench import api  # noqa: PLC0415 - the table of contents is read before anything heavy is

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
