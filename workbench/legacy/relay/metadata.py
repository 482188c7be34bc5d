"""The ``#[metadata]`` section of Relay text: TVM's JSON graph of objects, of which only constant tensors are kept."""

from __future__ import annotations

import base64
import binascii
import json
import struct
from math import prod
from typing import Any, TypeAlias

from workbench.errors import ModelError
from workbench.legacy.relay.syntax import TensorData

_MAGIC = 0xDD5E40F096B4A13F
_HEADER = struct.Struct("<QQiiiBBH")  # magic, reserved, device type, device id, ndim, dtype code, bits, lanes
_MAX_RANK = 32
_Json: TypeAlias = Any
_DTYPES = {
    **{(0, bits): f"int{bits}" for bits in (8, 16, 32, 64)},
    **{(1, bits): f"uint{bits}" for bits in (8, 16, 32, 64)},
    **{(2, bits): f"float{bits}" for bits in (16, 32, 64)},
    (1, 1): "bool",
    (6, 8): "bool",
}


def parse_metadata(text: str) -> dict[int, TensorData]:
    """The tensors of ``meta[relay.Constant][k]`` by k; one whose form is not understood is left out.

    Args:
        text: What follows ``#[metadata]``; may be empty.

    Raises:
        ModelError: The section is no complete JSON.
    """
    if not text.strip():
        return {}
    try:
        graph = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(
            f"The metadata section of the Relay text is no complete JSON ({error}).",
            "Print the module again, or delete everything from #[metadata] on (random weights then stand in for the constants).",
        ) from error
    found: dict[int, TensorData] = {}
    for index, tensor in enumerate(_constant_tensors(graph)):
        decoded = decode_tensor(tensor) if isinstance(tensor, str) else None
        if decoded is not None:
            found[index] = decoded
    return found


def _constant_tensors(graph: _Json) -> list[object]:
    """The encoded tensor of every ``relay.Constant``, in order; None where there is none."""
    try:
        nodes, tensors = graph["nodes"], graph["b64ndarrays"]
        root = nodes[int(graph["root"])]
        members = nodes[root["data"][root["keys"].index("relay.Constant")]]["data"]
        return [tensors[int(nodes[member]["attrs"]["data"])] for member in members]
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        return []


def decode_tensor(encoded: str) -> TensorData | None:
    """A tensor in TVM's binary form, base64-encoded; None if it is not exactly that."""
    try:
        raw = base64.b64decode(encoded, validate=True)
        magic, _, _, _, rank, code, bits, lanes = _HEADER.unpack_from(raw)
        dtype = _DTYPES.get((code, bits))
        if magic != _MAGIC or not 0 <= rank <= _MAX_RANK or lanes != 1 or dtype is None:
            return None
        shape = struct.unpack_from(f"<{rank}q", raw, _HEADER.size)
        (size,) = struct.unpack_from("<q", raw, _HEADER.size + 8 * rank)
    except (binascii.Error, ValueError, struct.error):
        return None
    data = raw[_HEADER.size + 8 * rank + 8 :]
    if min(shape, default=0) < 0 or size != len(data) or size != prod(shape) * max(bits // 8, 1):
        return None
    return TensorData(shape, dtype, data)
