"""Random inputs for a lowered model: the same ones for the same seed."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import tvm

from workbench.engines.relax.lowering import Lowered

_SMALL_INTEGERS = 2


def random_inputs(lowered: Lowered, *, seed: int) -> list[np.ndarray[Any, Any]]:
    """One array per input of ``main``: normal for floating point; 0 or 1 for integers, which may be indices into small tables."""
    generator = np.random.default_rng(seed)
    return [_random(generator, parameter.ty) for parameter in list(lowered.module["main"].params)[: lowered.input_count]]


def on_device(lowered: Lowered, device: tvm.runtime.Device, *, seed: int) -> list[Any]:
    """Arguments of ``main``: random inputs, then the parameters, on the device."""
    inputs = [tvm.runtime.tensor(array, device) for array in random_inputs(lowered, seed=seed)]
    if device.dlpack_device_type() == tvm.cpu().dlpack_device_type():
        return [*inputs, *lowered.parameters]
    return [*inputs, *(tvm.runtime.tensor(parameter.numpy(), device) for parameter in lowered.parameters)]


def _random(generator: np.random.Generator, tensor: Any) -> np.ndarray[Any, Any]:
    shape = [int(size) for size in tensor.shape.values]
    dtype = str(tensor.dtype)
    if dtype == "bool":
        return generator.integers(0, _SMALL_INTEGERS, shape).astype(np.bool_)
    if dtype.startswith(("int", "uint")):
        return generator.integers(0, _SMALL_INTEGERS, shape).astype(dtype)
    return generator.standard_normal(shape, dtype=np.float32).astype(np.dtype(getattr(ml_dtypes, dtype, dtype)))
