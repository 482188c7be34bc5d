"""The data flow between the kernel calls of a lowered module."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from tvm import relax

from workbench.engines.relax.rewriting import bindings_of, operator_name, variables_read
from workbench.engines.relax.source_graph import tensors_of_type
from workbench.records.graph import INPUT, KERNEL, OUTPUT, KernelNode
from workbench.records.profile import TensorShape


def kernel_graph(main: relax.Function, *, inputs: Sequence[str], outputs: Sequence[str], input_count: int) -> tuple[KernelNode, ...]:
    """One node for each input, for each call of a kernel in execution order, and for each output.

    Args:
        main: The lowered function; its parameters are the model's inputs, then weights.
        inputs: Names of the inputs in the source model, if they are as many.
        outputs: Names of the outputs in the source model, if they are as many.
        input_count: Number of parameters that are inputs.
    """
    named = len(inputs) == input_count
    nodes: list[KernelNode] = []
    sources: dict[Any, tuple[int, ...]] = {}
    weights: dict[Any, TensorShape] = {}
    for index, parameter in enumerate(main.params):
        tensors = tensors_of_type(parameter.ty)
        if index < input_count:
            sources[parameter] = (len(nodes),)
            nodes.append(KernelNode(INPUT, inputs[index] if named else str(parameter.name), outputs=tensors))
        elif tensors:
            weights[parameter] = tensors[0]
    rows = 0
    tuples: dict[Any, Any] = {}
    for binding in bindings_of(main):
        read = list(variables_read(binding.value))
        reads = tuple(source for variable in read for source in sources.get(variable, ()))
        if isinstance(binding.value, relax.Tuple):
            tuples[binding.var] = binding.value
        if operator_name(binding.value) != "relax.call_tir":
            sources[binding.var] = tuple(dict.fromkeys(reads))
            continue
        sources[binding.var] = (len(nodes),)
        own = tuple(weights[variable] for variable in read if variable in weights)
        name = str(binding.value.args[0].name_hint)
        nodes.append(KernelNode(KERNEL, name, reads=reads, outputs=tensors_of_type(binding.var.ty), weights=own, row=rows))
        rows += 1
    results = list(_fields(main.body.body, tuples))
    names = outputs if len(outputs) == len(results) else [f"output {index}" if len(results) > 1 else "output" for index in range(len(results))]
    for name, result in zip(names, results, strict=True):
        reads = tuple(source for variable in variables_read(result) for source in sources.get(variable, ()))
        nodes.append(KernelNode(OUTPUT, name, reads=reads, outputs=tensors_of_type(result.ty)))
    return tuple(nodes)


def _fields(value: Any, tuples: dict[Any, Any]) -> Iterator[Any]:
    """What a function returns, one by one."""
    if isinstance(value, relax.Var) and value in tuples:
        value = tuples[value]
    if isinstance(value, relax.Tuple):
        for item in value.fields:
            yield from _fields(item, tuples)
    else:
        yield value
