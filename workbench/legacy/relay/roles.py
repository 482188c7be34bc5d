"""What the parameters and constants of a Relay model are for: which are inputs, and what kind of weight the others are."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from workbench.legacy.relay import syntax
from workbench.legacy.relay.interpreter import Closure, Interpreter, Item

IDENTITIES = (
    "annotation.stop_fusion", "compiler_begin", "compiler_end", "annotation.compiler_begin", "annotation.compiler_end", "copy",
    "device_copy", "on_device", "stop_fusion",
)  # fmt: skip
"""Operators that give what they are given."""

# Operators whose first operand is looked through: what they give is used for what the operand is for.
_CARRIERS = {
    *IDENTITIES, "broadcast_to", "cast", "expand_dims", "layout_transform", "nn.batch_flatten", "reshape", "squeeze", "strided_slice",
    "transpose",
}  # fmt: skip
_WEIGHT_POSITIONS = {
    "nn.batch_norm": {1, 2, 3, 4},
    "nn.bias_add": {1},
    "nn.contrib_conv2d_NCHWc": {1},
    "nn.contrib_dense_pack": {1},
    "nn.contrib_depthwise_conv2d_NCHWc": {1},
    "nn.conv1d": {1},
    "nn.conv1d_transpose": {1},
    "nn.conv2d": {1},
    "nn.conv2d_transpose": {1},
    "nn.conv3d": {1},
    "nn.conv3d_transpose": {1},
    "nn.dense": {1},
    "nn.group_norm": {1, 2},
    "nn.instance_norm": {1, 2},
    "nn.layer_norm": {1, 2},
    "nn.prelu": {1},
    "take": {0},
}
_INPUT_NAME = re.compile(
    r"(?:data|inputs?|x|image|images|pixel_values|input_ids|attention_mask|token_type_ids|position_ids|input_tensor|serving_default_\w+)(?:[_.:]?\d+)*"
)
_WEIGHT_NAME = re.compile(
    r".*(?:weights?|bias|biases|gamma|beta|mean|var|variance|kernel|filter|alpha|scale|embeddings?|[_.][wb])(?:[_.:]?\d+)*", re.IGNORECASE
)


@dataclass(frozen=True)
class Use:
    """An operand position that a source reaches, and the attributes of that call."""

    operator: str
    position: int
    call: syntax.Call


# A parameter of ``main`` (its name) or a constant of the metadata (its index).
Source: TypeAlias = str | int
Uses: TypeAlias = dict[Source, list[Use]]
Reached: TypeAlias = frozenset[Source]


class _UseFinder(Interpreter[Reached]):
    """Values are the sources that reach a place through views and copies alone."""

    def __init__(self, module: syntax.Module) -> None:
        super().__init__(module)
        self.uses: Uses = {}

    def constant(self, node: syntax.Constant | syntax.MetaRef) -> Item[Reached]:
        return frozenset([node.index]) if isinstance(node, syntax.MetaRef) else frozenset()

    def operator(self, call: syntax.Call, operator: str, args: Sequence[Item[Reached]], name: str) -> Item[Reached]:
        del name
        if operator in _CARRIERS and args:
            return args[0]
        shifted = operator == "add" and any(isinstance(arg, syntax.Constant) for arg in call.args)  # a variance plus epsilon is one still
        for position, arg in enumerate(args):
            for source in _sources(arg):
                self.uses.setdefault(source, []).append(Use(operator, position, call))
        return frozenset(source for arg in args for source in _sources(arg)) if shifted else frozenset()

    def item(self, node: syntax.TupleGet, value: Item[Reached]) -> Item[Reached]:
        del node, value
        return frozenset()


def _sources(value: Item[Reached]) -> list[Source]:
    waiting: list[Item[Reached]] = [value]
    found: list[Source] = []
    while waiting:
        item = waiting.pop()
        if isinstance(item, tuple):
            waiting.extend(item)
        elif not isinstance(item, Closure):
            found.extend(item)
    return found


def find_uses(module: syntax.Module) -> Uses:
    """Where each parameter of ``main`` (by name) and each metadata constant (by index) is used, looked through views and copies.

    Raises:
        ModelError: The functions of the module cannot be followed.
    """
    finder = _UseFinder(module)
    finder.run(module.main, {param.name: frozenset([param.name]) for param in module.main.params})
    return finder.uses


def find_inputs(main: syntax.Function, uses: Uses, named: Collection[str]) -> list[str]:
    """The parameters that are inputs of the model; all others are weights.

    The rules, in this order:

    1. A parameter that the caller names, or whose name is an input's (data, input, x, input_ids, ... with a number behind), is an input.
    2. A parameter that is used only where operators take weights (the kernel of a convolution, a bias, ...) is a weight.
    3. Any other one is a weight if its name ends like a weight's (weight, bias, gamma, mean, ...), else an input.
    4. If that leaves no input, the first parameter is the input.
    """
    chosen = []
    for param in main.params:
        places = uses.get(param.name, [])
        only_weight = bool(places) and all(use.position in _WEIGHT_POSITIONS.get(use.operator, ()) for use in places)
        if param.name in named or (is_input_name(param.name) if only_weight else not is_weight_name(param.name)):
            chosen.append(param.name)
    return chosen or [param.name for param in main.params[:1]]


def is_input_name(name: str) -> bool:
    """True if a parameter is called as inputs are."""
    return _INPUT_NAME.fullmatch(name) is not None


def is_weight_name(name: str) -> bool:
    """True if a parameter is called as weights are, and not as inputs are."""
    return _WEIGHT_NAME.fullmatch(name) is not None and not is_input_name(name)
