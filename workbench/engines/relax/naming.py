"""Gives every binding of an imported module a name that refers to its origin."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.rewriting import Binding, Scope, bindings_of, rewrite_main


def origin_indices(function: relax.Function, table: OriginTable) -> dict[Any, int | None]:
    """Index of the origin of each bound variable.

    A named binding has its own; a field of a tuple, or a second name, has that of what it reads; a binding without a name belongs to
    the next named one, since the parts of an expression are bound right before it; trailing ones belong to the last named one.
    """
    indices: dict[Any, int | None] = {}
    waiting: list[Any] = []
    latest: int | None = None
    for binding in bindings_of(function):
        index = table.index(binding.var.name)
        value = binding.value
        if index is None and isinstance(value, relax.TupleGetItem):
            index = indices.get(value.tuple_value)
        elif index is None and isinstance(value, relax.Var):
            index = indices.get(value)
        indices[binding.var] = index
        if index is None:
            waiting.append(binding.var)
            continue
        latest = index
        indices.update(dict.fromkeys(waiting, index))
        waiting.clear()
    indices.update(dict.fromkeys(waiting, latest))
    return indices


def name_bindings(module: tvm.IRModule, table: OriginTable) -> tvm.IRModule:
    """The module with every binding of ``main`` named after its origin; plain second names are removed."""
    indices = origin_indices(module["main"], table)

    def rename(binding: Binding, scope: Scope) -> Any:
        del scope
        index = indices[binding.var]
        binding.name = binding.var.name if index is None else table.name_hint(index)
        return binding.value

    return rewrite_main(module, rename)
