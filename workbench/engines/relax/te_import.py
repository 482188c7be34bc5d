"""Turns a TE workload into a program of one kernel, which keeps the workload's name and lists its stages as origins."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import prod
from typing import Any

import tvm
import tvm_ffi
from tvm import relax, te

from workbench.engines.relax.memory import memory_limit
from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.program import Program
from workbench.engines.relax.source_graph import Described, SourceGraph, with_attributes
from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.records.origin import Origin
from workbench.records.profile import TensorShape
from workbench.workloads import name_of

_INT32 = 2**31 - 1
_SIZES = "Check the sizes in the arguments (--args)."
_EXAMPLE = "Return a list of TE tensors, inputs first and outputs last, like [data, weight, output]."


def import_workload(function: Callable[..., Any], arguments: Sequence[Any], *, name: str = "") -> Program:
    """Call a TE workload and import what it returns; this runs the user's code.

    Args:
        function: Returns a list of TE tensors: the inputs (all of its placeholders), then the outputs.
        arguments: Its positional arguments.
        name: Name of the kernel; by default the one under which the function is registered.

    Raises:
        ModelError: The function fails, or returns something else.
    """
    label = name or name_of(function)
    inputs, outputs = _split(_call(function, arguments, label), label)
    stages = list(_stages(outputs))
    _check(inputs, outputs, stages, label)
    try:
        kernel = te.create_prim_func([*inputs, *outputs])
    except Exception as error:  # TVM raises any class of error on expressions that it cannot make a PrimFunc of
        raise ModelError(f"TVM cannot make a kernel of the workload {plain(label)}: {plain(str(error).strip(), 400)}", _EXAMPLE) from error
    table = OriginTable()
    module = _main_around(kernel.without_attr("global_symbol"), _kernel_name(label), inputs, outputs, hint=table.add_group(_origins(stages)))
    return Program(module=module, origins=table, graph=_graph(inputs, outputs, stages))


def _call(function: Callable[..., Any], arguments: Sequence[Any], label: str) -> Any:
    try:
        return function(*arguments)
    except Exception as error:  # the user's function may raise anything
        shown = plain(", ".join(map(repr, arguments)), 120)
        reason = plain(f"{type(error).__name__}: {str(error).strip()}", 400)
        raise ModelError(f"The workload {plain(label)}({shown}) raised {reason}", "Check the arguments (--args) and the function.") from error


def _split(returned: Any, label: str) -> tuple[list[Any], list[Any]]:
    """The placeholders and the computed tensors that a workload returned."""
    where = f"The workload {plain(label)} returned"
    if isinstance(returned, te.Tensor):
        raise ModelError(f"{where} one tensor, {plain(returned.op.name)}, but not its inputs.", _EXAMPLE)
    if not isinstance(returned, list | tuple | tvm.ir.Array):
        raise ModelError(f"{where} {plain(type(returned).__name__)}.", _EXAMPLE)
    strangers = [position for position, item in enumerate(returned) if not isinstance(item, te.Tensor)]
    if strangers:
        kind = type(returned[strangers[0]]).__name__
        raise ModelError(f"{where} a list whose item {strangers[0]} is of type {plain(kind)}, not a TE tensor.", _EXAMPLE)
    first_output = next((position for position, tensor in enumerate(returned) if not _is_input(tensor)), len(returned))
    inputs, outputs = list(returned[:first_output]), list(returned[first_output:])
    late = [tensor.op.name for tensor in outputs if _is_input(tensor)]
    if not outputs or late:
        raise ModelError(f"{where} {f'the input {plain(late[0])} after an output' if late else 'no output'}.", _EXAMPLE)
    if len(set(returned)) != len(returned):
        raise ModelError(f"{where} the same tensor twice.", _EXAMPLE)
    return inputs, outputs


def _is_input(tensor: Any) -> bool:
    return isinstance(tensor.op, te.PlaceholderOp)


def _stages(outputs: Sequence[Any]) -> Iterator[Any]:
    """The operations that the outputs need, placeholders too, each after those it reads."""
    seen: set[Any] = set()
    waiting = [(tensor.op, False) for tensor in reversed(outputs)]
    while waiting:
        operation, is_ready = waiting.pop()
        if is_ready:
            yield operation
        elif operation not in seen:
            seen.add(operation)
            waiting.append((operation, True))
            waiting.extend((tensor.op, False) for tensor in reversed(operation.input_tensors))


def _check(inputs: Sequence[Any], outputs: Sequence[Any], stages: Sequence[Any], label: str) -> None:
    listed = {tensor.op for tensor in inputs}
    missing = [stage.name for stage in stages if isinstance(stage, te.PlaceholderOp) and stage not in listed]
    if missing:
        names = ", ".join(map(plain, missing))
        raise ModelError(f"The workload {plain(label)} reads {names}, which are not in the list it returned.", _EXAMPLE)
    for tensor in [*inputs, *outputs]:
        if not all(isinstance(size, tvm.tirx.IntImm) for size in tensor.shape):
            raise ModelError(f"The tensor {plain(tensor.op.name)} of {plain(label)} has a shape that is no number.", "Pass all sizes as arguments.")
    _check_sizes([*inputs, *outputs], label)


def _check_sizes(tensors: Sequence[Any], label: str) -> None:
    """Refuse tensors without elements, and those that cannot be held or indexed."""
    total = 0
    for tensor in tensors:
        shape = [int(size) for size in tensor.shape]
        where = f"The tensor {plain(tensor.op.name)} of {plain(label)} has the shape {tuple(shape)}"
        if any(size < 1 for size in shape):
            raise ModelError(f"{where}, with a dimension that is not positive.", _SIZES)
        element = tvm_ffi.dtype(str(tensor.dtype))
        total += prod(shape) * -(-element.bits * element.lanes // 8)
        if max(shape, default=1) <= _INT32 < prod(shape):
            raise ModelError(f"{where}, with more elements than the 32-bit indices of its kernel can count.", _SIZES)
    if total > memory_limit():
        raise ModelError(
            f"The inputs and outputs of {plain(label)} need {total / 2**30:.1f} GiB; "
            f"{memory_limit() / 2**30:.1f} GiB are the most that is used on this machine.",
            _SIZES,
        )


def _origins(stages: Sequence[Any]) -> list[Origin]:
    """One origin for each computed tensor, named as its block in the kernel."""
    taken: set[str] = set()
    origins: list[Origin] = []
    for stage in stages:
        if isinstance(stage, te.PlaceholderOp):
            continue
        kind = str(stage.tag).rpartition(",")[2] or re.sub(r"Op$", "", type(stage).__name__).lower()
        fields = [f"{stage.name}_v{field}" for field in range(stage.num_outputs)] if stage.num_outputs > 1 else [stage.name]
        origins.extend(Origin(op=kind, name=_unique(field, taken)) for field in fields)
    return origins


def _graph(inputs: Sequence[Any], outputs: Sequence[Any], stages: Sequence[Any]) -> SourceGraph:
    """The stages as a graph, numbered as `_origins` lists them."""
    graph = SourceGraph()
    sources = {(tensor.op, 0): graph.add_input(tensor.op.name, _tensors(tensor)) for tensor in inputs}
    number = 0
    for stage in stages:
        if isinstance(stage, te.PlaceholderOp):
            continue
        reads = tuple(sources[tensor.op, tensor.value_index] for tensor in stage.input_tensors)
        for field in range(stage.num_outputs):
            described = Described(reads=reads, outputs=_tensors(stage.output(field)))
            graph.describe(number, with_attributes(described, _axes(stage)))
            sources[stage, field] = number
            number += 1
    for tensor in outputs:
        graph.add_output(tensor.op.name, (sources[tensor.op, tensor.value_index],), _tensors(tensor))
    return graph


def _tensors(tensor: Any) -> tuple[TensorShape, ...]:
    return (TensorShape(tuple(int(size) if isinstance(size, tvm.tirx.IntImm) else -1 for size in tensor.shape), str(tensor.dtype)),)


def _axes(stage: Any) -> dict[str, Any]:
    """The loops of a stage: those of its result, and those that it sums over."""
    loops = {"axes": getattr(stage, "axis", ()), "over": getattr(stage, "reduce_axis", ())}
    found = {name: [f"{axis.var.name} < {axis.dom.extent}" for axis in axes] for name, axes in loops.items() if len(axes)}
    return {**found, **({"tag": str(stage.tag)} if stage.tag else {})}


def _unique(name: str, taken: set[str]) -> str:
    """The name, numbered as TVM numbers blocks if it is taken."""
    choice, number = name, 0
    while choice in taken:
        number += 1
        choice = f"{name}_{number}"
    taken.add(choice)
    return choice


def _kernel_name(label: str) -> str:
    """A name that is a symbol in the compiled module, and not that of the entry function."""
    name = re.sub(r"\W", "_", label, flags=re.ASCII).strip("_") or "workload"
    return f"workload_{name}" if name == "main" or name[0].isdigit() else name


def _main_around(kernel: Any, name: str, inputs: Sequence[Any], outputs: Sequence[Any], *, hint: str) -> tvm.IRModule:
    """A module whose ``main`` calls the kernel."""
    builder = relax.BlockBuilder()
    taken: set[str] = set()
    variables = [relax.Var(_unique(re.sub(r"\W", "_", tensor.op.name), taken), _type(tensor)) for tensor in inputs]
    types = [_type(tensor) for tensor in outputs]
    with builder.function("main", variables, attrs={"num_input": len(variables)}):
        with builder.dataflow():
            call = relax.call_tir(builder.add_func(kernel, name), variables, types if len(types) > 1 else types[0])
            result = builder.emit_output(call, name_hint=hint)
        builder.emit_func_output(result)
    return builder.get()


def _type(tensor: Any) -> relax.TensorType:
    return relax.TensorType([int(size) for size in tensor.shape], str(tensor.dtype))
