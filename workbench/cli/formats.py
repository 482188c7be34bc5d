"""Owns how numbers, shares, flags and notes look in the command line's tables, and the console they are printed to; it knows no columns."""

from __future__ import annotations

import math
import os
import sys
from decimal import Decimal
from typing import NoReturn, TextIO

from rich.console import Console

from workbench.links import resolution_note
from workbench.records import number
from workbench.records.profile import Profile
from workbench.records.tuning import SKETCHES

PIPE_WIDTH = 220
_PIPE_HEIGHT = 25
_WIDEST_PIPE = 10_000

_BLOCKS = " ▏▎▍▌▋▊▉█"
_LARGEST_PLAIN = 1e12


class _ResultConsole(Console):
    """A console that says when its reader has gone; rich's own ends the process with exit code 1."""

    def on_broken_pipe(self) -> NoReturn:
        """Print nothing more and leave the rest to the caller.

        Raises:
            BrokenPipeError: Always.
        """
        self.quiet = True
        raise BrokenPipeError


def table_console(stream: TextIO | None = None) -> Console:
    """A console for results: as wide as the terminal; without colour and `pipe_width` columns wide where the stream is no terminal."""
    if (stream or sys.stdout).isatty():
        return _ResultConsole(file=stream, highlight=False, markup=False, emoji=False)
    return _ResultConsole(
        file=stream,
        highlight=False,
        markup=False,
        emoji=False,
        width=pipe_width(),
        height=_PIPE_HEIGHT,  # or rich reads COLUMNS itself, and fails on what is no width
        force_terminal=False,
        color_system=None,
        no_color=True,
    )


def pipe_width() -> int:
    """Columns of what goes into a pipe or a file: as many as ``COLUMNS`` says, as for a terminal, else 220."""
    wanted = os.environ.get("COLUMNS", "")
    width = int(wanted) if wanted.isascii() and wanted.isdigit() and len(wanted) <= len(str(_WIDEST_PIPE)) else 0
    return min(width, _WIDEST_PIPE) or PIPE_WIDTH


def remarks(profile: Profile) -> list[str]:
    """What every view of a profile must say: that nothing was measured and why, the notes, and which times are noise."""
    unmeasured = [f"not measured: {profile.unmeasured}"] if profile.unmeasured else []
    return [*unmeasured, *profile.notes, *filter(None, [resolution_note(profile)])]


def microseconds(value: float | None) -> str:
    """A time with two decimals and separators, more where it is short; ``-`` if unknown."""
    return "-" if value is None else number.microseconds(value)


def percent(value: float | None) -> str:
    """A percentage with two decimals, without its sign; ``-`` if unknown."""
    return _fixed(value, 2)


def gflops(value: float | None) -> str:
    """A rate with one decimal; ``-`` if unknown."""
    return _fixed(value, 1)


def operations(value: int | None) -> str:
    """A number of operations with a prefix a reader knows: ``1.85 G``; ``-`` if unknown."""
    if value is None:
        return "-"
    for factor, prefix in ((10**15, "P"), (10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")):
        if value >= factor * 0.9995:
            return f"{value / factor:.3g} {prefix}" if value < factor * 999.5 else f"{value / factor:.2e} {prefix}"
    return str(value)


def count(value: int | None) -> str:
    """A count of any size in a few characters: ``840``, ``1.2e9``; ``-`` if unknown."""
    if value is None:
        return "-"
    if value < 10_000:
        return str(value)
    return f"{Decimal(value):.1e}".replace("e+", "e")


def space(size: int | None, name: str) -> str:
    """Size of a search space; of auto_scheduler's the number of sketches, which are no schedules yet."""
    return f"{size} {'sketch' if size == 1 else 'sketches'}" if name == SKETCHES and size is not None else count(size)


def bar(share: float, *, width: int, ascii_only: bool) -> str:
    """A bar of at most `width` columns for a share of 0 to 1; any share above 0 shows something."""
    share = min(max(share, 0.0), 1.0)
    if ascii_only:
        return "#" * (max(round(share * width), 1) if share > 0 else 0)
    eighths = max(round(share * width * 8), 1) if share > 0 else 0
    return "█" * (eighths // 8) + _BLOCKS[eighths % 8].strip()


def flags(*, nan_count: int | None, inf_count: int | None, untunable: bool) -> str:
    """What is wrong or special about a row: ``NaN 12 Inf 3 untunable``."""
    words = [f"{name} {number}" for name, number in (("NaN", nan_count), ("Inf", inf_count)) if number]
    return " ".join([*words, "untunable"] if untunable else words)


def above(value: float) -> str:
    """A round number just above `value`, for ``below ... %``."""
    if value < 0.01:
        return "0.01"
    step = 10.0 ** math.floor(math.log10(value))
    return f"{(math.floor(value / step) + 1) * step:.2g}"


def _fixed(value: float | None, decimals: int) -> str:
    if value is None:
        return "-"
    return f"{value:,.{decimals}f}" if abs(value) < _LARGEST_PLAIN else f"{value:.3e}"
