"""Weights in place of a model's own, where those make outputs that prove little: all of one value, or none of them finite."""

from __future__ import annotations

import numpy as np

from workbench.engines.arrays import Array

_FLOATS = ("float", "bfloat")


def random_weight(own: Array, *, seed: int, place: int) -> Array:
    """An array that can stand in for a model's parameter.

    Matrices and filters are normal with a variance of 2 / fan-in, so that values neither grow nor vanish from layer to layer (He, Zhang, Ren, Sun:
    Delving deep into rectifiers, ICCV 2015). What has a number for each channel is between 0.5 and 1.5, since it may be a variance or a divisor.
    Single numbers and what is not floating point (epsilons, axes, indices) stay as they are.

    Args:
        own: The parameter.
        seed: Of the model's weights.
        place: The parameter's among them.
    """
    if not own.dtype.name.startswith(_FLOATS) or own.size <= 1:
        return own
    generator = np.random.default_rng([seed, place])
    is_vector = max(own.shape) == own.size
    values = 0.5 + generator.random(own.shape) if is_vector else generator.standard_normal(own.shape) * np.sqrt(2.0 * own.shape[0] / own.size)
    made: Array = np.asarray(values, own.dtype)
    return made
