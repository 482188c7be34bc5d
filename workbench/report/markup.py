"""Builds HTML and SVG in which nothing is markup but what was made as such here: all other text is escaped, whoever wrote it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable

from workbench.escaping import plain

_MOST_TEXT = 4000
_MOST_LINE = 2000
_MOST_LINES = 4000


class Markup(str):
    """Text that is markup already. Only `tag`, `text`, `block` and `joined` make it."""

    __slots__ = ()


Child = str | int | None
Attribute = str | float | bool | None


def tag(element: str, /, *children: Child, **attributes: Attribute) -> Markup:
    """An element. A child that is no markup is text; None is left out.

    Args:
        element: Its name.
        children: What it holds.
        attributes: An underscore at the end is dropped, others become hyphens; None and False leave one out, True sets it empty.
    """
    opening = "".join(_attribute(key.rstrip("_").replace("_", "-"), value) for key, value in attributes.items())
    inner = "".join(text(child) for child in children if child is not None)
    return Markup(f"<{element}{opening}>" if element in _VOID else f"<{element}{opening}>{inner}</{element}>")


def text(value: Child) -> Markup:
    """A value as text of the page; markup stays as it is."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(plain(str(value), _MOST_TEXT), quote=True))


def block(source: str) -> Markup:
    """A text of many lines, each of them safe; what is beyond a limit is left out and told."""
    lines = source.splitlines()
    shown = [html.escape(plain(line.expandtabs(4), _MOST_LINE), quote=True) if line.strip() else "" for line in lines[:_MOST_LINES]]
    more = [f"... {len(lines) - _MOST_LINES:,} more lines"] if len(lines) > _MOST_LINES else []
    return Markup("\n".join([*shown, *more]))


def joined(parts: Iterable[Child], separator: str = "") -> Markup:
    """Parts one after the other."""
    return Markup(text(separator).join(text(part) for part in parts if part is not None))


def _attribute(name: str, value: Attribute) -> str:
    if value is None or value is False:
        return ""
    if value is True:
        return f" {name}"
    if name == "d" and _PATH.fullmatch(str(value)):  # a drawing's path may be longer than any text
        return f' d="{value}"'
    shown = f"{value:.6g}" if isinstance(value, float) else html.escape(plain(str(value), _MOST_TEXT), quote=True)
    return f' {name}="{shown}"'


_PATH = re.compile(r"[MLHVAZmlhvaz0-9 .,-]*")
_VOID = frozenset({"br", "hr", "meta", "link", "input", "img", "col"})
