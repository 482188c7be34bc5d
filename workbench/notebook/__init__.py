"""The workbench in a notebook: one widget a part, all of them usable alone. Only this package imports widgets."""

from workbench.notebook.graph.graph import GraphView
from workbench.notebook.inspector.inspector import Inspector
from workbench.notebook.inspector.source import InspectorSource
from workbench.notebook.monitor.feed import StoreFeed
from workbench.notebook.monitor.monitor import TuningMonitor
from workbench.notebook.monitor.steering import StoreSteering
from workbench.notebook.table.table import ProfileTable

__all__ = ["GraphView", "Inspector", "InspectorSource", "ProfileTable", "StoreFeed", "StoreSteering", "TuningMonitor"]
