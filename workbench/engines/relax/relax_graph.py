"""What the calls in a Relax ``main`` read and give."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax

from workbench.engines.relax.rewriting import bindings_of, operator_name, variables_read
from workbench.engines.relax.source_graph import Described, SourceGraph, tensors_of_type, with_attributes
from workbench.records.profile import TensorShape


class RelaxGraph:
    """Describes the operators of a function, binding by binding, in order.

    Args:
        graph: Gets the descriptions.
        main: The function; its parameters are the model's inputs.
    """

    def __init__(self, graph: SourceGraph, main: relax.Function) -> None:
        self._graph = graph
        self._main = main
        self._sources: dict[Any, tuple[int, ...]] = {
            parameter: (graph.add_input(str(parameter.name), tensors_of_type(parameter.ty)),) for parameter in main.params
        }
        self._tuples: dict[Any, Any] = {}
        self._casts = {binding.var: binding.value for binding in bindings_of(main) if isinstance(binding, relax.MatchCast)}

    def call(self, binding: Any, number: int) -> None:
        """Describe a bound call as the operator of a number."""
        value = binding.value
        described = Described(reads=self._reads(value), outputs=tensors_of_type(binding.var.ty), weights=tuple(_weights(value)))
        self._graph.describe(number, with_attributes(described, _attributes(value)))
        self._sources[binding.var] = (number,)

    def other(self, binding: Any) -> None:
        """Follow a binding that is no call: a tuple, a field of one, a second name."""
        self._sources[binding.var] = tuple(dict.fromkeys(self._reads(binding.value)))
        if isinstance(binding.value, relax.Tuple):
            self._tuples[binding.var] = binding.value

    def finish(self) -> None:
        """Add the function's results as the model's outputs."""
        result = self._main.body.body
        result = self._tuples.get(result, result) if isinstance(result, relax.Var) else result
        fields = list(result.fields) if isinstance(result, relax.Tuple) else [result]
        for index, field in enumerate(fields):
            self._graph.add_output(f"output {index}" if len(fields) > 1 else "output", self._reads(field), tensors_of_type(field.ty))

    def _reads(self, value: Any) -> tuple[int, ...]:
        return tuple(source for variable in variables_read(value) for source in self._sources_of(variable))

    def _sources_of(self, variable: Any) -> tuple[int, ...]:
        return self._reads(self._casts[variable]) if variable in self._casts else self._sources.get(variable, ())


def _weights(value: Any) -> list[TensorShape]:
    """The constant tensors that an expression reads; single numbers are no weights."""
    if isinstance(value, tvm.ir.GenericConst):
        return [tensor for tensor in tensors_of_type(value.ty) if tensor.shape]
    parts = value.args if isinstance(value, relax.Call) else value.fields if isinstance(value, relax.Tuple) else ()
    return [tensor for part in parts for tensor in _weights(part)]


def _attributes(call: relax.Call) -> dict[str, Any]:
    """Attributes of a call, and its arguments that are no tensors: the shape of a reshape."""
    found: dict[str, Any] = {}
    if call.attrs is not None and operator_name(call) != "relax.call_tir":
        found.update((name, getattr(call.attrs, name)) for name in _fields_of(call.attrs))
    for position, argument in enumerate(call.args):
        if isinstance(argument, relax.ShapeExpr):
            found["shape"] = [_plain_value(size) or str(size) for size in argument.values]
        elif (value := _plain_value(argument)) is not None:
            found[f"argument {position}"] = value
    return found


def _plain_value(argument: Any) -> Any:
    """A number or text that is an argument, or a list of such; None if it is a tensor."""
    if isinstance(argument, tvm.tirx.IntImm | tvm.tirx.FloatImm | tvm.ir.StringImm):
        return argument.value
    if isinstance(argument, relax.Tuple):
        values = [_plain_value(field) for field in argument.fields]
        return values if values and None not in values else None
    return None


def _fields_of(attributes: Any) -> list[str]:
    """Names of the attributes' fields."""
    if isinstance(attributes, tvm.ir.DictAttrs):
        return [str(name) for name in attributes.keys()]  # noqa: SIM118 - no mapping, but TVM's own class
    return [field.name for field in type(attributes).__tvm_ffi_type_info__.fields]
