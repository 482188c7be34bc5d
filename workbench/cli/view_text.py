"""Owns how a long text of a program looks on the terminal: line by line, coloured by its language where there are colours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from rich.console import Console, ConsoleOptions, RenderResult
from rich.syntax import Syntax
from rich.text import Text

from workbench.escaping import plain

_LONGEST_LINE = 2000
_MOST_COLOURED_LINES = 3000
_LEXERS = {"python": "python", "cuda": "cuda", "c": "c", "llvm": "llvm", "asm": "gas"}


@dataclass(frozen=True)
class Heading:
    """A line above one of several texts."""

    text: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One bold line."""
        del console, options
        yield Text(f"--- {plain(self.text, 200)}", style="bold", no_wrap=True, overflow="crop")


@dataclass(frozen=True)
class Listing:
    """A text of a program; strangers' text needs no escaping before.

    Attributes:
        text: All of it.
        language: As in `workbench.records.view.ViewInfo`.
    """

    text: str
    language: str
    keeps_lines: ClassVar[bool] = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines as they are: never wrapped, cut or padded where they go to a file."""
        del options
        lines = shown_lines(self.text)
        lexer = _LEXERS.get(self.language)
        if lexer and console.is_terminal and console.color_system and len(lines) <= _MOST_COLOURED_LINES:
            yield Syntax("\n".join(lines), lexer, theme="ansi_dark", background_color="default", word_wrap=False)
            return
        for line in lines:
            yield Text(line, no_wrap=True, overflow="ignore", end="\n")


def shown_lines(text: str) -> list[str]:
    """The lines of a text, safe to show: tabs as spaces, nothing that moves the cursor."""
    lines = text.split("\n")
    lines = lines[:-1] if lines[-1] == "" else lines
    return [plain(line.expandtabs(8), _LONGEST_LINE) for line in lines]
