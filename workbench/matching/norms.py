"""Norms as the arithmetic that old TVM makes of them: ``simplify_inference.cc`` of TVM's ``src/relay/transforms``."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from workbench.matching.shapes import Shape
from workbench.matching.source import Operator

NORMS = {"nn.layer_norm", "nn.instance_norm", "nn.group_norm"}
"""Those of data, gamma and beta that are not folded as a batch norm is."""


Add = Callable[[str, Sequence[tuple[int | None, Shape | None]], Shape | None], int]
"""Adds a node of a name, which reads nodes (None: a constant) of given shapes, and returns its place."""


def unpacked_norm(operator: Operator, inputs: Sequence[int | None], add: Add) -> int:
    """``(x - mean) / sqrt(variance + epsilon) * gamma + beta``: the last of its nodes.

    Args:
        operator: One of `NORMS`.
        inputs: Places of the nodes of data, gamma and beta; None for what is computed before the program runs.
        add: Adds a node.
    """
    whole, mean_of = operator.shape, _mean_shape(operator)
    data, grouped = inputs[0], whole
    if operator.name == "nn.group_norm":
        grouped = _grouped(operator)
        data = add("reshape", [(data, whole)], grouped)
    mean = add("mean", [(data, grouped)], mean_of)
    variance = add("variance", [(data, grouped), (mean, mean_of)], mean_of)
    distance = add("subtract", [(data, grouped), (mean, mean_of)], grouped)
    deviation = add("sqrt", [(add("add", [(variance, mean_of), (None, ())], mean_of), mean_of)], mean_of)
    result = add("divide", [(distance, grouped), (deviation, mean_of)], grouped)
    if operator.name == "nn.group_norm":
        result = add("reshape", [(result, grouped)], whole)
    for name, position, wanted in (("multiply", 1, "scale"), ("add", 2, "center")):
        if operator.attributes.get(wanted, True):
            result = add(name, [(result, whole), (inputs[position], None)], whole)
    return result


def unpacked_l2_normalize(operator: Operator, data: int | None, add: Add) -> int:
    """``x * rsqrt(max(sum(x * x), epsilon))``: the last of its nodes."""
    whole = operator.shape
    square = add("multiply", [(data, whole), (data, whole)], whole)
    total = add("maximum", [(add("sum", [(square, whole)], None), None), (None, ())], None)
    return add("multiply", [(data, whole), (add("rsqrt", [(total, None)], None), None)], whole)


def _mean_shape(operator: Operator) -> Shape | None:
    """Of what a norm divides by: one number for each stretch that it takes together."""
    axis, shape = _norm_axis(operator), operator.shape
    if shape is None or axis is None:
        return None
    if operator.name == "nn.layer_norm":
        return tuple(1 if place == axis else size for place, size in enumerate(shape))
    if operator.name == "nn.group_norm":
        shape = _grouped(operator)
    return None if shape is None else tuple(size if place in (0, axis) else 1 for place, size in enumerate(shape))


def _grouped(operator: Operator) -> Shape | None:
    """The shape in which a group norm has the groups as a dimension of their own."""
    axis, shape, groups = _norm_axis(operator), operator.shape, operator.attributes.get("num_groups")
    if shape is None or axis is None or not isinstance(groups, int) or groups < 1:
        return None
    return (*shape[:axis], groups, shape[axis] // groups, *shape[axis + 1 :])


def _norm_axis(operator: Operator) -> int | None:
    """The dimension that a norm is about; None if its text does not tell."""
    axis = operator.attributes.get("axis", -1 if operator.name == "nn.layer_norm" else 1)
    return axis % len(operator.shape) if operator.shape and isinstance(axis, int) else None
