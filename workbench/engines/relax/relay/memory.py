"""The smallest and the largest tensor that is accepted."""

from __future__ import annotations

from collections.abc import Sequence

from workbench.engines.relax.memory import memory_limit, tensor_bytes
from workbench.errors import ModelError


def check_size(shape: Sequence[int], dtype: str, place: str) -> None:
    """Refuse a tensor that cannot be held, or that holds nothing.

    Raises:
        ModelError: The tensor is larger than `memory_limit`, or has no elements (Relax takes a dimension of 0 in a shape as a code).
    """
    if any(dim < 1 for dim in shape):
        raise ModelError(f"Relay text, {place} has shape {tuple(shape)}, without any element.", "Check the shapes and attributes of this call.")
    check_total(tensor_bytes(shape, dtype), f"{place} has shape {tuple(shape)}, which")


def check_total(size: int, what: str) -> None:
    """Refuse an amount of data that cannot be held.

    Raises:
        ModelError: The amount is larger than `memory_limit`.
    """
    if size > memory_limit():
        raise ModelError(
            f"Relay text, {what} needs {size / 2**30:.1f} GiB; {memory_limit() / 2**30:.1f} GiB are the most that is used on this machine.",
            "Use a smaller model or batch, or a machine with more memory.",
        )
