"""Which multiplications old TVM takes off the data and puts onto the weights of what reads them: its ``FoldScaleAxis``, forward.

After TVM's ``src/relay/transforms/fold_scale_axis.cc``: a product of data and one number for each channel, such as a squeeze-and-excitation block
makes it, that only convolutions and dense layers read. What is constant vanishes; what is not is multiplied with the weights in each run.
"""

from __future__ import annotations

from dataclasses import dataclass

from workbench.matching.equal import needed_operators
from workbench.matching.shapes import Shape
from workbench.matching.source import Operator, SourceGraph

SCALED = ("nn.conv2d", "nn.conv3d", "nn.dense")


@dataclass(frozen=True)
class Scale:
    """A multiplication that is taken off the data.

    Attributes:
        place: Of the operator in the graph.
        position: Which of its two inputs is the scale.
        axis: The data's dimension with a number each.
        base: How many dimensions less the scale has.
    """

    place: int
    position: int
    axis: int
    base: int


def folded_scales(graph: SourceGraph) -> dict[int, Scale]:
    """The multiplications that are folded, by their places."""
    readers: dict[int, list[tuple[Operator, int]]] = {}
    for reader in needed_operators(graph):
        operator = graph.operators[reader]
        for position, tensor in enumerate(operator.inputs):
            if tensor.operator is not None:
                readers.setdefault(tensor.operator, []).append((operator, position))
    results = {tensor.operator for tensor in graph.outputs}
    found = {}
    for place, operator in enumerate(graph.operators):
        if operator.name == "multiply" and len(operator.inputs) == 2 and place in readers and place not in results:
            axes = {_scaled_axis(reader) if position == 0 else None for reader, position in readers[place]}
            axis = axes.pop() if len(axes) == 1 else None
            scale = None if axis is None else _scale(place, operator, axis)
            if scale is not None:
                found[place] = scale
    return found


def weight_axes_behind(operator: Operator) -> int:
    """How many dimensions of the weight come behind that of its scaled channels: so many are appended to the scale."""
    if operator.name == "nn.dense":
        return 0
    layout = _kernel_layout(operator)
    return len(layout) - 1 - layout.index("O" if _is_depthwise(operator) else "I")


def _scale(place: int, operator: Operator, axis: int) -> Scale | None:
    first, second = (tensor.shape for tensor in operator.inputs)
    if _fits(first, second, axis):
        return Scale(place, 1, axis, len(first or ()) - len(second or ()))
    return Scale(place, 0, axis, len(second or ()) - len(first or ())) if _fits(second, first, axis) else None


def _fits(data: Shape | None, scale: Shape | None, axis: int) -> bool:
    """True if the scale has one number for each place on the data's axis, and nothing else."""
    if data is None or scale is None or len(scale) > len(data):
        return False
    base = len(data) - len(scale)
    return axis >= base and all(size == (data[place + base] if place + base == axis else 1) for place, size in enumerate(scale))


def _scaled_axis(operator: Operator) -> int | None:
    """The dimension of an operator's data whose scale can go to its weights; None if none can."""
    if operator.name not in SCALED or len(operator.inputs) != 2:
        return None
    if operator.name == "nn.dense":
        return 1
    layout = str(operator.attributes.get("data_layout") or "NC")
    kernel = _kernel_layout(operator)
    is_plain = layout.isupper() and "C" in layout and kernel.isupper() and {"O", "I"} <= set(kernel)
    return layout.index("C") if is_plain and (operator.attributes.get("groups", 1) == 1 or _is_depthwise(operator)) else None


def _kernel_layout(operator: Operator) -> str:
    return str(operator.attributes.get("kernel_layout") or ("OIDHW" if operator.name == "nn.conv3d" else "OIHW"))


def _is_depthwise(operator: Operator) -> bool:
    """True if each channel has filters of its own alone."""
    groups, weight, layout = operator.attributes.get("groups", 1), operator.inputs[1].shape, _kernel_layout(operator)
    if groups == 1 or weight is None or len(weight) != len(layout):
        return False
    return weight[layout.index("I")] == 1 and weight[layout.index("O")] == groups
