"""JSON as stock TVM reads and writes it: parsing what anybody may have written, and canonical text that TVM's own parser accepts."""

from __future__ import annotations

import json
import re
import sys
from typing import Any, NoReturn

from workbench.escaping import plain

_DEEPEST = 64  # real traces nest 6 deep; TVM's parser overflows its stack at some thousands
_MOST_DIGITS = 400
_INTEGERS = range(-(2**63), 2**63)  # a larger one becomes a float in TVM
_UNREADABLE_ESCAPE = re.compile(rb"(?<!\\)(?:\\\\)*\\u")  # TVM's parser has no \u


class FormatError(ValueError):
    """A line is not what the format wants; the message is safe to show."""


def parse(raw: bytes) -> Any:
    """The JSON value of one line.

    Raises:
        FormatError: It is empty, a comment, not UTF-8, not JSON, nested too deeply, or holds a number that TVM cannot read.
    """
    if not raw.strip():
        raise FormatError("the line is empty")
    if b"\0" in raw:
        raise FormatError("it holds NUL bytes")
    try:
        text = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FormatError(f"it is not UTF-8: byte {error.start + 1} is {raw[error.start]:#04x}") from error
    if text.lstrip().startswith("#"):
        raise FormatError("it is a comment, which JSON does not have")
    try:
        value = json.loads(text, object_pairs_hook=_unrepeated, parse_constant=_refuse, parse_float=_float, parse_int=_integer)
    except RecursionError as error:
        raise FormatError("it is nested too deeply") from error
    except json.JSONDecodeError as error:
        raise FormatError(f"it is not valid JSON: {plain(error.msg, 80)} at column {error.colno}") from error
    _check_depth(value, _DEEPEST)
    return value


def canonical(value: Any, *, sort_keys: bool = False) -> str:
    """The JSON text of a value, on one line and readable by TVM.

    Raises:
        FormatError: A text in it holds a control character or half of a surrogate pair, or the value is no JSON.
    """
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=sort_keys)
        raw = text.encode("utf-8")
    except (RecursionError, TypeError, ValueError) as error:
        raise FormatError(f"it cannot be written as JSON: {plain(str(error), 80)}") from error
    if has_unreadable_escape(raw):
        raise FormatError("a text in it holds a control character")
    return text


def has_unreadable_escape(raw: bytes) -> bool:
    r"""Whether a text is written with ``\u``, which is JSON but not for TVM."""
    return b"\\u" in raw and _UNREADABLE_ESCAPE.search(raw) is not None


def without_truth_values(value: Any) -> Any:
    """The value with 1 and 0 for true and false, as stock TVM writes traces: else equal traces could be different text."""
    if isinstance(value, list | tuple):
        return [without_truth_values(item) for item in value]
    if isinstance(value, dict):
        return {name: without_truth_values(item) for name, item in value.items()}
    return int(value) if isinstance(value, bool) else value


def _check_depth(value: Any, deepest: int) -> None:
    if isinstance(value, list | dict):
        if not deepest:
            raise FormatError("it is nested too deeply")
        for item in value if isinstance(value, list) else value.values():
            if isinstance(item, list | dict):
                _check_depth(item, deepest - 1)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) != len(pairs):
        raise FormatError("a key stands twice in one object")
    return values


def _refuse(name: str) -> NoReturn:
    raise FormatError(f"{name} is not a JSON value")


def _integer(digits: str) -> int:
    if len(digits) > 20 or int(digits) not in _INTEGERS:
        raise FormatError("a whole number in it has more than 64 bits")
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits) if len(digits) <= _MOST_DIGITS else 0.0
    if len(digits) > _MOST_DIGITS or abs(value) > sys.float_info.max or 0 < abs(value) < sys.float_info.min:
        raise FormatError("a number in it is too long, too large or too small")
    return value
