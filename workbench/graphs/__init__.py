"""Pure functions on graphs: which nodes are shown as one box, and which runs of boxes repeat."""

from workbench.graphs.repeats import Repeat, find_repeats
from workbench.graphs.units import Unit, kernel_units, source_units, without_constants

__all__ = ["Repeat", "Unit", "find_repeats", "kernel_units", "source_units", "without_constants"]
