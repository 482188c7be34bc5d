"""Old logs line by line: what can be read is read, and what cannot is set aside with its line number and the reason."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from workbench import strict_json
from workbench.escaping import plain

MAX_LINE_LENGTH = 10**7
"""Characters of one line; no tuner writes as many."""

Entry = TypeVar("Entry")


class LineError(ValueError):
    """A line is not what the format says; the message says why."""


@dataclass(frozen=True)
class BadLine:
    """A line that could not be read.

    Attributes:
        line: Its number, from 1.
        reason: Why.
    """

    line: int
    reason: str


@dataclass(frozen=True)
class Parsed(Generic[Entry]):
    """What a file holds.

    Attributes:
        entries: What could be read, in order.
        bad: The lines that could not.
    """

    entries: tuple[Entry, ...]
    bad: tuple[BadLine, ...]


def parse_json_lines(text: str, parse: Callable[[int, Any], Entry]) -> Parsed[Entry]:
    """Read a log with one JSON value a line; empty lines and comments (``#``) are passed over.

    Args:
        text: The log.
        parse: Makes an entry of the line's number and value; raises LineError.
    """
    entries: list[Entry] = []
    bad: list[BadLine] = []
    for number, line in enumerate(text.split("\n"), start=1):
        content = line.strip()
        if not content or content.startswith("#"):
            continue
        try:
            entries.append(parse(number, json_value(content)))
        except LineError as error:
            bad.append(BadLine(number, str(error)))
    return Parsed(tuple(entries), tuple(bad))


def json_value(text: str) -> Any:
    """A JSON value with finite numbers only; raises LineError."""
    if len(text) > MAX_LINE_LENGTH:
        raise LineError(f"it has {len(text):,} characters; at most {MAX_LINE_LENGTH:,} are read")
    try:
        return strict_json.loads(text)
    except RecursionError as error:
        raise LineError("it is nested too deeply") from error
    except ValueError as error:
        raise LineError(f"it is no JSON value: {plain(str(error), 120)}") from error


def integer(value: Any, what: str) -> int:
    """A whole number; raises LineError."""
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    raise LineError(f"{what} is {plain(repr(value))}, not a whole number")


def number(value: Any, what: str) -> float:
    """A number; raises LineError."""
    if isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e300:
        return float(value)
    raise LineError(f"{what} is {plain(repr(value))}, not a number")


def text(value: Any, what: str) -> str:
    """A text; raises LineError."""
    if isinstance(value, str):
        return value
    raise LineError(f"{what} is {plain(repr(value))}, not a text")


def items(value: Any, what: str, *, least: int = 0, most: int = 10**7) -> list[Any]:
    """A list of a length within bounds; raises LineError."""
    if not isinstance(value, list):
        raise LineError(f"{what} is {plain(repr(value))}, not a list")
    if not least <= len(value) <= most:
        raise LineError(f"{what} has {len(value):,} items instead of {f'at least {least}' if len(value) < least else f'at most {most:,}'}")
    return value


def integers(value: Any, what: str) -> tuple[int, ...]:
    """Whole numbers; raises LineError."""
    return tuple(integer(item, f"an item of {what}") for item in items(value, what))


def member(value: Any, key: str, what: str) -> Any:
    """A member of an object; raises LineError."""
    if not isinstance(value, dict):
        raise LineError(f"{what} is {plain(repr(value))}, not an object")
    if key not in value:
        raise LineError(f"{what} has no {key!r}")
    return value[key]
