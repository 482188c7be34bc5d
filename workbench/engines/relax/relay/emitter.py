"""The walk that emits Relax: every Relay call becomes bindings under the name of its origin, checked against the type in the text."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from tvm import relax
from tvm.ir import GenericConst

from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.relay import registry
from workbench.engines.relax.relay.memory import check_size
from workbench.engines.relax.relay.operation import Blocked, Operation, Value, dtype_of, shape_of
from workbench.engines.relax.relay.weights import constant_of, random_constant
from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.legacy.relay import syntax
from workbench.legacy.relay.interpreter import Closure, Interpreter, Item, fail_at
from workbench.legacy.relay.roles import Uses

_OPERATOR_DUMP = re.compile(r"(?:In )?ir\.Op\(.*?support_level=\d+\)\s*,?\s*", re.DOTALL)
_NUMBER = re.compile(r"T\.int64\((-?\d+)\)")
_DISAGREEMENT = "The text was changed by hand, or the workbench misreads an attribute: please report the line."


class Emitter(Interpreter[Value]):
    """Emits the body of ``main`` with a block builder that has an open dataflow block.

    Attributes:
        origins: The Relay calls that were emitted.
        random_weights: Whether a constant got a random value.
        results: What each call gave, in the order of `origins`.
    """

    def __init__(self, module: syntax.Module, builder: relax.BlockBuilder, uses: Uses, seed: int) -> None:
        super().__init__(module)
        self.origins = OriginTable()
        self.random_weights = False
        self.results: list[syntax.Type | None] = []
        self._builder = builder
        self._uses = uses
        self._seed = seed
        self._constants: dict[int, relax.Expr] = {}
        self._hints: dict[str, str] = {}
        self._place = ""

    def constant(self, node: syntax.Constant | syntax.MetaRef) -> Item[Value]:
        """The value that the text has, or a random one."""
        if isinstance(node, syntax.Constant):
            return _scalar(node)
        if node.kind != "relay.Constant":
            fail_at(node, f"meta[{node.kind}] is not supported, only meta[relay.Constant]")
        if node.index not in self._constants:
            self._constants[node.index] = self._metadata_constant(node)
        value = self._constants[node.index]
        self.checked(node, value)
        return value

    def _metadata_constant(self, node: syntax.MetaRef) -> relax.Expr:
        if node.index in self.module.constants:
            data = self.module.constants[node.index]
            check_size(data.shape, data.dtype, f"meta[relay.Constant][{node.index}]")
            return constant_of(data)
        if not isinstance(node.type, syntax.TensorType) or None in node.type.shape:
            fail_at(
                node,
                f"meta[relay.Constant][{node.index}] has neither a value nor a type",
                "Print the module after type inference (relay.transform.InferType), or with its metadata (module.astext(show_meta_data=True)).",
            )
        shape = tuple(dim for dim in node.type.shape if dim is not None)
        return self.random(node.type, shape, node.index, node)

    def random(self, tensor: syntax.TensorType, shape: tuple[int, ...], key: str | int, place: syntax.Node | syntax.Parameter) -> relax.Expr:
        """A random constant for a parameter (by name) or a metadata constant (by index)."""
        self.random_weights = True
        where = f"line {place.line}, column {place.column}: the constant"
        return random_constant(key, tensor, shape, uses=self._uses.get(key, []), seed=self._seed, place=where)

    def operator(self, call: syntax.Call, operator: str, args: Sequence[Item[Value]], name: str) -> Item[Value]:
        """Convert a call and bind what it gives."""
        hint = self.origins.add(operator, name, f"line {call.line}")
        self._place = f"line {call.line}, column {call.column}: {operator}"
        values = [_value_of(call, arg) for arg in args]
        operation = Operation(operator, values, call.attributes, call.line, call.column, lambda expr: self._emit(expr, hint))
        try:
            value = self._bound(registry.convert(operation), hint)
        except ModelError:
            raise
        except (ValueError, TypeError, IndexError, RuntimeError, OverflowError) as error:  # what TVM raises for a call that is wrong
            raise ModelError(
                f"Relay text, {self._place} is refused by TVM: {_reason(error)}.", "Check the shapes and attributes of this call."
            ) from error
        self.results.append(_type_of(value))
        return value

    def item(self, node: syntax.TupleGet, value: Item[Value]) -> Item[Value]:
        """Tuples are never Relax values here, so this is always a fault."""
        del value
        return fail_at(node, f"item {node.index} of what is no tuple")

    def checked(self, node: syntax.Expr, value: Item[Value]) -> None:
        """Compare the type of a value with the one in the text."""
        if node.type is None or isinstance(node.type, syntax.FunctionType | syntax.NamedType):
            return
        found = _type_of(value)
        if found is not None and not _agree(node.type, found):
            what = node.callee.name if isinstance(node, syntax.Call) and isinstance(node.callee, syntax.Operator) else "this expression"
            fail_at(node, f"{what} gives {found}, but the text says {node.type}", _DISAGREEMENT)

    def emit_output(self, value: Item[Value], main: syntax.Function) -> relax.Expr:
        """Emit the result of ``main`` as the output of the dataflow block, named from its origin."""
        result = main.body.result
        last = self._hint_of(value) or self.origins.add("return", "return value", f"line {result.line}")
        operation = Operation("return value", (), {}, result.line, result.column, lambda expr: self._emit(expr, last))
        return self._builder.emit_output(self._output(operation, _value_of(result, value)), name_hint=last)

    def _output(self, operation: Operation, value: Value) -> relax.Expr:
        if isinstance(value, tuple):
            return relax.Tuple([self._output(operation, field) for field in value])
        return operation.materialise(value)

    def _hint_of(self, value: Item[Value]) -> str | None:
        plain = value.plain if isinstance(value, Blocked) else value
        return self._hints.get(plain.name) if isinstance(plain, relax.Var) else None

    def _emit(self, expr: relax.Expr, hint: str) -> relax.Expr:
        if isinstance(expr, relax.Var | GenericConst):
            return expr
        var = self._builder.emit(expr, name_hint=hint)
        self._hints[var.name] = hint
        if isinstance(var.ty, relax.TensorType):
            check_size(shape_of(var), dtype_of(var), f"{self._place}: the result")
        return var

    def _bound(self, value: Value, hint: str) -> Value:
        if isinstance(value, tuple):
            return tuple([self._bound(field, hint) for field in value])
        return value if isinstance(value, Blocked) else self._emit(value, hint)


def _reason(error: Exception) -> str:
    """What TVM says, without its dump of the operator, and with plain numbers."""
    lines = _NUMBER.sub(r"\1", _OPERATOR_DUMP.sub("", str(error))).strip().splitlines() or [type(error).__name__]
    return plain(lines[-1], 300).rstrip(".")


def _scalar(node: syntax.Constant) -> relax.Expr:
    dtype = node.type.dtype if isinstance(node.type, syntax.TensorType) else node.dtype
    if "int" in dtype and not np.iinfo(dtype).min <= node.value <= np.iinfo(dtype).max:
        fail_at(node, f"{node.value} is no {dtype}")
    return relax.const(node.value, dtype)


def _value_of(node: syntax.Expr, item: Item[Value]) -> Value:
    if isinstance(item, Closure):
        fail_at(node, "a function is used as a value here")
    return tuple([_value_of(node, field) for field in item]) if isinstance(item, tuple) else item


def _type_of(value: Item[Value]) -> syntax.Type | None:
    if isinstance(value, Closure):
        return None
    if isinstance(value, tuple):
        fields = [_type_of(field) for field in value]
        return syntax.TupleType(tuple(field for field in fields if field is not None))
    if isinstance(value, Blocked):
        return syntax.TensorType(value.layout.packed_shape(shape_of(value.plain)), dtype_of(value.plain))
    return syntax.TensorType(shape_of(value), dtype_of(value))


def _agree(declared: syntax.Type, found: syntax.Type) -> bool:
    """Whether two types are the same, where a dimension that the text leaves open agrees with any."""
    if isinstance(declared, syntax.TensorType) and isinstance(found, syntax.TensorType):
        same_rank = len(declared.shape) == len(found.shape)
        return declared.dtype == found.dtype and same_rank and all(a in (None, b) for a, b in zip(declared.shape, found.shape, strict=False))
    if isinstance(declared, syntax.TupleType) and isinstance(found, syntax.TupleType):
        return len(declared.fields) == len(found.fields) and all(map(_agree, declared.fields, found.fields))
    return not isinstance(declared, syntax.TensorType | syntax.TupleType)
