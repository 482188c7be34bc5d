"""Messages with arrays in them: JSON for the words, binary buffers for the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

_SMALL = 8
"""Arrays up to this length travel as JSON: a buffer of their own would be larger."""


@dataclass(frozen=True)
class Message:
    """What goes to the page.

    Attributes:
        kind: What it is.
        content: JSON-ready; ``{"buffer": n}`` stands for an array of 32-bit floats.
        buffers: Those arrays.
    """

    kind: str
    content: dict[str, Any]
    buffers: tuple[bytes, ...] = ()


def message(kind: str, content: Mapping[str, Any]) -> Message:
    """A message whose NumPy arrays are taken out into buffers."""
    buffers: list[bytes] = []
    return Message(kind, {str(name): _packed(value, buffers) for name, value in content.items()}, tuple(buffers))


def _packed(value: Any, buffers: list[bytes]) -> Any:
    if isinstance(value, np.ndarray):
        if len(value) <= _SMALL:
            return [float(np.float32(number)) for number in value]
        buffers.append(value.astype("<f4").tobytes())
        return {"buffer": len(buffers) - 1}
    if isinstance(value, Mapping):
        return {str(name): _packed(item, buffers) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [_packed(item, buffers) for item in value]
    return value
