"""Where two tensors differ, how far a whole model's outputs may, and when agreement proves little."""

from __future__ import annotations

import math
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from workbench.analysis.tolerance import EXACT, Tolerance, tolerance
from workbench.engines.differences import model_tolerance, overflow, tensor_difference, why_it_says_nothing
from workbench.records.comparison import Difference

ALLOWED = Tolerance(relative=1e-3, scaled=1e-3)


def compared(found: Any, expected: Any, allowed: Tolerance = ALLOWED) -> Difference:
    return tensor_difference(np.asarray(found), np.asarray(expected), allowed, place="output 0", against="untuned", seed=7, kernel="k", row=3)


def test_the_place_is_where_the_difference_is_farthest_beyond_what_is_allowed() -> None:
    expected = np.full((3, 4), 100.0, np.float32)
    expected[2, 1] = 0.0
    found = expected.copy()
    found[0, 0] += 0.15  # allowed
    found[2, 1] += 0.14  # allowed a tenth of the largest value's share, and no share of its own
    difference = compared(found, expected)
    assert (difference.index, difference.mismatches, difference.passed) == ((2, 1), 1, False)
    assert (difference.found, difference.expected) == ("0.140000001", "0")
    assert (difference.dtype, compared(np.array([1, 2]), np.array([1, 3])).dtype) == ("float32", "int64")
    assert "output 0 of kernel k (row 3), inputs of seed 7: 1 of 12 elements" in str(difference)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_what_is_no_number_is_the_place(bad: float) -> None:
    expected = np.arange(1.0, 7.0, dtype=np.float32).reshape(2, 3)
    found = expected.copy()
    found[1, 0] = bad
    found[0, 0] = 1000.0
    difference = compared(found, expected)
    assert difference.index == (1, 0)
    assert difference.max_abs is None
    assert difference.mismatches == 2


def test_equal_tensors_pass_whatever_is_in_them() -> None:
    values = np.array([np.nan, np.inf, 0.0, -0.0], np.float32)
    assert compared(values, values).passed
    assert compared(np.zeros((0, 3), np.float32), np.zeros((0, 3), np.float32)).passed
    assert compared(np.float32(2.0), np.float32(2.0)).index == ()


def test_integers_and_truth_values_have_to_be_equal() -> None:
    assert (compared([1, 2, 4], [1, 2, 3]).index, compared([1, 2, 4], [1, 2, 3]).passed) == ((2,), False)
    assert not compared([True, False], [True, True]).passed


def test_half_precision_is_compared_as_numbers() -> None:
    values = np.array([1.0, 2.0], ml_dtypes.bfloat16)
    assert compared(values, values).passed


def test_a_model_may_differ_by_all_its_sums_in_its_least_precise_type() -> None:
    assert model_tolerance(["float32"], 1000) == tolerance("float32", 1000)
    assert model_tolerance(["float32", "float16", "float32"], 10) == tolerance("float16", 10)
    assert model_tolerance([], 10) == EXACT


@pytest.mark.parametrize(
    ("outputs", "why"),
    [
        ([np.array([np.nan, np.inf], np.float32)], "finite"),
        ([np.full(5, 0.2, np.float32)], "the same"),
        ([np.zeros((0, 2), np.float32)], "no output elements"),
        ([np.array([1.0, 2.0], np.float32)], ""),
        ([np.array([np.nan, 2.0], np.float32)], ""),
        ([np.full(5, 0.2, np.float32), np.array([1.0, 2.0], np.float32)], ""),
        ([np.array(3, np.int32)], ""),
    ],
)
def test_agreement_with_outputs_that_say_nothing_proves_little(outputs: list[Any], why: str) -> None:
    found = why_it_says_nothing(outputs)
    assert why in found
    assert bool(why) == bool(found)


@pytest.mark.parametrize(("value", "why"), [(1e30, ""), (math.inf, "some outputs of the untuned model are not finite"), (math.nan, "some outputs")])
def test_values_that_overflow_are_told_from_those_that_do_not(value: float, why: str) -> None:
    found = overflow([np.arange(3), np.array([0.0, value], np.float32)])
    assert why in found
    assert bool(why) == bool(found)
