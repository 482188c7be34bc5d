"""What kernels are run on, and how what they wrote differs from what is right; runs none itself."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from workbench.analysis.tolerance import Tolerance, tolerance
from workbench.records.trial import Check

Array = np.ndarray[Any, Any]

_POISON = 0xA5
_FLOAT_POISON = 0xFF  # NaN in every type that has it


def difference(found: Array, expected: Array, reduction: int = 1, *, allowed: Tolerance | None = None) -> Check:
    """Compare one output; equal infinities and NaN at the same places agree.

    Args:
        found: What a candidate wrote.
        expected: What the untuned kernel wrote.
        reduction: Terms of the kernel's longest sum.
        allowed: How far floating-point values may differ; None lets the dtype and the reduction decide.
    """
    if expected.dtype.kind not in "fV":
        return _exact_difference(found, expected)
    allowed = allowed or tolerance(str(expected.dtype), reduction)
    got, want = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(want)
    scale = float(np.abs(want[finite]).max(initial=0.0))
    with np.errstate(all="ignore"):
        same = (got == want) | (np.isnan(got) & np.isnan(want))
        distance = np.where(same, 0.0, np.abs(got - want))
        right = same | (finite & (distance <= allowed.scaled * scale + allowed.relative * np.abs(want)))
        relative = np.where(same | (want == 0.0), 0.0, distance / np.abs(want))
    largest, largest_relative = float(distance.max(initial=0.0)), float(relative.max(initial=0.0))
    return Check(
        max_abs=largest if math.isfinite(largest) else None,
        max_rel=largest_relative if math.isfinite(largest_relative) else None,
        mismatches=int(np.count_nonzero(~right)),
        elements=expected.size,
        abs_tolerance=allowed.scaled * scale,
        rel_tolerance=allowed.relative,
    )


def _exact_difference(found: Array, expected: Array) -> Check:
    if expected.dtype.kind == "b":  # what was not written may be neither 0 nor 1
        found, expected = found.view(np.uint8), expected.view(np.uint8)
    got, want = found.astype(np.float64), expected.astype(np.float64)
    distance = np.abs(got - want)
    relative = np.where(want == 0.0, 0.0, distance / np.where(want == 0.0, 1.0, np.abs(want)))
    unequal = int(np.count_nonzero(found != expected))
    return Check(float(distance.max(initial=0.0)), float(relative.max(initial=0.0)), unequal, expected.size, 0.0, 0.0)


def worst(checks: list[Check]) -> Check:
    """One check for all outputs of a kernel."""
    absolute = [check.max_abs for check in checks]
    relative = [check.max_rel for check in checks]
    return Check(
        max_abs=None if None in absolute else max((value for value in absolute if value is not None), default=0.0),
        max_rel=None if None in relative else max((value for value in relative if value is not None), default=0.0),
        mismatches=sum(check.mismatches for check in checks),
        elements=sum(check.elements for check in checks),
        abs_tolerance=max((check.abs_tolerance for check in checks), default=0.0),
        rel_tolerance=max((check.rel_tolerance for check in checks), default=0.0),
    )


def random_array(generator: np.random.Generator, shape: list[int], dtype: str) -> Array:
    """Random values; integers of 32 and 64 bits, which may be indices or divisors, are 1."""
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype in ("int8", "uint8", "int16", "uint16"):
        return generator.integers(1, 8, shape).astype(dtype)
    if dtype.startswith(("int", "uint")):
        return np.ones(shape, dtype)
    return generator.standard_normal(shape, dtype=np.float32).astype(_numpy_dtype(dtype))


def poisoned(shape: Sequence[int], dtype: str) -> Array:
    """What an output holds before a kernel runs: NaN, or an integer that few kernels write."""
    wide = _numpy_dtype(dtype)
    byte = _FLOAT_POISON if wide.kind in "fV" else _POISON
    return np.full(math.prod(shape) * wide.itemsize, byte, np.uint8).view(wide).reshape(tuple(shape))


def telling(poison: Array, expected: Array) -> Array:
    """The poison for checks: no NaN where a NaN is expected, unless the untuned kernel itself left the poison there."""
    if expected.dtype.kind not in "fV":
        return poison
    raw = np.dtype(f"u{expected.dtype.itemsize}")
    is_written = poison.view(raw) != expected.view(raw)
    return np.where(np.isnan(expected.astype(np.float64)) & is_written, np.ones_like(poison), poison)


def count_of_no_numbers(outputs: Sequence[Array]) -> int:
    """How many elements are NaN or infinite."""
    return sum(int(np.count_nonzero(~np.isfinite(array.astype(np.float64)))) for array in outputs if array.dtype.kind in "fV")


def is_same(found: Array, expected: Array) -> bool:
    """True if all bits are equal."""
    raw = np.dtype(f"u{expected.dtype.itemsize}")
    return bool(np.array_equal(found.view(raw), expected.view(raw)))


def _numpy_dtype(dtype: str) -> np.dtype[Any]:
    return np.dtype(getattr(ml_dtypes, dtype, dtype))
