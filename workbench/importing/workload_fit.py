"""Which functions of a program a workload of an old tuner can be of: by its operators and the shapes of its tensors."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from workbench.legacy.auto_scheduler.task_list import AutoSchedulerTask
from workbench.matching.layouts import likeness
from workbench.matching.names import MOVES, parse_function
from workbench.matching.shapes import Shape, infer_shape
from workbench.matching.structure import Structure

_WITH_WEIGHTS = ("conv", "dense", "batch_matmul")
_LEAST_LIKENESS = 0.9
_GROUPED = "group_"
_PLAIN_CONVOLUTIONS = ("conv2d_NCHWc", "conv2d_nchw", "depthwise_conv2d_NCHWc", "depthwise_conv2d_nchw")
"""Templates whose arguments are data and weights in the layouts ``NCHW`` and ``OIHW``, then strides, padding and dilation."""


def fitting_described(task: AutoSchedulerTask, program: Sequence[Structure]) -> list[int]:
    """Places of the functions that a task of auto_scheduler's list can be; its description has the operators, its key the shapes."""
    if not task.shapes:
        return []
    wanted = [name for name in parse_function(task.description).operators if name not in MOVES]
    return [place for place, item in enumerate(program) if _is_reading(wanted, item) and _fits(item, task.shapes)]


def fitting_key(key: str, program: Sequence[Structure]) -> list[int]:
    """The same for a workload key alone, whose arguments are shapes and nothing else."""
    shapes = _shapes_in(key)
    return [place for place, item in enumerate(program) if shapes and _fits(item, shapes)]


def fitting_template(name: str, arguments: str, program: Sequence[Structure]) -> list[int]:
    """The same for a template of AutoTVM and its arguments as JSON: all functions that are built around such an operator."""
    template = name.partition(".")[0]
    operator = next(iter(parse_function(template.removeprefix(_GROUPED)).operators), "")
    values = json.loads(arguments)
    tensors = _tensors(values)
    output = _output(template, tensors, values)
    fits = [place for place, item in enumerate(program) if operator in item.operators and _reads(item, tensors)]
    if operator == "conv2d":
        fits = [place for place in fits if program[place].depthwise == template.startswith("depthwise")]
    return [place for place in fits if output is None or _elements(program[place].shape) in (None, math.prod(output))]


def _is_reading(wanted: Sequence[str], item: Structure) -> bool:
    """True if these are the operators of a function, moves of data left out and folded scales perhaps."""
    left = list(wanted)
    for place, name in enumerate(item.operators):
        if name in MOVES:
            continue
        if left and left[0] == name:
            left.pop(0)
        elif place not in item.optional:
            return False
    return not left


def _fits(item: Structure, shapes: Sequence[Shape]) -> bool:
    """True if a workload's tensors, inputs first and the output last, are the function's: its data, its weights if it has any, its output."""
    has_weights = any(name.startswith(_WITH_WEIGHTS) for name in item.operators)
    return likeness(shapes[-1], item.shape) >= _LEAST_LIKENESS and _reads(item, shapes[: 2 if has_weights else 1])


def _reads(item: Structure, shapes: Sequence[Shape]) -> bool:
    """True if the function reads tensors of as many elements."""
    sizes = [math.prod(shape) for shape in item.input_shapes if shape is not None]
    return bool(shapes) and all(math.prod(shape) in sizes for shape in shapes)


def _output(template: str, tensors: Sequence[Shape], values: Sequence[Any]) -> Shape | None:
    """What a convolution or product of these tensors gives; None where the template's arguments are not known."""
    if template.startswith("dense") and len(tensors) >= 2:
        return infer_shape("nn.dense", tensors[:2], {})
    if template not in _PLAIN_CONVOLUTIONS or len(tensors) < 2 or len(values) < 5:
        return None
    lists = [value if isinstance(value, list) else [value] for value in values[2:5]]
    if not all(isinstance(size, int) for value in lists for size in value):
        return None
    attributes: dict[str, Any] = {name: tuple(value) for name, value in zip(("strides", "padding", "dilation"), lists, strict=True)}
    if template.startswith("depthwise"):
        attributes["channels"] = math.prod(tensors[1][:2])
    return infer_shape("nn.conv2d", tensors[:2], attributes)


def _elements(shape: Shape | None) -> int | None:
    return None if shape is None else math.prod(shape)


def _tensors(values: Sequence[Any]) -> tuple[Shape, ...]:
    """Shapes of the tensors among a template's arguments."""
    found = [value[1] for value in values if isinstance(value, list) and len(value) == 3 and value[0] == "TENSOR"]
    return tuple(tuple(size for size in shape if isinstance(size, int)) for shape in found if isinstance(shape, list))


def _shapes_in(key: str) -> tuple[Shape, ...]:
    """The shapes in a workload key whose arguments are nothing else."""
    if not key.startswith("["):
        return ()
    _, *arguments = json.loads(key)
    if not all(isinstance(item, list) and all(isinstance(size, int) for size in item) for item in arguments):
        return ()
    return tuple(tuple(item) for item in arguments)
