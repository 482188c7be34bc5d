"""Parser of Relay text as printed by TVM 0.8 to 0.18, from text to `syntax.Module`; it knows no operator and needs no TVM."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from workbench.errors import ModelError
from workbench.legacy.relay import syntax
from workbench.legacy.relay.lexer import Cursor, Source
from workbench.legacy.relay.literals import (
    WORDS,
    at_attribute,
    parse_attribute_pair,
    parse_meta,
    parse_number,
    parse_string,
)
from workbench.legacy.relay.metadata import parse_metadata
from workbench.legacy.relay.types import is_dtype, parse_type, parse_type_comment
from workbench.legacy.relay.walk import walk

_OPENING = re.compile(
    r"(?:\s|/\*.*?\*/|//[^\n]*\n)*(?P<version>v\d+\.\d+\.\d+\s)?\s*"
    r"(?P<program>\#\[version\b|def\s*@|fn\s*[(\[]|free_var\s*%|type\s+\w+|extern\s+type|import\s*\"|%\w+\s*=|let\s*%)",
    re.DOTALL,
)
_REFUSED = {
    "if": "a conditional (if/else)",
    "match": "a match on an algebraic data type",
    "match?": "a match on an algebraic data type",
    "ref": "a reference cell",
    "ref_read": "a reference cell",
    "ref_write": "a reference cell",
}
_NodeT = TypeVar("_NodeT", bound=syntax.Expr)
_ItemT = TypeVar("_ItemT")


def parse_relay(text: str) -> syntax.Module:
    """Parse a module (``def @main(...)``), a bare function (``fn (...)``) or an expression with its ``free_var`` lines.

    Raises:
        ModelError: The text is no Relay, is not complete, or uses a form that is not supported; line and column are in the message.
    """
    opening = _OPENING.match(text)
    if opening is None:
        first = next((line.strip() for line in text.splitlines() if line.strip()), "")
        shown = f"it begins with {first[:60]!r}" if first else "it is empty"
        raise ModelError(
            f"This is not Relay text: {shown} (line 1, column 1).",
            'Relay text begins with #[version = "0.0.5"], "def @main(" or "fn (", as print(module) of TVM 0.8 to 0.18 writes it.',
        )
    if opening["version"]:  # keep the offsets: blank the old version mark out
        start, end = opening.span("version")
        text = text[:start] + " " * (end - start) + text[end:]
    return _Parser(Source(text)).parse_module()


class _Parser:
    def __init__(self, source: Source) -> None:
        self._source = source
        self._cursor = Cursor(source)
        self._scopes: list[set[str]] = [set()]
        self._comment_types: dict[str, syntax.Type | None] = {}

    def parse_module(self) -> syntax.Module:
        cursor = self._cursor
        if cursor.accept("#["):
            cursor.expect("version")
            cursor.expect("=")
            parse_string(cursor)
            cursor.expect("]")
        functions: dict[str, syntax.Function] = {}
        if cursor.at("def"):
            while cursor.token.kind != "end":
                self._parse_definition(functions)
            if "main" not in functions:
                cursor.fail(f"the module has no function @main, only @{', @'.join(functions)}")
        else:
            self._refuse_type_definition()
            functions["main"] = self._parse_function() if cursor.at("fn") else self._parse_free_expression()
        if cursor.token.kind != "end":
            cursor.fail(f"expected the end of the text, found {cursor.describe()}")
        for function in functions.values():
            deque(walk(function), maxlen=0)  # refuses a tree that is too high
        return syntax.Module(functions, parse_metadata(self._source.metadata))

    def _refuse_type_definition(self) -> None:
        if self._cursor.token.text in ("type", "extern", "import"):
            self._cursor.fail(f"{self._cursor.token.text!r} definitions (algebraic data types) are not supported")

    def _parse_definition(self, functions: dict[str, syntax.Function]) -> None:
        self._refuse_type_definition()
        cursor = self._cursor
        line, column = cursor.position()
        cursor.expect("def")
        name = cursor.token.text[1:]
        if name in functions:
            cursor.fail(f"@{name} is defined twice")
        cursor.expect_kind("global")
        functions[name] = self._parse_signature_and_body(line, column)

    def _parse_function(self) -> syntax.Function:
        line, column = self._cursor.position()
        self._cursor.expect("fn")
        return self._parse_signature_and_body(line, column)

    def _parse_signature_and_body(self, line: int, column: int) -> syntax.Function:
        cursor = self._cursor
        if cursor.at("["):
            cursor.fail("a function with type parameters is not supported")
        params, attributes = self._parse_list(self._parse_parameter)
        result_type = parse_type(cursor) if cursor.accept("->") else None
        cursor.expect("{")
        names = {param.name for param in params}
        if len(names) < len(params):
            cursor.fail("two parameters of a function have the same name")
        self._scopes.append(names)
        body = self._parse_block()
        self._scopes.pop()
        cursor.expect("}")
        return syntax.Function(line, column, tuple(params), result_type, attributes, body)

    def _parse_parameter(self) -> syntax.Parameter:
        line, column = self._cursor.position()
        name = self._cursor.expect_kind("variable").text[1:]
        self._skip_annotation()
        annotation = parse_type(self._cursor) if self._cursor.accept(":") else self._commented_type()
        return syntax.Parameter(name, annotation, line, column)

    def _skip_annotation(self) -> None:
        """``{virtual_device=VirtualDevice(...)}`` after a variable's name."""
        if self._cursor.at("{"):
            self._cursor.skip_balanced()

    def _parse_free_expression(self) -> syntax.Function:
        line, column = self._cursor.position()
        params: list[syntax.Parameter] = []
        body = self._parse_block(params)
        return syntax.Function(line, column, tuple(params), None, {}, body)

    def _parse_block(self, free: list[syntax.Parameter] | None = None) -> syntax.Block:
        cursor = self._cursor
        line, column = cursor.position()
        bindings: list[syntax.Binding] = []
        while True:
            if free is not None and cursor.accept("free_var"):
                free.append(self._parse_parameter())
                self._scopes[-1].add(free[-1].name)
                cursor.accept(";")
            elif cursor.at("let") or self._at_binding():
                bindings.append(self._parse_binding())
                cursor.expect(";")
            else:
                break
        result = self._parse_expression()
        return syntax.Block(line, column, tuple(bindings), result)

    def _at_binding(self) -> bool:
        return self._cursor.token.kind == "variable" and self._cursor.following.text == "="

    def _parse_binding(self) -> syntax.Binding:
        cursor = self._cursor
        line, column = cursor.position()
        if cursor.accept("let"):
            target = self._parse_parameter()
            name = target.name
        else:
            name = cursor.expect_kind("variable").text[1:]
        cursor.expect("=")
        value = self._parse_expression()
        self._scopes[-1].add(name)
        return syntax.Binding(name, value, line, column)

    def _parse_expression(self) -> syntax.Expr:
        """A primary expression, then any number of calls and tuple accesses."""
        self._cursor.enter()
        value = self._parse_primary()
        while True:
            if self._cursor.at("("):
                value = self._parse_call(value)
            elif self._cursor.at(".") and self._cursor.following.kind == "number":
                self._cursor.advance()
                value = self._apply_indices(value, "." + self._cursor.advance().text)
            else:
                break
        self._cursor.leave()
        if isinstance(value, syntax.Operator):
            self._cursor.fail(f"{value.name!r} is no value: only a call of an operator is supported here")
        return value

    def _apply_indices(self, value: syntax.Expr, indices: str) -> syntax.Expr:
        """``.0`` or ``.0.1`` after a tuple."""
        for index in indices.split(".")[1:]:
            if not index.isdecimal() or len(index) > 6:
                self._cursor.fail(f"{index!r} is no index of a tuple")
            value = self._typed(syntax.TupleGet(value.line, value.column, value, int(index)))
        return value

    def _parse_primary(self) -> syntax.Expr:
        cursor = self._cursor
        line, column = cursor.position()
        token = cursor.token
        if token.kind == "variable":
            return self._parse_variable()
        if token.kind == "global":
            cursor.advance()
            return syntax.GlobalVar(line, column, token.text[1:])
        if token.kind == "number":
            value, dtype = parse_number(cursor)
            return self._typed(syntax.Constant(line, column, value, dtype))
        if cursor.at("("):
            return self._parse_tuple()
        if cursor.accept("{"):
            return self._parse_scope()
        if token.kind == "name":
            return self._parse_named()
        return cursor.fail(f"expected an expression, found {cursor.describe()}")

    def _parse_variable(self) -> syntax.Expr:
        """``%x``, or ``%x.0`` where ``x`` and not ``x.0`` is a name in scope."""
        line, column = self._cursor.position()
        name = self._cursor.token.text[1:]
        known = name
        while not any(known in scope for scope in self._scopes):
            shorter = re.sub(r"\.\d+$", "", known)
            if shorter == known:
                self._cursor.fail(f"%{name} is used before it is defined")
            known = shorter
        self._cursor.advance()
        variable = self._typed(syntax.Var(line, column, known))
        return self._apply_indices(variable, name[len(known) :])

    def _parse_named(self) -> syntax.Expr:
        cursor = self._cursor
        line, column = cursor.position()
        name = cursor.token.text
        if name == "fn":
            return self._typed(self._parse_function())
        if name == "meta" and cursor.following.text == "[":
            return self._typed(parse_meta(cursor))
        if name == "let":
            return self._parse_block()
        if name in _REFUSED:
            cursor.fail(f"{_REFUSED[name]} is not supported")
        cursor.advance()
        if name in ("True", "False"):
            return self._typed(syntax.Constant(line, column, WORDS[name] is True, "bool"))
        if is_dtype(name) and cursor.accept("("):  # int64(5), as 0.8 prints it
            value, _ = parse_number(cursor)
            cursor.expect(")")
            return self._typed(syntax.Constant(line, column, value, "bool" if name in ("uint1", "int1") else name))
        return syntax.Operator(line, column, name)

    def _parse_tuple(self) -> syntax.Expr:
        """``(a, b)``, ``()``, ``(a,)``, or an expression in parentheses."""
        cursor = self._cursor
        line, column = cursor.position()
        cursor.expect("(")
        fields: list[syntax.Expr] = []
        comma = False
        while not cursor.at(")"):
            fields.append(self._parse_expression())
            if not cursor.accept(","):
                break
            comma = True
        cursor.expect(")")
        if len(fields) == 1 and not comma:
            return fields[0]
        return self._typed(syntax.Tuple(line, column, tuple(fields)))

    def _parse_scope(self) -> syntax.Expr:
        """``{ ... }``, after its opening brace."""
        self._scopes.append(set())
        block = self._parse_block()
        self._scopes.pop()
        self._cursor.expect("}")
        return block

    def _parse_list(self, parse_item: Callable[[], _ItemT]) -> tuple[list[_ItemT], dict[str, syntax.Attribute]]:
        """Items and attributes between parentheses."""
        cursor = self._cursor
        cursor.expect("(")
        items: list[_ItemT] = []
        attributes: dict[str, syntax.Attribute] = {}
        while not cursor.at(")"):
            if at_attribute(cursor):
                key, value = parse_attribute_pair(cursor)
                if key in attributes:
                    cursor.fail(f"the attribute {key} stands twice in one place")
                attributes[key] = value
            else:
                items.append(parse_item())
            if not cursor.accept(","):
                break
        cursor.expect(")")
        return items, attributes

    def _parse_call(self, callee: syntax.Expr) -> syntax.Expr:
        args, attributes = self._parse_list(self._parse_expression)
        return self._typed(syntax.Call(callee.line, callee.column, callee, tuple(args), attributes))

    def _typed(self, node: _NodeT) -> _NodeT:
        """The node with the type of the comment that follows it, if there is one."""
        annotation = self._commented_type()
        return node if annotation is None else replace(node, type=annotation)

    def _commented_type(self) -> syntax.Type | None:
        comment = self._source.type_comments.get(self._cursor.index)
        if comment is None:
            return None
        if comment not in self._comment_types:
            self._comment_types[comment] = parse_type_comment(comment)
        return self._comment_types[comment]
