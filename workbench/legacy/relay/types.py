"""Types in Relay text: annotations, and the comments that carry inferred types."""

from __future__ import annotations

import re

from workbench.errors import ModelError
from workbench.legacy.relay.lexer import Cursor, Source
from workbench.legacy.relay.literals import parse_integer
from workbench.legacy.relay.syntax import FunctionType, NamedType, TensorType, TupleType, Type

_DTYPE = re.compile(r"float(?:16|32|64)|bfloat16|u?int(?:1|8|16|32|64)|bool")
_BOOLEANS = {"uint1", "int1"}


def is_dtype(name: str) -> bool:
    """Whether a name is that of an element type that is supported."""
    return _DTYPE.fullmatch(name) is not None


def parse_type(cursor: Cursor) -> Type:
    """A type.

    Raises:
        ModelError: The next tokens are no type.
    """
    cursor.enter()
    result = _parse_type(cursor)
    cursor.leave()
    return result


def parse_type_comment(text: str) -> Type | None:
    """The type that a ``/* ty=... */`` comment names, or None for one that is not understood: a comment is no part of the program."""
    try:
        cursor = Cursor(Source(text))
        result = parse_type(cursor)
    except ModelError:
        return None
    return result if cursor.token.kind == "end" else None


def _parse_type(cursor: Cursor) -> Type:
    if cursor.at("("):
        return _parse_tuple(cursor)
    if cursor.at("fn"):
        return _parse_function(cursor)
    name = cursor.expect_kind("name").text
    if name == "Tensor":
        return _parse_tensor(cursor)
    if is_dtype(name):
        return TensorType((), _normalise(name))
    if cursor.at("[") or cursor.at("("):
        cursor.skip_balanced()
    return NamedType(name)


def _parse_tensor(cursor: Cursor) -> TensorType:
    cursor.expect("[")
    cursor.expect("(")
    shape: list[int | None] = []
    while not cursor.at(")"):
        shape.append(_parse_dimension(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    cursor.expect(",")
    name = cursor.token.text
    if not is_dtype(name):
        cursor.fail(f"expected an element type such as float32, found {cursor.describe()}")
    cursor.advance()
    cursor.expect("]")
    return TensorType(tuple(shape), _normalise(name))


def _parse_dimension(cursor: Cursor) -> int | None:
    if cursor.token.kind == "number":
        size = parse_integer(cursor)
        if size < 0:
            cursor.fail(f"a dimension is negative before {cursor.describe()}")
        return size
    if cursor.token.kind in ("name", "variable"):
        cursor.advance()
        return None
    cursor.expect("?")
    return None


def _parse_tuple(cursor: Cursor) -> TupleType:
    return TupleType(_parse_list(cursor))


def _parse_list(cursor: Cursor) -> tuple[Type, ...]:
    cursor.expect("(")
    fields = []
    while not cursor.at(")"):
        fields.append(parse_type(cursor))
        if not cursor.accept(","):
            break
    cursor.expect(")")
    return tuple(fields)


def _parse_function(cursor: Cursor) -> FunctionType:
    cursor.expect("fn")
    params = _parse_list(cursor)
    cursor.expect("->")
    return FunctionType(params, parse_type(cursor))


def _normalise(dtype: str) -> str:
    return "bool" if dtype in _BOOLEANS else dtype
