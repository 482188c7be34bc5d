"""One Relay call as the converters see it: operands that are Relax already, attributes with their type, and ways to fail with a place."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray
from tvm import relax
from tvm.ir import GenericConst
from tvm.relax import op as R

from workbench.engines.relax.relay.layouts import Layout, permutation
from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.legacy.relay.syntax import Attribute

Array: TypeAlias = NDArray[np.generic]


@dataclass(frozen=True)
class Blocked:
    """A tensor that has a blocked layout in the Relay text (``NCHW16c``) and is kept in the plain one here."""

    plain: relax.Expr
    layout: Layout


Value: TypeAlias = "relax.Expr | Blocked | tuple[Value, ...]"


def shape_of(tensor: relax.Expr) -> tuple[int, ...]:
    """The shape of a tensor, which is always known here."""
    return tuple(int(dim) for dim in tensor.ty.shape.values)


def dtype_of(tensor: relax.Expr) -> str:
    """The element type of a tensor."""
    return str(tensor.ty.dtype)


def array_of(tensor: relax.Expr) -> Array | None:
    """The value of a constant; None for anything else."""
    if not isinstance(tensor, GenericConst):
        return None
    array: Array = tensor.value.numpy()
    return array


def constant_tensor(array: Array) -> relax.Expr:
    """A constant of the array's own element type (`relax.const` alone would make int64 to int32 and float64 to float32)."""
    return relax.const(np.array(array, order="C"), str(array.dtype))


@dataclass(frozen=True)
class Operation:
    """A call of a Relay operator.

    Attributes:
        operator: Its Relay name.
        args: The operands.
        attributes: What the text gives; an attribute that has its default is not in the text.
        line: Where the call stands, from 1.
        column: Where the call stands, from 1.
        emit: Binds an expression under the call's origin, so that its type is known.
    """

    operator: str
    args: Sequence[Value]
    attributes: Mapping[str, Attribute]
    line: int
    column: int
    emit: Callable[[relax.Expr], relax.Expr]

    def fail(self, what: str) -> NoReturn:
        """Raise the `ModelError` for this call."""
        raise ModelError(
            f"Relay text, line {self.line}, column {self.column}: {self.operator} {plain(what, 300)}.",
            "Change the model so that it does not need this, or import it from its original format (ONNX).",
        )

    def arg(self, index: int) -> Value:
        """An operand."""
        if index >= len(self.args):
            self.fail(f"has {len(self.args)} operands and needs more")
        return self.args[index]

    def tensor(self, index: int) -> relax.Expr:
        """An operand that is a tensor, in the layout that the text gives it."""
        return self.materialise(self.arg(index))

    def tensors(self, index: int) -> list[relax.Expr]:
        """An operand that is a tuple of tensors."""
        value = self.arg(index)
        if not isinstance(value, tuple):
            self.fail("needs a tuple")
        return [self.materialise(field) for field in value]

    def materialise(self, value: Value) -> relax.Expr:
        """A value as a tensor in the layout that the text gives it."""
        if isinstance(value, tuple):
            self.fail("needs a tensor, not a tuple")
        if isinstance(value, Blocked):
            split, order = value.layout.pack(shape_of(value.plain))
            return self.transposed(self.reshaped(value.plain, split), order)
        return value

    def plain(self, value: Value, layout: Layout) -> relax.Expr:
        """A tensor of this (maybe blocked) layout in the plain order of its axes.

        Raises:
            ModelError: It cannot have the layout.
        """
        if isinstance(value, Blocked) and str(value.layout) == str(layout):
            return value.plain
        tensor = self.materialise(value)
        if not layout.is_blocked:
            return tensor
        order, merged = layout.unpack(shape_of(tensor))
        return self.reshaped(self.transposed(tensor, order), merged)

    def layout(self, text: str, value: Value) -> Layout:
        """The layout of this text, completed by the shape of the value that has it."""
        try:
            return Layout.parse(text).resolve(self.shape(value))
        except ValueError as error:
            return self.fail(f"cannot be converted: {error}")

    def shape(self, value: Value) -> tuple[int, ...]:
        """The shape that the text gives a tensor."""
        if isinstance(value, tuple):
            self.fail("needs a tensor, not a tuple")
        return value.layout.packed_shape(shape_of(value.plain)) if isinstance(value, Blocked) else shape_of(value)

    def constant(self, array: Array) -> relax.Expr:
        """A constant tensor."""
        return constant_tensor(array)

    def scalar(self, value: float, like: relax.Expr) -> relax.Expr:
        """A constant scalar of another tensor's type."""
        return relax.const(value, dtype_of(like))

    def transposed(self, tensor: relax.Expr, axes: Sequence[int]) -> relax.Expr:
        """A permutation of axes; done at once if the tensor is a constant."""
        if list(axes) == list(range(len(axes))):
            return tensor
        array = array_of(tensor)
        return self.emit(R.permute_dims(tensor, list(axes))) if array is None else self.constant(array.transpose(axes))

    def reshaped(self, tensor: relax.Expr, shape: Sequence[int]) -> relax.Expr:
        """Another shape; done at once if the tensor is a constant."""
        if tuple(shape) == shape_of(tensor):
            return tensor
        array = array_of(tensor)
        return self.emit(R.reshape(tensor, tuple(shape))) if array is None else self.constant(array.reshape(shape))

    def reordered(self, tensor: relax.Expr, source: str, target: str) -> relax.Expr:
        """A tensor of plain layout `source` in plain layout `target`."""
        try:
            axes = permutation(source, target)
        except ValueError as error:
            return self.fail(f"cannot be converted: {error}")
        return self.transposed(tensor, axes)

    def in_layout(self, tensor: relax.Expr, source: str, text: str) -> Value:
        """A tensor of plain layout `source` in the layout that a text names; a blocked one is a note on the plain tensor."""
        try:
            layout = Layout.parse(text)
        except ValueError as error:
            self.fail(f"cannot be converted: {error}")
        plain = self.reordered(tensor, source, layout.plain)
        if not layout.is_blocked:
            return plain
        try:
            layout.packed_shape(shape_of(plain))
        except ValueError as error:
            self.fail(f"cannot be converted: {error}")
        return Blocked(plain, layout)

    def axis(self, name: str, default: int, rank: int) -> int:
        """An attribute that names an axis, from 0; -1 is the last."""
        axis = self.integer(name, default)
        if not -rank <= axis < rank:
            self.fail(f"has {name}={axis} on a tensor of rank {rank}")
        return axis % rank

    def integer(self, name: str, default: int | None = None) -> int:
        """An attribute that is a whole number; required if it has no default."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int):
            self.fail(f"needs attribute {name}, a whole number" if value is None else f"has {name}={value!r}, which is no whole number")
        return int(value)

    def number(self, name: str, default: float | None = None) -> float:
        """An attribute that is a number; required if it has no default."""
        value = self.attributes.get(name, default)
        if not isinstance(value, int | float):
            self.fail(f"needs attribute {name}, a number" if value is None else f"has {name}={value!r}, which is no number")
        return float(value)

    def flag(self, name: str, *, default: bool = False) -> bool:
        """An attribute that is true or false."""
        return bool(self.integer(name, int(default)))

    def text(self, name: str, default: str) -> str:
        """An attribute that is a string; an empty one or None is the default."""
        value = self.attributes.get(name)
        if value is not None and not isinstance(value, str):
            self.fail(f"has {name}={value!r}, which is no string")
        return value or default

    def dtype(self, name: str) -> str | None:
        """An attribute that is an element type; None if it is not given."""
        value = self.text(name, "")
        return None if value in ("", "void") else {"uint1": "bool"}.get(value, value)

    def integers(self, name: str, default: Sequence[int] | None = None) -> list[int]:
        """An attribute that is a list of whole numbers, or one; required if it has no default."""
        value = self.optional_integers(name)
        if value is None and default is not None:
            return list(default)
        return self.fail(f"needs attribute {name}, a list of whole numbers") if value is None else value

    def optional_integers(self, name: str) -> list[int] | None:
        """Like `integers`, or None if the attribute is not given."""
        value = self.attributes.get(name)
        if value is None:
            return None
        items = value if isinstance(value, tuple) else (value,)
        result = [int(item) for item in items if isinstance(item, int)]
        if len(result) < len(items):
            self.fail(f"has {name} with values that are no whole numbers")
        return result

    def pairs(self, name: str, count: int) -> list[tuple[int, int]]:
        """An attribute that is a list of (before, after), as a padding has, one for each of `count` dimensions."""
        given = self.attributes.get(name)
        found: list[tuple[int, int]] = []
        for pair in given if isinstance(given, tuple) else ():
            numbers = [number for number in pair if isinstance(number, int) and number >= 0] if isinstance(pair, tuple) else []
            if len(numbers) == 2:
                found.append((numbers[0], numbers[1]))
        if len(found) != count or not isinstance(given, tuple) or len(given) != count:
            self.fail(f"has {name}={given} for {count} dimensions")
        return found


Converter: TypeAlias = Callable[[Operation], Value]
