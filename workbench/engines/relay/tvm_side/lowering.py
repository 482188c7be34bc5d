"""The imported model optimised once, and code generated for what came out: so each row is tied to its Relay function by construction."""

from __future__ import annotations

import json
from typing import Any

import tvm
from tvm import relay
from tvm.relay.backend import graph_executor_codegen

from .failing import MODEL, Refusal
from .graph import describe
from .held import Held, Kernel, Lowered
from .importing import dataflow, tensors_of
from .targets import last_line
from .wire import Blob

PREFIX = "tvmgen_default_"
_OPT_LEVEL = 3
_NO_NODE = "__nop"
_ALTERS_LAYOUT = "AlterOpLayout"
_KEEPS_NO_SPANS = "ToBasicBlockNormalForm"
"""A pass for control flow, which a model of the graph executor has none of; it would lose all spans."""


def lower(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Optimise what was imported for the target, with ``fusion`` or without, and hold what came out."""
    del blobs
    source = held.source
    if source is None:
        raise RuntimeError("no model was imported")
    steps: list[str] = []
    config = {} if arguments["fusion"] else {"relay.FuseOps.max_depth": 1}
    disabled = [_KEEPS_NO_SPANS, *([_ALTERS_LAYOUT] if source.is_operator else [])]
    options = {"opt_level": _OPT_LEVEL, "config": config, "disabled_pass": disabled, "instruments": _told(steps, progress)}
    weights = {name: tvm.nd.array(value) for name, value in source.params.items()}
    try:
        with tvm.transform.PassContext(**options):
            module, _ = relay.optimize(source.module, held.target, weights)
    except Exception as error:
        raise Refusal(
            MODEL, f"The old TVM cannot optimise the model for {held.target.kind.name}: {last_line(error)}.", "-v shows its whole text."
        ) from error
    progress("lower: generate code", 0.0)
    lowered = take_up(module, held.target)
    lowered.facts = describe(source, lowered)
    held.lowered, held.source = lowered, None
    return {"steps": list(dict.fromkeys(steps)), **lowered.facts}


def take_up(module: Any, target: Any) -> Lowered:
    """The kernels of an optimised module and their calls, in the order in which the graph executor makes them."""
    lowered = Lowered(module)
    graph, _, lowered.params = generate(module, target)
    lowered.graph = graph
    described = json.loads(graph)
    nodes = [(number, node) for number, node in enumerate(described["nodes"]) if node["op"] == "tvm_op"]
    calls = primitive_calls(module["main"].body)
    if len(nodes) != len(calls):
        raise RuntimeError(f"the graph has {len(nodes)} nodes, and the optimised module {len(calls)} calls")
    for (number, node), call in zip(nodes, calls):
        function, attributes = call.op, node["attrs"]
        own = str(function.attrs["hash"]) if "hash" in function.attrs.keys() else ""
        if own and own != attributes.get("hash", own):
            raise RuntimeError(f"node {number} of the graph is not the call that it should be")
        symbol = attributes["func_name"]
        if symbol == _NO_NODE:
            continue
        name = symbol[len(PREFIX) :] if symbol.startswith(PREFIX) else symbol
        lowered.calls.append(name)
        lowered.nodes.append(number)
        if name not in lowered.kernels:
            lowered.kernels[name] = Kernel(
                name,
                symbol,
                function,
                structural_hash(function),
                [tensor for parameter in function.params for tensor in tensors_of(parameter.checked_type)],
                tensors_of(function.ret_type),
            )
    lowered.inputs = [(parameter.name_hint, *tensor) for parameter in module["main"].params for tensor in tensors_of(parameter.checked_type)[:1]]
    return lowered


def generate(module: Any, target: Any) -> tuple[str, Any, dict[str, Any]]:
    """The graph, the lowered functions by target, and the constants, of an optimised module; the surrounding context decides the schedules."""
    with tvm.transform.PassContext(opt_level=_OPT_LEVEL):
        codegen = graph_executor_codegen.GraphExecutorCodegen(None, target)
        graph, functions, params = codegen.codegen(module, module["main"])
    return graph, functions, {name: value.numpy() for name, value in params.items()}


def primitive_calls(body: Any) -> list[Any]:
    """The calls of fused functions, in execution order."""
    return [node for node in dataflow(body) if isinstance(node, relay.Call) and isinstance(node.op, relay.Function)]


def structural_hash(function: Any) -> str:
    """Hash of a function's structure, in 16 hexadecimal digits."""
    return format(tvm.ir.structural_hash(function) & (2**64 - 1), "016x")


def _told(steps: list[str], progress: Any) -> list[Any]:
    """What tells of each pass; nothing where this TVM has no such thing."""
    if not hasattr(tvm, "instrument"):
        return []

    @tvm.instrument.pass_instrument
    class Telling:
        def run_before_pass(self, module: Any, info: Any) -> None:
            del module
            name = str(info.name)
            if name not in ("InferType", "sequential"):
                steps.append(name)
                progress(f"lower: {name}", 0.0)

    return [Telling()]


CALLS = {"lower": lower}
