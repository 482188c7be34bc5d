"""How far two right results of one kernel may differ, since a schedule may add up in another order."""

from __future__ import annotations

import math
from dataclasses import dataclass

_EPSILONS = {
    "float64": 2.0**-52,
    "float32": 2.0**-23,
    "float16": 2.0**-10,
    "bfloat16": 2.0**-7,
    "float8_e4m3fn": 2.0**-3,
    "float8_e5m2": 2.0**-2,
}
_LARGEST = {"float16": 0.02, "bfloat16": 0.05}
_LARGEST_OF_OTHERS = 0.01
_STEPS = 16


@dataclass(frozen=True)
class Tolerance:
    """Largest difference that is no mistake.

    Attributes:
        relative: Share of the reference's value.
        scaled: Share of the largest reference value of the tensor, for sums that cancel out to almost nothing.
    """

    relative: float
    scaled: float


EXACT = Tolerance(0.0, 0.0)


def tolerance(dtype: str, reduction: int) -> Tolerance:
    """The tolerance for outputs of a dtype.

    The rounding errors of a sum of n terms in any order grow like sqrt(n) units in the last place where they are independent (Higham,
    Accuracy and Stability of Numerical Algorithms, chapter 4); on top come a fixed number of steps for the operators fused around it.

    Args:
        dtype: Of the output; integers have to be equal.
        reduction: Terms of the kernel's longest sum.
    """
    epsilon = _EPSILONS.get(dtype)
    if epsilon is None:
        return Tolerance(0.3, 0.3) if dtype.startswith(("float8", "float6", "float4")) else EXACT
    share = min(epsilon * (_STEPS + 4.0 * math.sqrt(max(reduction, 1))), max(_LARGEST.get(dtype, _LARGEST_OF_OTHERS), 4.0 * epsilon))
    return Tolerance(relative=share, scaled=share)
