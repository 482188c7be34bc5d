"""Owns the text form of row numbers: ``0,2,5-9``."""

from __future__ import annotations

import re
from collections.abc import Iterable

from workbench.errors import SelectionError
from workbench.escaping import plain

_PIECE = re.compile(r"([0-9]+)(?:-([0-9]+))?")
_MOST_DIGITS = 12


def parse_rows(text: str, row_count: int) -> tuple[int, ...]:
    """The rows that a text such as ``0,2,5-9`` or ``0,2 3-5`` names, ascending, each once.

    Args:
        text: Numbers and ascending ranges, separated by commas or spaces; both ends of a range are included.
        row_count: Number of rows there are; the valid rows are 0 to ``row_count - 1``.

    Raises:
        SelectionError: A piece is malformed, descending or out of range; the message names it and the valid rows.
    """
    if row_count < 1:
        raise SelectionError("There are no rows to choose from.")
    ranges = [_parse_piece(piece, row_count) for piece in _pieces(text, row_count)]
    rows: list[int] = []
    for first, last in sorted(ranges):
        rows.extend(range(max(first, rows[-1] + 1) if rows else first, last + 1))
    return tuple(rows)


def format_rows(rows: Iterable[int], *, limit: int = 200) -> str:
    """The inverse of `parse_rows`, e.g. ``0, 2, 5-9``; a text longer than `limit` characters ends in ``…``."""
    ranges: list[tuple[int, int]] = []
    for row in sorted(set(rows)):
        if ranges and ranges[-1][1] == row - 1:
            ranges[-1] = (ranges[-1][0], row)
        else:
            ranges.append((row, row))
    pieces = [str(first) if first == last else f"{first}-{last}" for first, last in ranges]
    text = ", ".join(pieces)
    return text if len(text) <= limit else text[:limit].rsplit(",", 1)[0] + ", …"


def _pieces(text: str, row_count: int) -> list[str]:
    pieces: list[str] = []
    for part in text.split(","):
        words = part.split()
        if not words:
            where = f'in "{plain(text, 60)}"' if text.strip() else "in an empty text"
            raise SelectionError(f"A row number is missing {where}.", _remedy(row_count))
        pieces.extend(words)
    return pieces


def _parse_piece(piece: str, row_count: int) -> tuple[int, int]:
    match = _PIECE.fullmatch(piece)
    if not match:
        raise SelectionError(f'"{plain(piece, 40)}" is neither a row nor a range of rows.', _remedy(row_count))
    first, last = (_number(digits, row_count) for digits in (match[1], match[2] or match[1]))
    if first > last:
        raise SelectionError(f'The range "{plain(piece, 40)}" runs backwards.', _remedy(row_count))
    if last >= row_count:
        raise SelectionError(f'"{plain(piece, 40)}" is out of range.', _remedy(row_count))
    return first, last


def _number(digits: str, row_count: int) -> int:
    """The number; any number past the last row will do for one too long to convert."""
    significant = digits.lstrip("0") or "0"
    return int(significant) if len(significant) <= _MOST_DIGITS else max(row_count, 10**_MOST_DIGITS)


def _remedy(row_count: int) -> str:
    return f"Give rows from 0 to {row_count - 1} as in 0,2,5-9."
