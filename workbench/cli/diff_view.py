"""Owns how two texts look beside each other: in two columns on a wide terminal, one above the other elsewhere; it compares nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from rich.cells import cell_len, set_cell_size
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Text

from workbench.cli.grid import Column, Grid, Line
from workbench.cli.view_text import Heading
from workbench.escaping import plain
from workbench.records.view_diff import ADDED, CHANGED, REMOVED, DiffLine, Hunk, KnobDifference, ViewDiff

LEAST_SIDE_BY_SIDE = 120
"""Columns from which on two texts stand side by side."""

_LONGEST_LINE = 2000
_NUMBER_WIDTH = 5
_STYLES = {CHANGED: ("red", "green"), REMOVED: ("red", ""), ADDED: ("", "green")}
_SIGNS = {CHANGED: "|", REMOVED: "<", ADDED: ">"}
_DECISION_COLUMNS = (
    Column("Decision", priority=0, least=16),
    Column("Left", priority=0, least=8, style="red"),
    Column("Right", priority=0, least=8, style="green"),
)


@dataclass(frozen=True)
class DiffView:
    """Where a view of two trials differs.

    Attributes:
        diff: The difference.
        is_first: True shows the decisions that differ, too.
    """

    diff: ViewDiff
    is_first: bool = True
    keeps_lines: ClassVar[bool] = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Decisions, then the hunks in the form that fits."""
        diff = self.diff
        if self.is_first:
            yield from console.render(_decisions(diff.decisions), options)
        yield Heading(f"{diff.view}: {diff.left} (left), {diff.right} (right)")
        if diff.identical:
            yield Text("no difference", style="dim")
            return
        wide = console.is_terminal and options.max_width >= LEAST_SIDE_BY_SIDE
        for hunk in diff.hunks:
            yield Text(f"@@ -{hunk.left_first},{hunk.left_count} +{hunk.right_first},{hunk.right_count} @@", style="cyan")
            yield from _side_by_side(hunk, options.max_width) if wide else _unified(hunk)


def _decisions(differences: tuple[KnobDifference, ...]) -> Grid | Text:
    if not differences:
        return Text("the schedules decide the same", style="dim")
    lines = tuple(Line((item.knob, item.left or "-", item.right or "-")) for item in differences)
    return Grid(_DECISION_COLUMNS, lines, remedy="")


def _side_by_side(hunk: Hunk, width: int) -> Iterator[Text]:
    column = (width - 3) // 2 - _NUMBER_WIDTH - 1
    for line in hunk.lines:
        left_style, right_style = _STYLES.get(line.kind, ("", ""))
        text = Text(no_wrap=True, overflow="crop")
        text.append(f"{_number(line.left_line)} ", style="dim")
        text.append(_fitted(line.left, column), style=left_style)
        text.append(f" {_SIGNS.get(line.kind, ' ')} ", style="bold")
        text.append(f"{_number(line.right_line)} ", style="dim")
        text.append(_fitted(line.right, column).rstrip(), style=right_style)
        yield text


def _unified(hunk: Hunk) -> Iterator[Text]:
    """What was removed before what was added, as ``diff -u`` does."""
    removed: list[DiffLine] = []
    added: list[DiffLine] = []
    for line in hunk.lines:
        if line.kind in _STYLES:
            removed += [line] if line.left_line is not None else []
            added += [line] if line.right_line is not None else []
            continue
        yield from _changes(removed, added)
        removed, added = [], []
        yield Text(f" {_shown(line.left)}", no_wrap=True, overflow="ignore")
    yield from _changes(removed, added)


def _changes(removed: list[DiffLine], added: list[DiffLine]) -> Iterator[Text]:
    for line in removed:
        yield Text(f"-{_shown(line.left)}", style="red", no_wrap=True, overflow="ignore")
    for line in added:
        yield Text(f"+{_shown(line.right)}", style="green", no_wrap=True, overflow="ignore")


def _shown(line: str) -> str:
    return plain(line.expandtabs(8), _LONGEST_LINE)


def _fitted(line: str, width: int) -> str:
    """A line of exactly so many columns; one that is too long loses its end, since the beginnings stand below each other."""
    shown = _shown(line)
    return f"{set_cell_size(shown, width - 1)}…" if cell_len(shown) > width else set_cell_size(shown, width)


def _number(number: int | None) -> str:
    return f"{number if number is not None else '':>{_NUMBER_WIDTH}}"
