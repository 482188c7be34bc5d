"""Reads records back from JSON values that anybody may have written; a value of another type than the record declares is refused.

A record says what it holds by its annotations, and nothing else is needed to check it: texts, numbers, truth values, ``None``, tuples,
mappings from texts, other records, and ``Any`` for plain JSON.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

Record = TypeVar("Record")
_Reader = Callable[[Any, str], Any]

NOT_STORED = types.MappingProxyType({"stored": False})
"""Metadata of a field that is never taken from stored values."""

_LARGEST_INTEGER = 10**300  # beyond it, arithmetic with floats fails; no count of anything is that large


class DecodeError(ValueError):
    """A value has not the type that its record declares; the message says where."""


def decode(record: type[Record], values: Any) -> Record:
    """A record from its JSON values; a field that is missing takes its default.

    Raises:
        DecodeError: A field is missing or of another type, or a number is not finite.
    """
    result: Record = _record_reader(typing.cast("Any", record))(values, record.__name__)
    return result


@functools.cache
def _record_reader(record: Any) -> _Reader:
    hints = typing.get_type_hints(record)
    stored = [field for field in dataclasses.fields(record) if field.init and field.metadata.get("stored", True)]
    readers = tuple((field.name, _reader(hints[field.name]), _is_required(field)) for field in stored)

    def read(values: Any, where: str) -> Any:
        if not isinstance(values, Mapping):
            raise _wrong(values, where, "an object")
        arguments = {}
        for name, reader, required in readers:
            if name in values:
                arguments[name] = reader(values[name], f"{where}.{name}")
            elif required:
                raise DecodeError(f"{where}.{name} is missing")
        return record(**arguments)

    return read


def _is_required(field: dataclasses.Field[Any]) -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def _reader(annotation: Any) -> _Reader:
    """What reads values of one annotation."""
    simple = {str: _text, bool: _truth, int: _integer, float: _number, types.NoneType: _nothing, Any: _anything}
    if annotation in simple:
        return simple[annotation]
    if dataclasses.is_dataclass(annotation):
        return _record_reader(typing.cast("Any", annotation))
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (types.UnionType, typing.Union) and len(arguments) == 2 and types.NoneType in arguments:
        inner = _reader(next(argument for argument in arguments if argument is not types.NoneType))
        return lambda value, where: None if value is None else inner(value, where)
    if origin is tuple and len(arguments) == 2 and arguments[1] is Ellipsis:
        return functools.partial(_items, _reader(arguments[0]))
    if origin in (dict, Mapping) and arguments[0] is str:
        return functools.partial(_entries, _reader(arguments[1]))
    raise TypeError(f"{annotation} cannot be read from JSON")


def _items(item: _Reader, values: Any, where: str) -> tuple[Any, ...]:
    if not isinstance(values, list | tuple):
        raise _wrong(values, where, "a list")
    return tuple(item(value, where) for value in values)


def _entries(item: _Reader, values: Any, where: str) -> dict[str, Any]:
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise _wrong(values, where, "an object")
    return {name: item(value, where) for name, value in values.items()}


def _text(value: Any, where: str) -> str:
    if not isinstance(value, str):
        raise _wrong(value, where, "a text")
    return value


def _truth(value: Any, where: str) -> bool:
    if not isinstance(value, bool):
        raise _wrong(value, where, "true or false")
    return value


def _integer(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) > _LARGEST_INTEGER:
        raise _wrong(value, where, "a whole number")
    return value


def _number(value: Any, where: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool) or abs(value) > _LARGEST_INTEGER or not math.isfinite(value):
        raise _wrong(value, where, "a finite number")
    return value


def _nothing(value: Any, where: str) -> None:
    if value is not None:
        raise _wrong(value, where, "null")


def _anything(value: Any, where: str) -> Any:
    del where
    return value


def _wrong(value: Any, where: str, wanted: str) -> DecodeError:
    return DecodeError(f"{where} is {type(value).__name__} instead of {wanted}")
