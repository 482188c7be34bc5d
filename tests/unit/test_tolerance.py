"""How far two right results may differ: values worked out by hand."""

from __future__ import annotations

import math

import pytest

from workbench.analysis.tolerance import EXACT, Tolerance, tolerance


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "int64", "bool", "handle"])
def test_whole_numbers_have_to_be_equal(dtype: str) -> None:
    assert tolerance(dtype, 4608) == EXACT == Tolerance(0.0, 0.0)


@pytest.mark.parametrize(
    ("dtype", "reduction", "share"),
    [
        ("float32", 0, 20 * 2.0**-23),  # 16 steps and 4 * sqrt(1)
        ("float32", 1, 20 * 2.0**-23),
        ("float32", 4608, (16 + 4 * math.sqrt(4608)) * 2.0**-23),  # 3.4e-5
        ("float64", 1024, 144 * 2.0**-52),
        ("float16", 1, 20 * 2.0**-10),  # 0.0195
        ("float16", 4608, 0.02),  # no more than that, however long the sum
        ("bfloat16", 1, 0.05),
        ("float8_e4m3fn", 1, 4 * 2.0**-3),  # four steps of the type are more than its largest share
        ("float8_e5m2", 1024, 1.0),
        ("float8_e8m0fnu", 16, 0.3),
        ("float4_e2m1fn", 16, 0.3),
        ("float32", 10**12, 0.01),
    ],
)
def test_the_tolerance_grows_with_the_root_of_the_sums_length_up_to_a_limit(dtype: str, reduction: int, share: float) -> None:
    assert tolerance(dtype, reduction) == Tolerance(pytest.approx(share), pytest.approx(share))


def test_a_mistake_of_one_term_in_a_short_sum_is_found() -> None:
    """A convolution of 3x3x64 terms that leaves one out is off by about 1/sqrt(576) of its typical value."""
    assert tolerance("float32", 576).scaled < 1e-4 < 1 / math.sqrt(576)
    assert tolerance("float16", 576).scaled < 1 / math.sqrt(576)
