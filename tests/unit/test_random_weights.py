"""Weights that stand in for a model's own: varied, of a moderate size, the same for the same seed, and only where numbers may be changed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from workbench.engines.random_weights import random_weight

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", ml_dtypes.bfloat16])
def test_a_filter_is_varied_and_keeps_the_size_of_what_passes_it(dtype: Any) -> None:
    own = np.full((64, 32, 3, 3), 0.02, dtype)
    made = random_weight(own, seed=0, place=0)
    assert (made.shape, made.dtype) == (own.shape, own.dtype)
    assert float(made.astype(np.float64).std()) == pytest.approx(np.sqrt(2.0 / (32 * 3 * 3)), rel=0.05)


@pytest.mark.parametrize("shape", [(64,), (1, 64, 1, 1)])
def test_a_number_for_each_channel_is_positive_as_a_variance_and_a_divisor_have_to_be(shape: tuple[int, ...]) -> None:
    made = random_weight(np.zeros(shape, np.float32), seed=0, place=0)
    assert (made.shape, made.dtype) == (shape, np.float32)
    assert 0.5 <= made.min() < 0.6
    assert 1.4 < made.max() < 1.5


@pytest.mark.parametrize(
    "own",
    [
        np.arange(6).reshape(2, 3),
        np.array([[True], [False]]),
        np.array(1e-5, np.float32),
        np.array([1e-5], np.float32),
        np.ones((2, 3), ml_dtypes.int4),
    ],
)
def test_indices_flags_and_single_numbers_stay(own: Array) -> None:
    assert random_weight(own, seed=0, place=0) is own


def test_the_same_seed_and_place_give_the_same_weights_and_others_give_others() -> None:
    own = np.zeros((4, 5), np.float32)
    first, again, of_seed, of_place = (random_weight(own, seed=seed, place=place) for seed, place in ((1, 2), (1, 2), (2, 2), (1, 3)))
    np.testing.assert_array_equal(first, again)
    assert (first != of_seed).all()
    assert (first != of_place).all()
