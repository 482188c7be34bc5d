"""Owns what of strangers' text may be shown or used as a name; it knows nothing of terminals, tables or pages.

Models, kernels, targets and files bring names that nobody here wrote. Everything that shows one sends it through `plain` (a terminal,
a plain-text cell) or `html` (a page); everything that makes a path of one sends it through `file_stem`.
"""

from __future__ import annotations

import hashlib
import html as _html
import re
import unicodedata
from collections.abc import Sequence
from typing import Any

_SHORT_ESCAPES = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}
_HIDDEN_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp", "Zs"})
_MARK_CATEGORIES = frozenset({"Mn", "Me"})
_MARKS_PER_LETTER = 2
# Letters, marks and symbols that Unicode counts as printable but that show nothing: joiners, fillers, vowels without a
# shape, variation selectors, the empty braille cell.
_INVISIBLE = frozenset(
    [
        *(0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x180B, 0x180C, 0x180D, 0x180F, 0x2800, 0x3164, 0xFFA0),
        *range(0xFE00, 0xFE10),
        *range(0xE0100, 0xE01F0),
    ]
)
_LONGEST_VALUE = 80
_MOST_ITEMS = 8
_LONGEST_CELL = 32_000  # spreadsheets refuse cells above 32,767 characters
_FORMULA_STARTS = ("=", "+", "-", "@", "\uff1d", "\uff0b", "\uff0d", "\uff20")  # the last four are full-width forms
_UNSAFE_IN_NAMES = re.compile(r"[^A-Za-z0-9._-]+")
_REPEATED_DOTS = re.compile(r"\.{2,}")


def plain(text: str, limit: int = 60, *, ascii_only: bool = False) -> str:
    r"""One line of printable text that takes at most `limit` columns.

    Control characters, terminal escapes, line breaks, direction marks, zero-width and other invisible characters and lone surrogates
    are shown as ``\x1b``, ``\n``, ``\u202e``; letters of any script stay. Backslashes stay as they are, so that applying it twice
    changes nothing. Text that is too long loses its middle.

    Args:
        text: Anything.
        limit: Display columns; wide East Asian characters count two.
        ascii_only: Escape all other characters too, for a terminal that cannot show them.
    """
    if limit < 1:
        raise ValueError(f"limit must be at least 1, not {limit}")
    if len(text) <= limit and text.isascii() and text.isprintable():
        return text
    head, fits = _take(text, range(len(text)), columns=limit, ascii_only=ascii_only)
    if fits:
        return "".join(head)
    ellipsis = ("..." if ascii_only else "…")[:limit]
    tail_columns = (limit - len(ellipsis)) // 2
    head, _ = _take(text, range(len(text)), columns=limit - len(ellipsis) - tail_columns, ascii_only=ascii_only)
    tail, _ = _take(text, range(len(text) - 1, -1, -1), columns=tail_columns, ascii_only=ascii_only)
    while tail and _columns(tail[-1]) == 0:
        tail.pop()
    return "".join(head) + ellipsis + "".join(reversed(tail))


def plain_value(value: object, limit: int = 60) -> str:
    """Any value for a message, as Python writes it: one line of at most `limit` columns."""
    try:
        return plain(repr(value), limit)
    except Exception:  # noqa: BLE001 - a number of thousands of digits has no text, and whose class it is may raise anything
        return plain(f"a value of type {type(value).__name__}", limit)


def short_text(value: Any) -> str:
    """An attribute's value on one short line."""
    if isinstance(value, str):
        return plain(value, _LONGEST_VALUE)
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        items = [short_text(item) for item in value[:_MOST_ITEMS]]
        more = len(value) - len(items)
        return plain(f"[{', '.join(items)}{f', … {more} more' if more else ''}]", _LONGEST_VALUE)
    return plain(str(value), _LONGEST_VALUE)


def html(text: str, limit: int = 60) -> str:
    """The same as `plain`, safe inside an element or a quoted attribute of a page."""
    return _html.escape(plain(text, limit), quote=True)


def cell(text: str) -> str:
    """The same as `plain` for a cell of CSV: at most as long as spreadsheets take, and never a formula."""
    shown = plain(text, _LONGEST_CELL)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA_STARTS) else shown


def file_stem(text: str, limit: int = 60) -> str:
    """A name for a part of a path and for shells: ASCII letters, digits, ``.``, ``_`` and ``-``, never empty or hidden or an option.

    Letters that have no ASCII form are replaced by a digest of the text, so that two such names stay apart.
    """
    if limit < 16:
        raise ValueError(f"limit must be at least 16, not {limit}")
    decomposed = "".join(sign for sign in unicodedata.normalize("NFKD", text) if not unicodedata.combining(sign))
    stem = _REPEATED_DOTS.sub(".", _UNSAFE_IN_NAMES.sub("_", decomposed)).lstrip(".-")
    if any(sign.isalnum() and not sign.isascii() for sign in decomposed):
        digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        stem = f"{stem.strip('_.')[: limit - 9] or 'unnamed'}-{digest}".lstrip("-")
    stem = stem[:limit].rstrip(".")
    return stem if stem.strip("_-.") else "unnamed"


def _take(text: str, order: range, *, columns: int, ascii_only: bool) -> tuple[list[str], bool]:
    """The shown pieces of `text` in the given order until `columns` are full, and whether all of them fitted."""
    pieces: list[str] = []
    used = 0
    for index in order:
        piece = _piece(text, index, ascii_only=ascii_only)
        used += _columns(piece)
        if used > columns:
            return pieces, False
        pieces.append(piece)
    return pieces, True


def _piece(text: str, index: int, *, ascii_only: bool) -> str:
    """How one character is shown: itself or its escape."""
    sign = text[index]
    if " " <= sign <= "~":
        return sign
    shown = not ascii_only and ord(sign) not in _INVISIBLE and unicodedata.category(sign) not in _HIDDEN_CATEGORIES
    if shown and (not _is_mark(sign) or _has_letter_to_sit_on(text, index)):
        return sign
    return _SHORT_ESCAPES.get(sign) or _escape(ord(sign))


def _escape(code: int) -> str:
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _is_mark(sign: str) -> bool:
    return unicodedata.category(sign) in _MARK_CATEGORIES


def _has_letter_to_sit_on(text: str, index: int) -> bool:
    """Whether a combining mark follows a visible letter closely; piles of marks would cover other lines."""
    for before in range(index - 1, max(index - 1 - _MARKS_PER_LETTER, -1), -1):
        if ord(text[before]) in _INVISIBLE or unicodedata.category(text[before]) in _HIDDEN_CATEGORIES:
            return False
        if not _is_mark(text[before]):
            return True
    return False


def _columns(piece: str) -> int:
    """Display columns of one shown character or escape."""
    if len(piece) > 1 or piece.isascii():
        return len(piece)
    if _is_mark(piece):
        return 0
    return 2 if unicodedata.east_asian_width(piece) in "WF" else 1
