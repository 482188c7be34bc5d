"""Random inputs for a lowered model: the same ones for the same seed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import tvm

from workbench.engines.random_weights import random_weight
from workbench.engines.relax.lowering import Lowered
from workbench.errors import ModelError
from workbench.escaping import plain

_UNDER_A_BYTE = re.compile(r"(u?int|float)[1-7](?!\d)")  # packed in TVM's memory, which takes no NumPy array of them


def random_inputs(lowered: Lowered, *, seed: int) -> list[np.ndarray[Any, Any]]:
    """One array per input of ``main``: normal for floating point, random for booleans.

    Integers are all 1: neither a division by zero nor an index beyond a table of two rows.

    Raises:
        ModelError: An input's type has less than a byte for an element; the message names it.
    """
    generator = np.random.default_rng(seed)
    parameters = list(lowered.module["main"].params)[: lowered.input_count]
    for parameter in parameters:
        if _UNDER_A_BYTE.match(str(parameter.ty.dtype)):
            raise ModelError(
                f"Input {plain(str(parameter.name))} is of type {parameter.ty.dtype}, of which no input data can be made.",
                "Export the model with an input of at least 8 bits for each element.",
            )
    return [_random(generator, parameter.ty) for parameter in parameters]


def check_inputs(lowered: Lowered, inputs: Sequence[Any]) -> None:
    """Refuse arrays that are no inputs of the model.

    Raises:
        ModelError: Their number, a shape or a dtype does not fit; the message says which.
    """
    expected = list(lowered.module["main"].params)[: lowered.input_count]
    if len(inputs) != len(expected):
        raise ModelError(f"The model has {len(expected)} inputs, not {len(inputs)}.", "Give one array for each.")
    for parameter, array in zip(expected, inputs, strict=True):
        wanted = (tuple(int(size) for size in parameter.ty.shape.values), str(parameter.ty.dtype))
        found = (tuple(np.shape(array)), str(getattr(array, "dtype", type(array).__name__)))
        if found != wanted:
            raise ModelError(f"Input {plain(str(parameter.name))} is {wanted[1]} {wanted[0]}, not {found[1]} {found[0]}.", "Give such an array.")


def random_parameters(lowered: Lowered, *, seed: int) -> list[Any]:
    """Tensors in place of the program's parameters, as `workbench.engines.random_weights` makes them."""
    return [tvm.runtime.tensor(random_weight(parameter.numpy(), seed=seed, place=place)) for place, parameter in enumerate(lowered.parameters)]


def on_device(lowered: Lowered, device: tvm.runtime.Device, *, seed: int, weights: Sequence[Any] | None = None) -> list[Any]:
    """Arguments of ``main``: random inputs, then the parameters, or other weights in place of them, on the device."""
    inputs = [tvm.runtime.tensor(array, device) for array in random_inputs(lowered, seed=seed)]
    parameters = lowered.parameters if weights is None else weights
    if device.dlpack_device_type() == tvm.cpu().dlpack_device_type():
        return [*inputs, *parameters]
    return [*inputs, *(tvm.runtime.tensor(parameter.numpy(), device) for parameter in parameters)]


def _random(generator: np.random.Generator, tensor: Any) -> np.ndarray[Any, Any]:
    shape = [int(size) for size in tensor.shape.values]
    dtype = str(tensor.dtype)
    if dtype == "bool":
        return generator.integers(0, 2, shape).astype(np.bool_)
    if dtype.startswith(("int", "uint")):
        return np.ones(shape, dtype)
    return generator.standard_normal(shape, dtype=np.float32).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
