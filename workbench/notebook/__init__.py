"""The workbench in a notebook: the app, and each of its parts as a widget of its own. Only this package imports widgets.

The names below are loaded on first use, so that what needs no page (the app's states, its model) needs no widgets either.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from workbench.notebook.app.workbench import Workbench
    from workbench.notebook.comparison.comparison import ComparisonView
    from workbench.notebook.graph.graph import GraphView
    from workbench.notebook.inspector.inspector import Inspector
    from workbench.notebook.inspector.source import InspectorSource
    from workbench.notebook.monitor.feed import StoreFeed
    from workbench.notebook.monitor.monitor import TuningMonitor
    from workbench.notebook.monitor.steering import StoreSteering
    from workbench.notebook.table.table import ProfileTable

__all__ = [
    "ComparisonView",
    "GraphView",
    "Inspector",
    "InspectorSource",
    "ProfileTable",
    "StoreFeed",
    "StoreSteering",
    "TuningMonitor",
    "Workbench",
]

_PLACES = {
    "ComparisonView": "workbench.notebook.comparison.comparison",
    "GraphView": "workbench.notebook.graph.graph",
    "Inspector": "workbench.notebook.inspector.inspector",
    "InspectorSource": "workbench.notebook.inspector.source",
    "ProfileTable": "workbench.notebook.table.table",
    "StoreFeed": "workbench.notebook.monitor.feed",
    "StoreSteering": "workbench.notebook.monitor.steering",
    "TuningMonitor": "workbench.notebook.monitor.monitor",
    "Workbench": "workbench.notebook.app.workbench",
}


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
