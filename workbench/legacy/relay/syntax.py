"""The syntax tree of Relay text: what was written and where, with no meaning attached."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True)
class TensorType:
    """``Tensor[(1, 3), float32]``; a scalar is written ``float32``. A dimension that is not a number (``?``) is None."""

    shape: tuple[int | None, ...]
    dtype: str

    def __str__(self) -> str:
        dims = ", ".join("?" if dim is None else str(dim) for dim in self.shape)
        return f"Tensor[({dims}), {self.dtype}]"


@dataclass(frozen=True)
class TupleType:
    """``(Tensor[...], Tensor[...])``."""

    fields: tuple[Type, ...]

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.fields))})"


@dataclass(frozen=True)
class FunctionType:
    """``fn (Tensor[...]) -> Tensor[...]``."""

    params: tuple[Type, ...]
    result: Type

    def __str__(self) -> str:
        return f"fn ({', '.join(map(str, self.params))}) -> {self.result}"


@dataclass(frozen=True)
class NamedType:
    """A type that has only a name here: a type variable or an algebraic data type."""

    name: str

    def __str__(self) -> str:
        return self.name


Type: TypeAlias = TensorType | TupleType | FunctionType | NamedType


@dataclass(frozen=True)
class Node:
    """Any expression: where it begins (both from 1), and its type if a ``/* ty=... */`` comment follows it."""

    line: int
    column: int
    type: Type | None = field(default=None, kw_only=True)


@dataclass(frozen=True)
class Var(Node):
    """``%x``, ``%12``: a parameter or a binding; the name is without the percent sign."""

    name: str


@dataclass(frozen=True)
class GlobalVar(Node):
    """``@main``: a function of the module; the name is without the at sign."""

    name: str


@dataclass(frozen=True)
class Operator(Node):
    """``nn.conv2d`` as the callee of a call."""

    name: str


@dataclass(frozen=True)
class Constant(Node):
    """A number or truth value: ``0.01f``, ``1i64``, ``True``."""

    value: bool | int | float
    dtype: str


@dataclass(frozen=True)
class MetaRef(Node):
    """``meta[relay.Constant][3]``: an object that is kept, if at all, in the metadata section."""

    kind: str
    index: int


@dataclass(frozen=True)
class Opaque:
    """An attribute value that is skipped, such as ``VirtualDevice(...)``."""

    head: str


Attribute: TypeAlias = "bool | int | float | str | tuple[Attribute, ...] | MetaRef | Opaque | None"


@dataclass(frozen=True)
class Call(Node):
    """``nn.relu(%x)``, ``%7(%6)``, ``@f(%x)``."""

    callee: Expr
    args: tuple[Expr, ...]
    attributes: Mapping[str, Attribute]


@dataclass(frozen=True)
class Tuple(Node):
    """``(%0, %1)``."""

    fields: tuple[Expr, ...]


@dataclass(frozen=True)
class TupleGet(Node):
    """``%3.0``."""

    value: Expr
    index: int


@dataclass(frozen=True)
class Binding:
    """``%0 = nn.relu(%x);`` or ``let %x = ...;``."""

    name: str
    value: Expr
    line: int
    column: int


@dataclass(frozen=True)
class Block(Node):
    """Bindings, then the expression they are for."""

    bindings: tuple[Binding, ...]
    result: Expr


@dataclass(frozen=True)
class Parameter:
    """``%x: Tensor[(1, 3), float32]``; the type may be missing."""

    name: str
    type: Type | None
    line: int
    column: int


@dataclass(frozen=True)
class Function(Node):
    """``fn (%p0: ..., Primitive=1) -> ... { ... }`` or the right side of a ``def``."""

    params: tuple[Parameter, ...]
    result_type: Type | None
    attributes: Mapping[str, Attribute]
    body: Block


Expr: TypeAlias = Var | GlobalVar | Operator | Constant | MetaRef | Call | Tuple | TupleGet | Block | Function


@dataclass(frozen=True)
class TensorData:
    """A constant kept in the text: its bytes in C order, little endian."""

    shape: tuple[int, ...]
    dtype: str
    data: bytes


@dataclass(frozen=True)
class Module:
    """All functions by name (a bare ``fn`` is ``main``) and the tensors of ``meta[relay.Constant][k]`` that the text has."""

    functions: Mapping[str, Function]
    constants: Mapping[int, TensorData]

    @property
    def main(self) -> Function:
        """The function that is the model."""
        return self.functions["main"]
