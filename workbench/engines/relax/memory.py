"""How much data a model may bring, and how large a tensor is."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from workbench.machine import memory_facts

_SHARE = 0.75


def memory_limit() -> int:
    """Three quarters of the memory that is free on this machine, in bytes."""
    return int(memory_facts().available_bytes * _SHARE)


def tensor_bytes(shape: Sequence[int], dtype: str) -> int:
    """The size of a tensor."""
    return prod(shape) * (2 if dtype == "bfloat16" else np.dtype(dtype).itemsize)
