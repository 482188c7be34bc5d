"""What passes between the worker and its old Python: JSON and raw bytes in frames, checked as they are read; never a pickle. Both sides use it."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any, Callable, Union

import numpy as np

_PREFIX = struct.Struct("!4sI")
_MAGIC = b"wbr1"
HEAD_LIMIT_BYTES = 1 << 28
BLOB_LIMIT_BYTES = 1 << 33
_DTYPES = frozenset({"bool", "float16", "float32", "float64", *(f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64))})
_CHUNK_BYTES = 1 << 20

Blob = Union[bytes, "np.ndarray[Any, Any]"]


class FrameError(ValueError):
    """What came is no frame, or a frame would be too large."""


class StreamEnd(EOFError):  # noqa: N818 - says what it is
    """The other side has closed the stream between two frames."""


@dataclass(frozen=True)
class Frame:
    """A message: what JSON can say, and raw bytes or arrays beside it."""

    values: dict[str, Any]
    blobs: tuple[Blob, ...] = ()


def encode(frame: Frame) -> list[bytes]:
    """The frame in pieces to be sent one after the other.

    Raises:
        FrameError: It would be too large, or has an array of a type that is not sent.
        TypeError: A value is nothing that JSON knows, or a blob is neither bytes nor an array.
    """
    described, bodies = [], []
    for blob in frame.blobs:
        body, entry = _describe(blob)
        described.append(entry)
        bodies.append(body)
    head = json.dumps({"values": frame.values, "blobs": described}).encode("ascii")
    if len(head) > HEAD_LIMIT_BYTES or sum(map(len, bodies)) > BLOB_LIMIT_BYTES:
        raise FrameError(f"a message of {len(head) + sum(map(len, bodies))} bytes is too large")
    return [_PREFIX.pack(_MAGIC, len(head)) + head, *filter(None, bodies)]


def read(receive: Callable[[int], bytes]) -> Frame:
    """The next frame of a stream.

    Args:
        receive: Gives at most so many of the next bytes, and none at the end of the stream.

    Raises:
        StreamEnd: There is no further frame.
        FrameError: What comes is none, or one that is too large.
    """
    prefix = _exactly(receive, _PREFIX.size, at_start=True)
    magic, size = _PREFIX.unpack(prefix)
    if magic != _MAGIC or size > HEAD_LIMIT_BYTES:
        raise FrameError("something that is no frame, or one that is too large")
    try:
        head = json.loads(_exactly(receive, size))
        values, described = head["values"], head["blobs"]
        sizes = [entry["bytes"] for entry in described]
    except (ValueError, RecursionError, TypeError, KeyError) as error:
        raise FrameError("a frame without a proper head") from error
    if type(values) is not dict or not all(type(size) is int and size >= 0 for size in sizes) or sum(sizes) > BLOB_LIMIT_BYTES:
        raise FrameError("a frame with an improper head")
    return Frame(values, tuple(_restore(_exactly(receive, entry["bytes"]), entry) for entry in described))


def _describe(blob: Any) -> tuple[bytes, dict[str, Any]]:
    if isinstance(blob, bytes):
        return blob, {"bytes": len(blob)}
    if not isinstance(blob, np.ndarray):
        raise TypeError("the blobs of a message must be bytes or arrays")
    if str(blob.dtype) not in _DTYPES:
        raise FrameError(f"an array of {blob.dtype} cannot be sent")
    body = np.ascontiguousarray(blob).tobytes()
    return body, {"bytes": len(body), "dtype": str(blob.dtype), "shape": list(blob.shape)}


def _restore(body: bytes, entry: dict[str, Any]) -> Blob:
    if "dtype" not in entry:
        return body
    dtype, shape = entry["dtype"], entry.get("shape")
    if dtype not in _DTYPES or type(shape) is not list or not all(type(size) is int and size >= 0 for size in shape):
        raise FrameError("a frame with an array that is none")
    try:
        return np.frombuffer(body, dtype).reshape(shape)
    except ValueError as error:
        raise FrameError("a frame with an array of another size") from error


def _exactly(receive: Callable[[int], bytes], count: int, *, at_start: bool = False) -> bytes:
    received = bytearray()
    while len(received) < count:
        chunk = receive(min(count - len(received), _CHUNK_BYTES))
        if not chunk:
            raise StreamEnd("the stream has ended") if at_start and not received else FrameError("a frame that breaks off")
        received += chunk
    return bytes(received)
