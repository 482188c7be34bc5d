"""Values of weights: those that the text has, and random ones, sensibly scaled, for the rest."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod

import numpy as np
from tvm import relax

from workbench.engines.relax.relay.layouts import Layout
from workbench.engines.relax.relay.memory import check_size
from workbench.engines.relax.relay.operation import Array, constant_tensor
from workbench.legacy.relay import syntax
from workbench.legacy.relay.roles import Use

_INDEX_POSITIONS = {("take", 1), ("gather", 1), ("gather_nd", 1), ("one_hot", 0)}
_POSITIVE_POSITIONS = {("nn.batch_norm", 4), ("divide", 1), ("power", 0), ("sqrt", 0), ("rsqrt", 0), ("log", 0), ("floor_divide", 1), ("mod", 1)}
_SCALE_POSITIONS = {("nn.batch_norm", 1), ("nn.layer_norm", 1), ("nn.group_norm", 1), ("nn.instance_norm", 1)}
_PRODUCTS = re.compile(r"nn\.(?:contrib_)?(?:depthwise_)?(?:conv\d?d|dense|matmul|batch_matmul)")
_VARIANCE_NAME = re.compile(r".*(?:var|variance)(?:[_.:]?\d+)*", re.IGNORECASE)
_SMALL = 0.1


def constant_of(data: syntax.TensorData) -> relax.Expr:
    """A constant whose value the text has."""
    return constant_tensor(np.frombuffer(data.data, np.dtype(data.dtype)).reshape(data.shape))


def random_constant(key: str | int, tensor: syntax.TensorType, shape: tuple[int, ...], *, uses: Sequence[Use], seed: int, place: str) -> relax.Expr:
    """A random constant, scaled for what it is used for.

    Args:
        key: The parameter's name, or the index of the metadata constant.
        tensor: Its type.
        shape: Its shape, every dimension known.
        uses: Where it is used.
        seed: Seed of the model; with the key it determines the value.
        place: Where it stands, for the message if it is too large.

    Raises:
        ModelError: It is larger than this machine may hold.
    """
    check_size(shape, tensor.dtype, place)
    stream = [0, key] if isinstance(key, int) else [1, *key.encode()]
    positions = {(use.operator, use.position) for use in uses}
    if isinstance(key, str) and _VARIANCE_NAME.fullmatch(key):
        positions.add(("nn.batch_norm", 4))
    if "float" not in tensor.dtype:
        value = 0 if positions & _INDEX_POSITIONS else 1
        return constant_tensor(np.full(shape, value, tensor.dtype))
    values = _random_floats(shape, uses, positions, np.random.default_rng([seed, *stream]))
    if tensor.dtype == "bfloat16":
        return relax.const(values, "bfloat16")
    return constant_tensor(values.astype(tensor.dtype))


def _random_floats(shape: tuple[int, ...], uses: Sequence[Use], positions: set[tuple[str, int]], random: np.random.Generator) -> Array:
    if positions & _POSITIVE_POSITIONS:
        return random.uniform(0.5, 1.5, shape).astype("float32")
    normal = random.standard_normal(shape, "float32")
    if positions & _SCALE_POSITIONS:
        return 1 + np.float32(_SMALL) * normal
    product = next((use for use in uses if use.position == 1 and _PRODUCTS.match(use.operator)), None)
    if product is not None:
        return normal / np.float32(np.sqrt(_fan_in(shape, product.call)))
    return np.float32(_SMALL) * normal


def _fan_in(shape: tuple[int, ...], call: syntax.Call) -> float:
    """How many products each output element sums up: all elements of the weight, divided by the outputs."""
    outputs = call.attributes.get("channels") or call.attributes.get("units")
    if not isinstance(outputs, int):
        outputs = _outputs_by_layout(shape, call) or (shape[0] if shape else 1)
    return max(1.0, prod(shape) / max(outputs, 1))


def _outputs_by_layout(shape: tuple[int, ...], call: syntax.Call) -> int | None:
    text = call.attributes.get("kernel_layout") or call.attributes.get("weight_layout")
    try:
        layout = Layout.parse(str(text)).resolve(shape)
    except ValueError:
        return None
    return prod(dim for (letter, _), dim in zip(layout.axes, shape, strict=True) if letter in "OoNn")
