"""How many bytes a tensor takes, from its shape and the name of its dtype."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from workbench.records.profile import TensorShape

_BITS = re.compile(r"(?:u?int|b?float)(\d+)(?:_\w+)?(?:x(\d+))?")
_NAMED = {"bool": 8, "handle": 64}


def dtype_bits(dtype: str) -> int | None:
    """Bits of one element; None for a dtype that is not known."""
    match = _BITS.fullmatch(dtype)
    if match is None:
        return _NAMED.get(dtype)
    return int(match[1]) * int(match[2] or 1)


def tensors_bytes(tensors: Iterable[TensorShape]) -> int | None:
    """Bytes of all tensors together; None if one has a dynamic size or an unknown dtype."""
    total = 0
    for tensor in tensors:
        bits = dtype_bits(tensor.dtype)
        if bits is None or any(size < 0 for size in tensor.shape):
            return None
        total += -(-math.prod(tensor.shape) * bits // 8)
    return total
