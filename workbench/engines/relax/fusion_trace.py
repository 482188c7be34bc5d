"""Which bindings went into which fused kernel call: exact, by walking the fused and the unfused ``main`` backwards together.

Fusion merges equal groups into one function, so the names inside a fused function are those of its first caller only. What stays true for
every call is the data flow: a group's result is one unfused variable, its members are what that variable is computed from, and the walk
stops where the group's parameters begin.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from workbench.engines.relax.rewriting import bindings_of


def trace_fusion(unfused: tvm.IRModule, fused: tvm.IRModule) -> dict[Any, frozenset[Any]]:
    """For every variable bound in the fused ``main``: the variables of the unfused ``main`` that are computed in its value.

    Args:
        unfused: Legalised module before ``FuseOps``.
        fused: The same module after it.

    Raises:
        RuntimeError: The two do not correspond; a pass between them did more than to group bindings.
    """
    walk = _Walk(unfused, fused)
    walk.match(fused["main"].body.body, unfused["main"].body.body)
    for binding in reversed(list(bindings_of(fused["main"]))):
        walk.visit(binding)
    return {variable: frozenset(members) for variable, members in walk.members.items()}


def _agree(variable: Any, known: Any, found: Any) -> None:
    """Raise RuntimeError if a variable stands for two values."""
    if not known.same_as(found):
        raise RuntimeError(f"{variable.name} stands for two values: {known} and {found}")


class _Walk:
    """State of the backward walk: what each fused variable is in the unfused function."""

    def __init__(self, unfused: tvm.IRModule, fused: tvm.IRModule) -> None:
        self._fused = fused
        self._fused_values = {binding.var: binding.value for binding in bindings_of(fused["main"])}
        self._values = {binding.var: binding.value for binding in bindings_of(unfused["main"])}
        self._known: dict[Any, Any] = {}
        self._fields: dict[tuple[Any, int], Any] = {}
        self.members: dict[Any, set[Any]] = {}

    def match(self, fused: Any, unfused: Any) -> None:
        """Note that two expressions are the same value."""
        if isinstance(fused, relax.Var):
            _agree(fused, self._known.setdefault(fused, unfused), unfused)
        elif isinstance(fused, relax.Tuple) and isinstance(unfused, relax.Tuple):
            for one, other in zip(fused.fields, unfused.fields, strict=True):
                self.match(one, other)

    def visit(self, binding: Any) -> None:
        """Follow one binding of the fused ``main``, all of whose readers have been followed."""
        value = binding.value
        if isinstance(value, relax.TupleGetItem):
            self._visit_field(binding.var, value)
        elif (group := self._group_of(value)) is not None:
            self._visit_group(binding.var, value, group)
        else:
            original = self._original(binding.var)
            self.members[binding.var] = {original}
            self._match_operands(value, self._values.get(original))

    def _original(self, variable: Any) -> Any:
        if variable not in self._known:
            raise RuntimeError(f"{variable.name} of the fused function was not found in the unfused one")
        return self._known[variable]

    def _visit_field(self, variable: Any, value: Any) -> None:
        original = self._original(variable)
        source = self._values.get(original)
        self.members[variable] = set()
        group = self._group_of(self._fused_values.get(value.tuple_value))
        if group is not None and _result_fields(group):
            self._fields[value.tuple_value, value.index] = original
        elif isinstance(source, relax.TupleGetItem):
            self.match(value.tuple_value, source.tuple_value)

    def _group_of(self, value: Any) -> relax.Function | None:
        """The fused function that an expression calls, if it calls one."""
        if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            function = self._fused[value.op]
            return function if isinstance(function, relax.Function) else None
        return None

    def _visit_group(self, variable: Any, call: Any, function: relax.Function) -> None:
        inner = _Group(dict(zip(function.params, call.args, strict=True)))
        if variable in self._known:
            inner.match(function.body.body, self._known[variable], self)
        for index, field in enumerate(_result_fields(function)):
            if (variable, index) in self._fields:
                inner.match(field, self._fields[variable, index], self)
        members: set[Any] = set()
        for binding in reversed(list(bindings_of(function))):
            original = inner.known.get(binding.var)
            if original is None:
                continue  # a tuple of results, or a result that nobody reads
            members.add(original)
            self._match_operands(binding.value, self._values.get(original), inner)
        self.members[variable] = members

    def _match_operands(self, fused: Any, unfused: Any, inner: _Group | None = None) -> None:
        match = self.match if inner is None else lambda one, other: inner.match(one, other, self)
        if isinstance(fused, relax.Call) and isinstance(unfused, relax.Call):
            for one, other in zip(fused.args, unfused.args, strict=True):
                match(one, other)
        elif isinstance(fused, relax.TupleGetItem) and isinstance(unfused, relax.TupleGetItem):
            match(fused.tuple_value, unfused.tuple_value)
        else:
            match(fused, unfused)


def _result_fields(function: relax.Function) -> list[Any]:
    """Fields of the tuple that a fused function builds from several results; empty if it returns the value of one binding."""
    result = function.body.body
    bound = {binding.var: binding.value for binding in bindings_of(function)}
    value = bound.get(result, result)
    return list(value.fields) if isinstance(value, relax.Tuple) else []


class _Group:
    """What the variables inside one call of a fused function are in the unfused function."""

    def __init__(self, arguments: dict[Any, Any]) -> None:
        self._arguments = arguments
        self.known: dict[Any, Any] = {}

    def match(self, inside: Any, unfused: Any, walk: _Walk) -> None:
        """Note that two expressions are the same value; a parameter hands the finding on to the caller's argument."""
        if isinstance(inside, relax.Tuple) and isinstance(unfused, relax.Tuple):
            for one, other in zip(inside.fields, unfused.fields, strict=True):
                self.match(one, other, walk)
        elif isinstance(inside, relax.Var) and inside in self._arguments:
            walk.match(self._arguments[inside], unfused)
        elif isinstance(inside, relax.Var):
            _agree(inside, self.known.setdefault(inside, unfused), unfused)
