"""Owns fitting a table into the width there is: which columns are kept, how wide they get, and the lines; it knows nothing of profiles.

rich's own table wraps or crushes all columns when room is short, and measures every cell several times. Here columns go by priority
and long texts lose their middle, so a line stays a line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.text import Span, Text

from workbench.escaping import plain

_GAP = 2
_WIDEST_CELL = 120
_GROWTH = (24, 40, _WIDEST_CELL)
_LONGEST_SENTENCE = 600
_ASCII_FORMS = {ord("±"): "+/-", ord("…"): "..."}


@dataclass(frozen=True)
class Column:
    """One column of a grid.

    Attributes:
        title: Its heading.
        priority: When room is short, columns with larger numbers go first; 0 never goes.
        least: Width down to which its cells may be shortened; None if they must be whole.
        right: Set to the right, for numbers.
        style: Style of its cells.
    """

    title: str
    priority: int
    least: int | None = None
    right: bool = False
    style: str = ""


@dataclass(frozen=True)
class Drawing:
    """A cell of our own signs, with what stands for them on a terminal that has only ASCII."""

    signs: str
    ascii_signs: str


@dataclass(frozen=True)
class Line:
    """One line of a grid: a cell per column, and a style over all of them."""

    cells: tuple[str | Drawing, ...]
    style: str = ""


@dataclass(frozen=True)
class Grid:
    """A table as a rich renderable: heading, rule, and one line of text per line, whatever the width.

    Attributes:
        columns: In the order they are shown; a column with no text in any line is left out.
        lines: What it shows; strangers' text needs no escaping before.
        remedy: Where the columns can be seen that found no room; empty says nothing of them.
    """

    columns: tuple[Column, ...]
    lines: tuple[Line, ...]
    remedy: str = "widen the terminal, or use --csv or --json"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Lay the lines out for this console."""
        ascii_only = options.ascii_only
        wanted = self._wanted(ascii_only=ascii_only)
        widths = _fit(self.columns, wanted, max(options.max_width, 1))
        kept = [index for index, width in enumerate(widths) if width]
        titles = Line(cells=tuple(column.title for column in self.columns), style="bold")
        yield self._text(titles, kept, widths=widths, ascii_only=ascii_only)
        yield Text(("-" if ascii_only else "─") * _total(widths), style="dim", no_wrap=True, overflow="crop")
        for line in self.lines:
            yield self._text(line, kept, widths=widths, ascii_only=ascii_only)
        hidden = [column.title for column, want, width in zip(self.columns, wanted, widths, strict=True) if column.title and want and not width]
        if hidden and self.remedy:
            words = f"no room for: {', '.join(hidden)} ({self.remedy})"
            yield from console.render(Sentence(words, style="dim"), options)

    def _wanted(self, *, ascii_only: bool) -> list[int]:
        """Width of each column if there were room for everything; 0 for a column without text."""
        wanted = [0] * len(self.columns)
        for line in self.lines:
            for index, cell in enumerate(line.cells):
                wanted[index] = max(wanted[index], cell_len(_shown(cell, _WIDEST_CELL, ascii_only=ascii_only)))
        titles = [cell_len(_shown(column.title, _WIDEST_CELL, ascii_only=ascii_only)) for column in self.columns]
        return [max(width, title) if width else 0 for width, title in zip(wanted, titles, strict=True)]

    def _text(self, line: Line, kept: Sequence[int], *, widths: Sequence[int], ascii_only: bool) -> Text:
        pieces: list[str] = []
        spans: list[Span] = []
        place = 0
        for index in kept:
            column = self.columns[index]
            shown = _shown(line.cells[index], widths[index], ascii_only=ascii_only)
            space = " " * (widths[index] - cell_len(shown))
            piece = space + shown if column.right else shown + space
            if column.style and line.style != "bold":
                spans.append(Span(place, place + len(piece), column.style))
            pieces.append(piece)
            place += len(piece) + _GAP
        text = (" " * _GAP).join(pieces).rstrip()
        inside = [Span(span.start, min(span.end, len(text)), span.style) for span in spans if span.start < len(text)]  # rich fails on others
        return Text(text, style=line.style, spans=inside, no_wrap=True, overflow="crop")


@dataclass(frozen=True)
class Sentence:
    """A sentence under a table: strangers' text made safe, wrapped between words."""

    text: str
    style: str = ""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Show it in what this console can encode."""
        text = Text(_shown(self.text, _LONGEST_SENTENCE, ascii_only=options.ascii_only), style=self.style)
        yield from console.render(text, options.update(width=max(options.max_width, 1)))


def _shown(cell: str | Drawing, limit: int, *, ascii_only: bool) -> str:
    if isinstance(cell, Drawing):
        return cell.ascii_signs if ascii_only else cell.signs
    return plain(cell.translate(_ASCII_FORMS) if ascii_only and not cell.isascii() else cell, limit, ascii_only=ascii_only)


def _fit(columns: Sequence[Column], wanted: Sequence[int], room: int) -> list[int]:
    """Widths that fit into `room`: 0 for the columns that had to go."""
    widths = [want if column.least is None else min(want, max(column.least, len(column.title))) for column, want in zip(columns, wanted, strict=True)]
    by_priority = sorted(range(len(columns)), key=lambda index: columns[index].priority)
    for index in reversed(by_priority):
        if _total(widths) <= room or columns[index].priority == 0:
            break
        widths[index] = 0
    for most in _GROWTH:
        for index in by_priority:
            spare = room - _total(widths)
            if widths[index] and spare > 0:
                widths[index] += min(spare, max(min(wanted[index], most) - widths[index], 0))
    return widths


def _total(widths: Sequence[int]) -> int:
    kept = sum(1 for width in widths if width)
    return sum(widths) + _GAP * max(kept - 1, 0)
