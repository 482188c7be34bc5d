"""How the tensors of two models differ, and where; runs nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from workbench.analysis.tolerance import EXACT, Tolerance, tolerance
from workbench.engines.arrays import Array, difference
from workbench.records.comparison import Difference

UNTUNED = "untuned"
ONNXRUNTIME = "onnxruntime"


def tensor_difference(
    found: Array, expected: Array, allowed: Tolerance, *, place: str, against: str, seed: int, kernel: str = "", row: int | None = None
) -> Difference:
    """Compare a tensor with what it should be.

    Args:
        found: The tensor.
        expected: What it should be; of the same shape and dtype.
        allowed: How far floating-point values may differ; integers have to be equal.
        place: As ``what`` in `Difference`.
        against: As in `Difference`.
        seed: As in `Difference`.
        kernel: As in `Difference`.
        row: As in `Difference`.
    """
    check = difference(found, expected, allowed=allowed)
    index = _place(found, expected, allowed)
    return Difference(
        what=place,
        against=against,
        seed=seed,
        kernel=kernel,
        row=row,
        max_abs=check.max_abs,
        max_rel=check.max_rel,
        mismatches=check.mismatches,
        elements=check.elements,
        abs_tolerance=check.abs_tolerance,
        rel_tolerance=check.rel_tolerance,
        index=index,
        found=_text(found, index),
        expected=_text(expected, index),
        dtype=str(expected.dtype),
    )


def model_tolerance(dtypes: Sequence[str], terms: int) -> Tolerance:
    """How far an output of a whole model may differ.

    Its values went through all its sums, and were rounded to the least precise of its types on the way.

    Args:
        dtypes: Of the outputs of all its kernels.
        terms: Terms of the longest sum of each call, added up.
    """
    tolerances = [tolerance(dtype, terms) for dtype in dict.fromkeys(dtypes)]
    return max(tolerances, key=lambda item: item.relative, default=EXACT)


def _place(found: Array, expected: Array, allowed: Tolerance) -> tuple[int, ...]:
    """Where the difference is farthest beyond what is allowed there."""
    if expected.size == 0:
        return ()
    got, want = found.astype(np.float64), expected.astype(np.float64)
    finite = np.isfinite(want)
    scale = float(np.abs(want[finite]).max(initial=0.0))
    with np.errstate(all="ignore"):
        distance = np.abs(got - want)
        beyond = distance if expected.dtype.kind not in "fV" else distance - allowed.relative * np.abs(want) - allowed.scaled * scale
    same = (got == want) | (np.isnan(got) & np.isnan(want))
    beyond = np.where(same, -np.inf, np.where(np.isnan(beyond), np.inf, beyond))
    return tuple(int(place) for place in np.unravel_index(int(np.argmax(beyond)), expected.shape))


def _text(array: Array, index: tuple[int, ...]) -> str:
    if array.size == 0:
        return ""
    value: Any = array[index] if array.shape else array[()]
    return f"{float(value):.9g}" if array.dtype.kind in "fV" else str(value)


def output_name(place: int, *, random_weights: bool) -> str:
    """What an output of the model is called in a difference."""
    return f"output {place}{' with random weights' if random_weights else ''}"


def overflow(outputs: Sequence[Array]) -> str:
    """Why random weights do not suit a model: where values overflow, the order of a sum decides what is finite; empty if they suit it."""
    floats = [array.astype(np.float64) for array in outputs if array.dtype.kind in "fV"]
    return "" if all(np.isfinite(array).all() for array in floats) else "some outputs of the untuned model are not finite"


def why_it_says_nothing(outputs: Sequence[Array]) -> str:
    """Why it proves little that other outputs agree with these; empty if it does prove something."""
    if all(array.size == 0 for array in outputs):
        return "the model has no output elements"
    floats = [array.astype(np.float64) for array in outputs if array.dtype.kind in "fV"]
    if floats and not any(np.isfinite(array).any() for array in floats):
        return "no output of the untuned model is finite"
    if all(array.size == 1 or (array == array.flat[0]).all() for array in outputs if array.size) and any(array.size > 1 for array in outputs):
        return "every element of an output of the untuned model is the same"
    return ""
