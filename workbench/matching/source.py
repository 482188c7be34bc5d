"""A Relay program as a graph of operators: functions inlined, tuples taken apart, each operator with its place in the text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from workbench.errors import ModelError
from workbench.legacy.relay import syntax
from workbench.legacy.relay.roles import find_inputs, find_uses
from workbench.matching.shapes import Shape, infer_shape

MAX_OPERATORS = 200_000


@dataclass(frozen=True)
class Tensor:
    """A value: of an operator, or a parameter or constant.

    Attributes:
        operator: Place of the operator in the graph; None for a parameter or constant.
        shape: Its shape; None where it is not known.
        output: Which of the operator's outputs it is.
        dtype: Its dtype; empty where it is not known.
        parameter: Name of the program's parameter that it is; empty for anything else.
    """

    operator: int | None
    shape: Shape | None
    output: int = 0
    dtype: str = ""
    parameter: str = ""


@dataclass(frozen=True)
class Operator:
    """One call of a Relay operator.

    Attributes:
        name: E.g. ``nn.conv2d``.
        inputs: Its tensors; those of a tuple one by one.
        attributes: What the text gives.
        shape: Of its (first) output; None where it is not known.
        line: Where it stands, from 1.
        column: Where it stands, from 1.
        call: Number of the fused function's call that it belongs to; None in a source program.
        function_hash: Hash of that function, where the text has it.
        variable: The variable that the text binds it to, without the percent sign; empty for one that stands within another or is the result.
        outputs: The tensors that it gives; empty where they are not known.
    """

    name: str
    inputs: tuple[Tensor, ...]
    attributes: Mapping[str, syntax.Attribute]
    shape: Shape | None
    line: int
    column: int
    call: int | None = None
    function_hash: str = ""
    variable: str = ""
    outputs: tuple[Tensor, ...] = ()

    @property
    def place(self) -> str:
        """``line:column``."""
        return f"{self.line}:{self.column}"


@dataclass
class SourceGraph:
    """Operators in an order in which they can run, what the program is given and what it gives.

    Attributes:
        inputs: The parameters that are inputs; the others are weights.
    """

    operators: list[Operator] = field(default_factory=list)
    outputs: list[Tensor] = field(default_factory=list)
    inputs: list[Tensor] = field(default_factory=list)

    @property
    def is_fused(self) -> bool:
        """True if old TVM printed it after it had fused and rewritten it."""
        return any(operator.call is not None for operator in self.operators)


_Value: TypeAlias = "Tensor | tuple[_Value, ...] | syntax.Function"


def source_graph(module: syntax.Module) -> SourceGraph:
    """The graph of a program's main function.

    Raises:
        ModelError: It calls what it does not define, or is too large once its functions are inlined.
    """
    return _Reader(module).read()


class _Reader:
    def __init__(self, module: syntax.Module) -> None:
        self._module = module
        self._graph = SourceGraph()
        self._calls = 0

    def read(self) -> SourceGraph:
        main = self._module.main
        parameters = {item.name: Tensor(None, _shape_of(item.type), 0, _dtype_of(item.type), item.name) for item in main.params}
        scope: dict[str, _Value] = dict(parameters)
        self._graph.inputs = [parameters[name] for name in self._inputs(main)]
        self._graph.outputs = list(_flat(self._block(main.body, scope, call=None, function_hash="")))
        return self._graph

    def _inputs(self, main: syntax.Function) -> list[str]:
        try:
            return find_inputs(main, find_uses(self._module), ())
        except ModelError:  # of what cannot be followed all parameters are weights but the first
            return [parameter.name for parameter in main.params[:1]]

    def _block(self, block: syntax.Expr, scope: dict[str, _Value], *, call: int | None, function_hash: str) -> _Value:
        if not isinstance(block, syntax.Block):
            return self._value(block, scope, call=call, function_hash=function_hash)
        for binding in block.bindings:
            scope[binding.name] = self._value(binding.value, scope, call=call, function_hash=function_hash)
            self._name(binding)
        return self._value(block.result, scope, call=call, function_hash=function_hash)

    def _name(self, binding: syntax.Binding) -> None:
        """Let the operator that was just read have the name of its variable."""
        operators, value = self._graph.operators, binding.value
        if isinstance(value, syntax.Call) and isinstance(value.callee, syntax.Operator) and operators:
            operators[-1] = replace(operators[-1], variable=binding.name)

    def _value(self, node: syntax.Expr, scope: dict[str, _Value], *, call: int | None, function_hash: str) -> _Value:
        match node:
            case syntax.Var():
                if node.name not in scope:
                    raise _unknown(node, f"%{node.name}")
                return scope[node.name]
            case syntax.Constant() | syntax.MetaRef():
                return Tensor(None, () if isinstance(node, syntax.Constant) else _shape_of(node.type), 0, _dtype_of(node.type))
            case syntax.Tuple():
                return tuple(self._value(item, scope, call=call, function_hash=function_hash) for item in node.fields)
            case syntax.TupleGet():
                return _item(self._value(node.value, scope, call=call, function_hash=function_hash), node)
            case syntax.Block():
                return self._block(node, dict(scope), call=call, function_hash=function_hash)
            case syntax.Function():
                return node
            case syntax.Call():
                return self._call(node, scope, call=call, function_hash=function_hash)
            case _:
                raise _unknown(node, "an expression that is no value")

    def _call(self, node: syntax.Call, scope: dict[str, _Value], *, call: int | None, function_hash: str) -> _Value:
        arguments = [self._value(argument, scope, call=call, function_hash=function_hash) for argument in node.args]
        if isinstance(node.callee, syntax.Operator):
            return self._operator(node, node.callee.name, list(_flat(tuple(arguments))), call=call, function_hash=function_hash)
        if isinstance(node.callee, syntax.GlobalVar):
            function: _Value | None = self._module.functions.get(node.callee.name)
        else:
            function = self._value(node.callee, scope, call=call, function_hash=function_hash)
        if not isinstance(function, syntax.Function) or len(function.params) != len(arguments):
            raise _unknown(node, "what is no function of as many arguments")
        inner = {**scope, **{parameter.name: argument for parameter, argument in zip(function.params, arguments, strict=True)}}
        if call is None and function.attributes.get("Primitive") in (1, True):
            self._calls += 1
            return self._block(function.body, inner, call=self._calls - 1, function_hash=str(function.attributes.get("hash", "")))
        return self._block(function.body, inner, call=call, function_hash=function_hash)

    def _operator(self, node: syntax.Call, name: str, inputs: list[Tensor], *, call: int | None, function_hash: str) -> _Value:
        if len(self._graph.operators) >= MAX_OPERATORS:
            raise ModelError(f"The program has more than {MAX_OPERATORS:,} operators.", "Give a smaller one.")
        types = node.type.fields if isinstance(node.type, syntax.TupleType) else (node.type,)
        shape = _shape_of(types[0]) or infer_shape(name, [tensor.shape for tensor in inputs], node.attributes)
        place = len(self._graph.operators)
        outputs = tuple(
            Tensor(place, _shape_of(item) if number or shape is None else shape, number, _dtype_of(item)) for number, item in enumerate(types)
        )
        self._graph.operators.append(
            Operator(name, tuple(inputs), node.attributes, shape, node.line, node.column, call=call, function_hash=function_hash, outputs=outputs)
        )
        return outputs if isinstance(node.type, syntax.TupleType) else outputs[0]


def _item(value: _Value, node: syntax.TupleGet) -> _Value:
    if isinstance(value, tuple):
        if not 0 <= node.index < len(value):
            raise _unknown(node, f"item {node.index} of a tuple of {len(value)}")
        return value[node.index]
    if isinstance(value, Tensor):  # an operator whose tuple type the text does not tell
        return Tensor(value.operator, value.shape if node.index == 0 else None, node.index)
    raise _unknown(node, "an item of a function")


def _flat(value: _Value) -> Sequence[Tensor]:
    if isinstance(value, Tensor):
        return (value,)
    return [tensor for item in value for tensor in _flat(item)] if isinstance(value, tuple) else ()


def _shape_of(kind: syntax.Type | None) -> Shape | None:
    if not isinstance(kind, syntax.TensorType) or None in kind.shape:
        return None
    return tuple(size for size in kind.shape if size is not None)


def _dtype_of(kind: syntax.Type | None) -> str:
    return kind.dtype if isinstance(kind, syntax.TensorType) else ""


def _unknown(node: syntax.Node, what: str) -> ModelError:
    return ModelError(f"Relay text, line {node.line}, column {node.column}: it uses {what}.", "Give the whole program.")
