"""Which parameters of a Relay function are inputs, and random values for those that are weights; the rules are those of the relax engine."""

from __future__ import annotations

import re
from typing import Any, Sequence

import numpy as np
from tvm import relay

from .failing import MODEL, Refusal

_CARRIERS = {
    "broadcast_to",
    "cast",
    "copy",
    "expand_dims",
    "layout_transform",
    "nn.batch_flatten",
    "reshape",
    "squeeze",
    "strided_slice",
    "transpose",
}
_WEIGHT_POSITIONS = {
    **{name: {1} for name in ("nn.bias_add", "nn.dense", "nn.prelu", "nn.contrib_dense_pack", "nn.contrib_conv2d_NCHWc")},
    **{f"nn.conv{rank}d{kind}": {1} for rank in (1, 2, 3) for kind in ("", "_transpose")},
    "nn.contrib_depthwise_conv2d_NCHWc": {1},
    "nn.batch_norm": {1, 2, 3, 4},
    "nn.group_norm": {1, 2},
    "nn.instance_norm": {1, 2},
    "nn.layer_norm": {1, 2},
    "take": {0},
}
_INPUT_NAME = re.compile(
    r"(?:data|inputs?|x|image|images|pixel_values|input_ids|attention_mask|token_type_ids|position_ids|input_tensor|serving_default_\w+)(?:[_.:]?\d+)*"
)
_WEIGHT_NAME = re.compile(
    r".*(?:weights?|bias|biases|gamma|beta|mean|var|variance|kernel|filter|alpha|scale|embeddings?|[_.][wb])(?:[_.:]?\d+)*", re.IGNORECASE
)
_VARIANCE_NAME = re.compile(r".*(?:var|variance)(?:[_.:]?\d+)*", re.IGNORECASE)
_INDICES = {("take", 1), ("gather", 1), ("gather_nd", 1), ("one_hot", 0)}
_POSITIVE = {("nn.batch_norm", 4), ("divide", 1), ("power", 0), ("sqrt", 0), ("rsqrt", 0), ("log", 0)}
_SCALES = {("nn.batch_norm", 1), ("nn.layer_norm", 1), ("nn.group_norm", 1), ("nn.instance_norm", 1)}
_PRODUCT = re.compile(r"nn\.(?:contrib_)?(?:depthwise_)?(?:conv\d?d|dense|matmul|batch_matmul)")
_MOST_BYTES = 1 << 35


def uses_of(calls: Sequence[Any]) -> dict[Any, list[tuple[str, int]]]:
    """By what each variable is read, looked through views and copies: operator and position."""
    reached: dict[Any, Any] = {}
    uses: dict[Any, list[tuple[str, int]]] = {}
    for call in calls:
        name = getattr(call.op, "name", "")
        for position, item in enumerate(call.args):
            origin = item if isinstance(item, relay.Var) else reached.get(item)
            if origin is None:
                continue
            if name in _CARRIERS and position == 0:
                reached[call] = origin
            else:
                uses.setdefault(origin, []).append((name, position))
    return uses


def find_inputs(parameters: Sequence[Any], uses: dict[Any, list[tuple[str, int]]], named: Any) -> list[str]:
    """Names of the parameters that are inputs of the model; all others are weights."""
    chosen = []
    for parameter in parameters:
        name = parameter.name_hint
        places = uses.get(parameter, [])
        only_weight = bool(places) and all(position in _WEIGHT_POSITIONS.get(op, ()) for op, position in places)
        if name in named or _INPUT_NAME.fullmatch(name) or (not only_weight and not _WEIGHT_NAME.fullmatch(name)):
            chosen.append(name)
    return chosen or [parameter.name_hint for parameter in parameters[:1]]


def random_weight(name: str, shape: list[int], dtype: str, uses: list[tuple[str, int]], seed: int) -> Any:
    """A random value, scaled for what it is used for; seed and name decide it."""
    places = set(uses) | ({("nn.batch_norm", 4)} if _VARIANCE_NAME.fullmatch(name) else set())
    if np.prod(shape, dtype=np.float64) * 8 > _MOST_BYTES:
        raise Refusal(MODEL, f"The weight {name} has the shape {tuple(shape)}: that is too large.", "Correct its shape.")
    if "float" not in dtype:
        return np.full(shape, 0 if places & _INDICES else 1, dtype)
    random = np.random.default_rng([seed, *name.encode()])
    if places & _POSITIVE:
        return random.uniform(0.5, 1.5, shape).astype(dtype)
    normal = random.standard_normal(shape, "float32")
    if places & _SCALES:
        return (1 + np.float32(0.1) * normal).astype(dtype)
    product = any(_PRODUCT.match(op) for op, _ in places)
    fan_in = max(int(np.prod(shape[1:])), 1) if product else 100
    return (normal / np.float32(np.sqrt(fan_in))).astype(dtype)
