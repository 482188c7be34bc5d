"""A walk through a Relay module in the order of execution, functions inlined at their calls; what a value is, the subclass decides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, NoReturn, TypeAlias, TypeVar

from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.legacy.relay import syntax

_MAX_DEPTH = 150
_MAX_CALLS = 200_000
V = TypeVar("V")


@dataclass(frozen=True)
class Scope(Generic[V]):
    """The names that a place of the text can see."""

    parent: Scope[V] | None = None
    names: dict[str, Item[V]] = field(default_factory=dict)

    def lookup(self, name: str) -> Item[V] | None:
        """The value of a name; None if it has none yet."""
        scope: Scope[V] | None = self
        while scope is not None:
            if name in scope.names:
                return scope.names[name]
            scope = scope.parent
        return None


@dataclass(frozen=True)
class Closure(Generic[V]):
    """A function and the names it can see."""

    function: syntax.Function
    scope: Scope[V]


Item: TypeAlias = "V | Closure[V] | tuple[Item[V], ...]"


def fail_at(node: syntax.Node | syntax.Parameter, what: str, remedy: str = "Check that the text is what TVM printed.") -> NoReturn:
    """Raise the `ModelError` for a fault at a place of the text."""
    raise ModelError(f"Relay text, line {node.line}, column {node.column}: {plain(what, 300)}.", remedy)


class Interpreter(ABC, Generic[V]):
    """Evaluates functions; a subclass says what constants and operators give."""

    def __init__(self, module: syntax.Module) -> None:
        self.module = module
        self._depth = 0
        self._calls = 0

    @abstractmethod
    def constant(self, node: syntax.Constant | syntax.MetaRef) -> Item[V]:
        """The value of a constant."""

    @abstractmethod
    def operator(self, call: syntax.Call, operator: str, args: Sequence[Item[V]], name: str) -> Item[V]:
        """The value of an operator's call, which is bound to `name` (``%12``, or ``return value``)."""

    @abstractmethod
    def item(self, node: syntax.TupleGet, value: Item[V]) -> Item[V]:
        """The value of ``%x.0`` where ``%x`` is no tuple that this walk has put together."""

    def checked(self, node: syntax.Expr, value: Item[V]) -> None:
        """Called with the value of every call and tuple access."""

    def run(self, function: syntax.Function, args: Mapping[str, Item[V]]) -> Item[V]:
        """The value of a function for these arguments."""
        return self._block(function.body, Scope(names=dict(args)), "return value")

    def _block(self, block: syntax.Block, scope: Scope[V], name: str) -> Item[V]:
        for binding in block.bindings:
            scope.names[binding.name] = self._evaluate(binding.value, scope, f"%{binding.name}")
        return self._evaluate(block.result, scope, name)

    def _evaluate(self, node: syntax.Expr, scope: Scope[V], name: str) -> Item[V]:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            fail_at(node, "functions are nested or call each other too deeply", "Recursive functions are not supported.")
        value = self._dispatch(node, scope, name)
        self._depth -= 1
        return value

    def _dispatch(self, node: syntax.Expr, scope: Scope[V], name: str) -> Item[V]:
        match node:
            case syntax.Var():
                value = scope.lookup(node.name)
                return fail_at(node, f"%{node.name} has no value here") if value is None else value
            case syntax.Constant() | syntax.MetaRef():
                return self.constant(node)
            case syntax.Tuple():
                return tuple([self._evaluate(item, scope, name) for item in node.fields])
            case syntax.TupleGet():
                return self._item(node, self._evaluate(node.value, scope, name))
            case syntax.Block():
                return self._block(node, Scope(scope), name)
            case syntax.Function():
                return Closure(node, scope)
            case syntax.GlobalVar():
                if node.name not in self.module.functions:
                    fail_at(node, f"@{node.name} is not defined")
                return Closure(self.module.functions[node.name], Scope())
            case syntax.Operator():
                return fail_at(node, f"{node.name} is not called")
            case syntax.Call():
                value = self._call(node, scope, name)
                self.checked(node, value)
                return value

    def _item(self, node: syntax.TupleGet, value: Item[V]) -> Item[V]:
        if not isinstance(value, tuple):
            return self.item(node, value)
        if node.index >= len(value):
            fail_at(node, f"item {node.index} of a tuple of {len(value)}")
        self.checked(node, value[node.index])
        return value[node.index]

    def _call(self, node: syntax.Call, scope: Scope[V], name: str) -> Item[V]:
        self._calls += 1
        if self._calls > _MAX_CALLS:
            fail_at(node, f"more than {_MAX_CALLS} calls after inlining", "Import a part of the model.")
        if isinstance(node.callee, syntax.Operator):
            args = [self._evaluate(arg, scope, name) for arg in node.args]
            return self.operator(node, node.callee.name, args, name)
        callee = self._evaluate(node.callee, scope, name)
        if not isinstance(callee, Closure):
            fail_at(node, "what is called here is no function")
        params = callee.function.params
        if len(params) != len(node.args):
            fail_at(node, f"a function of {len(params)} parameters is called with {len(node.args)}")
        inner = Scope(callee.scope)
        for param, arg in zip(params, node.args, strict=True):
            inner.names[param.name] = self._evaluate(arg, scope, name)
        return self._block(callee.function.body, inner, name)
