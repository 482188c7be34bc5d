"""Owns the table of the views that there are of a task, and why some cannot be shown."""

from __future__ import annotations

from collections.abc import Iterable

from rich.console import RenderableType

from workbench.cli.grid import Column, Grid, Line
from workbench.records.view import ViewInfo

_COLUMNS = (
    Column("View", priority=0),
    Column("Shows", priority=1, least=24),
    Column("Not here", priority=2, least=16, style="yellow"),
    Column("Remedy", priority=3, least=16),
)


def view_list(infos: Iterable[ViewInfo]) -> RenderableType:
    """All views, those that cannot be shown here with the reason."""
    lines = [Line((info.view, info.description, info.unavailable, info.remedy), style="" if info.available else "dim") for info in infos]
    return Grid(_COLUMNS, tuple(lines), remedy="widen the terminal, or use --json")
