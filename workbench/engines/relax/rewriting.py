"""Rebuilds a straight-line ``main`` binding by binding: the one mechanism behind our own Relax passes.

A program's ``main`` is one dataflow block in A-normal form with static shapes (see `check_straight_line`), so a pass is a function from a
binding to its new value; this module carries out the substitution, keeps the binding's name, and lets the block builder infer types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import tvm
from tvm import relax

from workbench.errors import ModelError

Rewrite = Callable[["Binding", "Scope"], Any]


class Binding:
    """One binding under rewriting.

    Attributes:
        var: The variable as it stands in the old function.
        value: The bound value, its variables already replaced by the new ones.
        name: Name the new variable gets.
    """

    __slots__ = ("name", "value", "var")

    def __init__(self, var: Any, value: Any) -> None:
        self.var = var
        self.value = value
        self.name: str = var.name


class Scope:
    """What a pass may ask and do while a function is rebuilt."""

    def __init__(self, builder: relax.BlockBuilder, uses: Mapping[Any, int]) -> None:
        self._builder = builder
        self._uses = uses
        self.replaced: dict[Any, Any] = {}
        self._old_of: dict[Any, Any] = {}

    def emit(self, value: Any, name: str) -> Any:
        """Bind an extra value before the current binding; the name decides whose origin it has."""
        return self._builder.emit(value, name_hint=name)

    def value_of(self, variable: Any) -> Any:
        """What a new variable is bound to; None for a parameter or anything that is no variable."""
        return self._builder.lookup_binding(variable) if isinstance(variable, relax.Var) else None

    def read_once(self, variable: Any) -> bool:
        """True if the old variable behind a new one has exactly one reader."""
        return self._uses.get(self._old_of.get(variable)) == 1

    def replace(self, old: Any, new: Any) -> None:
        """Let later bindings read `new` where they read `old`."""
        self.replaced[old] = new
        if isinstance(new, relax.Var):
            self._old_of[new] = old


def operator_name(value: Any) -> str:
    """Name of the operator that an expression calls; empty if it calls none."""
    return str(value.op.name) if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.Op) else ""


def bindings_of(function: relax.Function) -> Iterator[Any]:
    """All bindings of a function, in order."""
    for block in function.body.blocks:
        yield from block.bindings


def check_straight_line(module: tvm.IRModule) -> tvm.IRModule:
    """The module with ``main`` in one dataflow block.

    Raises:
        ModelError: ``main`` is missing, branches, or has dynamic shapes.
    """
    if "main" not in [variable.name_hint for variable in module.functions]:
        raise ModelError("The module has no function main.", "Name the entry function main.")
    main = module["main"]
    if not isinstance(main, relax.Function):
        raise ModelError("The function main of the module is no Relax function.", "Register a TE workload to tune a bare PrimFunc.")
    for parameter in main.params:
        if isinstance(parameter.ty, relax.TensorType) and not is_static(parameter.ty):
            raise ModelError(f"Parameter {parameter.name} has a dynamic shape.", "Give its shape: --shape NAME=1,3,224,224.")
    module = relax.transform.ConvertToDataflow(1)(module)
    for binding in bindings_of(module["main"]):
        if isinstance(binding, relax.VarBinding) and isinstance(binding.value, relax.If):
            raise ModelError(f"Binding {binding.var.name} branches (If).", "A profile needs one order of execution: export one branch.")
    return module


def is_static(tensor: relax.TensorType) -> bool:
    """True if every dimension is a number."""
    return tensor.shape is not None and all(isinstance(size, tvm.tirx.IntImm) for size in tensor.shape.values)


def rewrite_main(module: tvm.IRModule, rewrite: Rewrite, *, extra_parameters: Callable[[], list[Any]] = list) -> tvm.IRModule:
    """Rebuild ``main``: `rewrite` gets each binding and returns its new value.

    A returned variable or constant replaces the old variable everywhere without a binding of its own, unless the function returns it.
    `extra_parameters` is asked, after the last binding, for parameters to append to the function's own.
    """
    old = module["main"]
    returned = set(_variables(old.body.body))
    builder = relax.BlockBuilder()
    scope = Scope(builder, use_counts(old))
    with builder.function("main", attrs=dict(old.attrs.items()) if old.attrs else {}):
        with builder.dataflow():
            for item in bindings_of(old):
                _rebuild(builder, item, rewrite, scope=scope, returned=returned)
            result = substitute(old.body.body, scope.replaced)
            if not isinstance(result, relax.Var):
                result = builder.emit_output(result, name_hint="result")
        builder.emit_func_output(result, [*old.params, *extra_parameters()])
    module = module.clone()
    module.update_func(module.get_global_var("main"), builder.get()["main"])
    return module


def _rebuild(builder: relax.BlockBuilder, item: Any, rewrite: Rewrite, *, scope: Scope, returned: set[Any]) -> None:
    if isinstance(item, relax.MatchCast):
        scope.replace(item.var, builder.match_cast(substitute(item.value, scope.replaced), item.ty))
        return
    binding = Binding(item.var, builder.normalize(substitute(item.value, scope.replaced)))
    value = rewrite(binding, scope)
    if item.var in returned:
        value = builder.emit_output(value, name_hint=binding.name)
    elif not isinstance(value, relax.Var | tvm.ir.GenericConst):
        value = builder.emit(value, name_hint=binding.name)
    scope.replace(item.var, value)


def substitute(value: Any, replaced: Mapping[Any, Any]) -> Any:
    """The expression with variables replaced; shapes, operators and constants stay as they are."""
    if isinstance(value, relax.Var):
        return replaced.get(value, value)
    if isinstance(value, relax.Tuple):
        return relax.Tuple([substitute(field, replaced) for field in value.fields])
    if isinstance(value, relax.TupleGetItem):
        return relax.TupleGetItem(substitute(value.tuple_value, replaced), value.index)
    if isinstance(value, relax.Call):
        return relax.Call(value.op, [substitute(argument, replaced) for argument in value.args], value.attrs, value.ty_args)
    return value


def _variables(value: Any) -> Iterator[Any]:
    if isinstance(value, relax.Var):
        yield value
    elif isinstance(value, relax.Tuple):
        for field in value.fields:
            yield from _variables(field)


def use_counts(function: relax.Function) -> dict[Any, int]:
    """How often each variable of a function is read, its return included."""
    counts: dict[Any, int] = {}
    for item in [*(binding.value for binding in bindings_of(function)), function.body.body]:
        for variable in variables_read(item):
            counts[variable] = counts.get(variable, 0) + 1
    return counts


def variables_read(value: Any) -> Iterator[Any]:
    """The variables that an expression reads, in order, and as often as it does."""
    if isinstance(value, relax.Call):
        for argument in value.args:
            yield from variables_read(argument)
    elif isinstance(value, relax.TupleGetItem):
        yield from variables_read(value.tuple_value)
    else:
        yield from _variables(value)
