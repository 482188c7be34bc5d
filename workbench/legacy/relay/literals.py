"""Numbers, strings and attribute values of Relay text."""

from __future__ import annotations

import re

from workbench.legacy.relay.lexer import Cursor
from workbench.legacy.relay.syntax import Attribute, MetaRef, Opaque

_NUMBER = re.compile(r"(-?(?:\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|nan|inf))(.*)")
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = {"n": "\n", "t": "\t", "r": "\r", "0": "\0"}
_SUFFIXES = {"f": "float32", "f16": "float16", "f32": "float32", "f64": "float64", "h": "float16", "bf16": "bfloat16", "u1": "bool", "i1": "bool"}
_MAX_DIGITS = 400
WORDS: dict[str, bool | None] = {"True": True, "False": False, "None": None}


def parse_number(cursor: Cursor) -> tuple[int | float, str]:
    """A number and its dtype: ``1`` is int32, ``1f`` and ``0.5`` are float32, ``1i64`` is int64."""
    token = cursor.token
    if token.kind != "number":
        cursor.fail(f"expected a number, found {cursor.describe()}")
    if len(token.text) > _MAX_DIGITS:
        cursor.fail("a number is too long")
    digits, suffix = _NUMBER.findall(token.text)[0]
    whole = digits.lstrip("-").isdigit()
    dtype = _SUFFIXES.get(suffix) or ({"u": "uint", "i": "int"}[suffix[0]] + suffix[1:] if suffix else ("int32" if whole else "float32"))
    cursor.advance()
    if "float" in dtype:
        return float(digits), dtype
    if not whole:
        cursor.fail(f"{token.text} is not a whole number")
    return int(digits), dtype


def parse_integer(cursor: Cursor) -> int:
    """A whole number."""
    value, _ = parse_number(cursor)
    if not isinstance(value, int):
        cursor.fail(f"expected a whole number before {cursor.describe()}")
    return value


def parse_string(cursor: Cursor) -> str:
    """A string without its quotes and escapes."""
    text = cursor.expect_kind("string").text[1:-1]
    return _ESCAPE.sub(lambda match: _ESCAPED.get(match.group(1), match.group(1)), text)


def parse_meta(cursor: Cursor) -> MetaRef:
    """``meta[relay.Constant][3]``."""
    line, column = cursor.position()
    cursor.expect("meta")
    cursor.expect("[")
    kind = cursor.expect_kind("name").text
    cursor.expect("]")
    cursor.expect("[")
    index = parse_integer(cursor)
    if index < 0:
        cursor.fail(f"meta[{kind}] has the negative index {index}")
    cursor.expect("]")
    return MetaRef(line, column, kind, index)


def parse_attribute(cursor: Cursor) -> Attribute:
    """The value of an attribute; what has no meaning here becomes `Opaque`."""
    token = cursor.token
    if token.kind == "number":
        return parse_number(cursor)[0]
    if token.kind == "string":
        return parse_string(cursor)
    if token.kind == "name" and token.text in WORDS:
        cursor.advance()
        return WORDS[token.text]
    if cursor.at("meta") and cursor.following.text == "[":
        return parse_meta(cursor)
    if cursor.at("[") or cursor.at("("):
        return _parse_list(cursor)
    if cursor.at("{"):
        cursor.skip_balanced()
        return Opaque("{")
    name = cursor.expect_kind("name").text
    if cursor.at("("):
        cursor.skip_balanced()
    return Opaque(name)


def _parse_list(cursor: Cursor) -> tuple[Attribute, ...]:
    closing = "]" if cursor.advance().text == "[" else ")"
    cursor.enter()
    values = []
    while not cursor.at(closing):
        values.append(parse_attribute(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(closing)
    cursor.leave()
    return tuple(values)


def at_attribute(cursor: Cursor) -> bool:
    """Whether ``key=`` comes next."""
    return cursor.token.kind == "name" and cursor.following.text == "=" and cursor.following.kind == "mark"


def parse_attribute_pair(cursor: Cursor) -> tuple[str, Attribute]:
    """``key=value``."""
    key = cursor.expect_kind("name").text
    cursor.expect("=")
    return key, parse_attribute(cursor)
