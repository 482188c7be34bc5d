"""Walks over Relay syntax trees that need no recursion, and the limit of a tree's height."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from workbench.errors import ModelError
from workbench.legacy.relay import syntax
from workbench.legacy.relay.lexer import MAX_DEPTH


def children(node: syntax.Expr) -> tuple[syntax.Expr, ...]:
    """The expressions that stand directly inside another, in the order of the text."""
    match node:
        case syntax.Call():
            return (node.callee, *node.args)
        case syntax.Tuple():
            return node.fields
        case syntax.TupleGet():
            return (node.value,)
        case syntax.Block():
            return (*(binding.value for binding in node.bindings), node.result)
        case syntax.Function():
            return (node.body,)
        case syntax.Var() | syntax.GlobalVar() | syntax.Operator() | syntax.Constant() | syntax.MetaRef():
            return ()
        case _:
            assert_never(node)


def walk(root: syntax.Expr) -> Iterator[syntax.Expr]:
    """An expression and all that stand inside it, in the order of the text.

    Raises:
        ModelError: The tree is higher than a reader of it could follow with recursion.
    """
    waiting: list[tuple[syntax.Expr, int]] = [(root, 0)]
    while waiting:
        node, height = waiting.pop()
        if height > 2 * MAX_DEPTH:  # a scope counts twice, as a function and as its block
            raise ModelError(
                f"Relay text, line {node.line}, column {node.column}: more than {MAX_DEPTH} levels of nesting.",
                "Bind parts of the expression to variables.",
            )
        yield node
        waiting.extend((child, height + 1) for child in reversed(children(node)))
