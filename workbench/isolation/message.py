"""What passes between a process and its jobs: JSON and raw bytes in frames, checked as they are read; never a pickle. Owns no socket."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SETUP, REQUEST, RESULT, ERROR = "setup", "request", "result", "error"

_PREFIX = struct.Struct("!4sIQ")
_MAGIC = b"wbi1"
_HEAD_LIMIT_BYTES = 1 << 28
_LIMIT_BYTES = 1 << 30
_LEAST_READ_BYTES = 1 << 16
_MOST_READ_BYTES = 1 << 22


class FrameError(ValueError):
    """What came is no frame, or a frame would be too large."""


@dataclass(frozen=True)
class Message:
    """A request or an answer.

    Args:
        values: What `json` can write; tuples arrive as lists.
        blobs: Raw bytes, not copied into the JSON.
    """

    values: Mapping[str, Any]
    blobs: tuple[bytes, ...] = ()


@dataclass(frozen=True)
class Frame:
    """A message on its way.

    Args:
        kind: `SETUP`, `REQUEST`, `RESULT` or `ERROR`.
        number: Of the request; its answer has the same.
        message: What is sent.
        took_s: How long the job took, in an answer.
    """

    kind: str
    number: int
    message: Message = field(default_factory=lambda: Message({}))
    took_s: float = 0.0

    def encode(self) -> list[bytes]:
        """The frame in pieces to be sent one after the other.

        Raises:
            FrameError: It would be too large.
            TypeError: A value is nothing that JSON knows, or a blob is not bytes.
            ValueError: The same.
        """
        if not all(isinstance(blob, bytes) for blob in self.message.blobs):
            raise TypeError("the blobs of a message must be bytes")
        sizes = [len(blob) for blob in self.message.blobs]
        content = {"kind": self.kind, "number": self.number, "took_s": self.took_s, "values": dict(self.message.values), "blobs": sizes}
        head = json.dumps(content).encode("ascii")
        if len(head) > _HEAD_LIMIT_BYTES or len(head) + sum(sizes) > _LIMIT_BYTES:
            raise FrameError(f"a message of {len(head) + sum(sizes)} bytes is too large")
        return [_PREFIX.pack(_MAGIC, len(head), sum(sizes)) + head, *filter(None, self.message.blobs)]


class FrameReader:
    """Puts frames together from what a stream delivers."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._need = _PREFIX.size

    @property
    def wanted(self) -> int:
        """How many bytes to read next."""
        return max(_LEAST_READ_BYTES, min(self._need - len(self._buffer), _MOST_READ_BYTES))

    def feed(self, chunk: bytes) -> Frame | None:
        """Take what came, if anything; return the next frame as soon as it is whole. What follows it is kept.

        Raises:
            FrameError: It is no frame, or one that is too large.
        """
        self._buffer += chunk
        if len(self._buffer) < _PREFIX.size:
            return None
        magic, head_size, body_size = _PREFIX.unpack_from(self._buffer)
        if magic != _MAGIC or head_size > _HEAD_LIMIT_BYTES or head_size + body_size > _LIMIT_BYTES:
            raise FrameError("no frame, or one that is too large")
        self._need = _PREFIX.size + head_size + body_size
        if len(self._buffer) < self._need:
            return None
        whole, self._buffer, self._need = self._buffer, self._buffer[self._need :], _PREFIX.size
        body_at = _PREFIX.size + head_size
        return _decode(bytes(whole[_PREFIX.size : body_at]), memoryview(whole)[body_at : body_at + body_size])


def _decode(head: bytes, body: memoryview) -> Frame:
    try:
        content = json.loads(head)
        kind, number, took_s, values, sizes = (content[name] for name in ("kind", "number", "took_s", "values", "blobs"))
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise FrameError("a frame without a proper head") from error
    proper = type(kind) is str and type(number) is int and type(took_s) is float and type(values) is dict and type(sizes) is list
    if not (proper and all(type(size) is int and size >= 0 for size in sizes) and sum(sizes) == len(body)):
        raise FrameError("a frame with an improper head")
    blobs, at = [], 0
    for size in sizes:
        blobs.append(bytes(body[at : at + size]))
        at += size
    return Frame(kind, number, Message(values, tuple(blobs)), took_s)
