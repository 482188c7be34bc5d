"""Choosing what to tune: rules over a profile, the selection's file, and what tuning the chosen tasks can bring."""

from workbench.selection.file import MOST_BYTES, read_selection, write_selection
from workbench.selection.heat import covered_share, forecast_speedup, hottest
from workbench.selection.rows import format_rows, parse_rows
from workbench.selection.rules import select

__all__ = [
    "MOST_BYTES",
    "covered_share",
    "forecast_speedup",
    "format_rows",
    "hottest",
    "parse_rows",
    "read_selection",
    "select",
    "write_selection",
]
