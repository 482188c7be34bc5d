"""Models into the old TVM: Relay text, Relay as JSON, ONNX, TE workloads; every call knows which operator of the source it is of."""

from __future__ import annotations

import importlib
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Callable, Iterable

import tvm
from tvm import relay

from .failing import ENVIRONMENT, MODEL, Refusal
from .held import Held, Source
from .naming import onnx_operators, plain_operators, text_operators
from .roles import find_inputs, random_weight, uses_of
from .targets import last_line
from .wire import Blob
from .workloads import BUNDLED, as_relay

_SPANS = "workbench"


def import_model(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> dict[str, Any]:
    """Hold the model of a ``kind`` at a ``path``, or a ``workload`` with ``args``; weights that it does not have are random, from ``seed``."""
    del blobs, progress
    held.lowered = held.source = None
    held.tasks.clear()
    held.source = source = _READERS[arguments["kind"]](arguments)
    return {"notes": source.notes}


def _relay_text(arguments: dict[str, Any]) -> Source:
    text = Path(arguments["path"]).read_text(encoding="utf-8")
    try:
        module = (getattr(relay, "fromtext", None) or tvm.parser.fromtext)(_whole(text))
    except Exception as error:
        raise Refusal(MODEL, f"The old TVM cannot read the Relay text: {last_line(error)}.", "Give a text as print(module) wrote it.") from error
    return _source(module, arguments, {}, lambda calls: text_operators(calls, arguments["names"]))


def _relay_json(arguments: dict[str, Any]) -> Source:
    text = Path(arguments["path"]).read_text(encoding="utf-8")
    try:
        module = tvm.ir.load_json(text)
    except Exception as error:
        raise Refusal(
            MODEL, f"The old TVM cannot read the module: {last_line(error)}.", "Write it with tvm.ir.save_json of a TVM of the same generation."
        ) from error
    if not isinstance(module, (tvm.IRModule, relay.Function)):
        raise Refusal(MODEL, "The file holds no module of Relay.", "Write it with tvm.ir.save_json(module).")
    return _source(module, arguments, {}, plain_operators)


def _onnx(arguments: dict[str, Any]) -> Source:
    try:
        import onnx
    except ImportError as error:
        raise Refusal(ENVIRONMENT, "The old Python has no package onnx.", 'Install it there: pip install "onnx<1.15".') from error
    try:
        model = onnx.load(arguments["path"])
        operators = [(node.op_type, node.name or (node.output[0] if node.output else "")) for node in model.graph.node]
        for node, (_, name) in zip(model.graph.node, operators):
            node.name = name  # the importer names what it makes by it
        shapes = {name: list(shape) for name, shape in arguments["shapes"].items()}
        outputs = [value.name for value in model.graph.output]
        _check_given(model.graph.input, shapes)
        module, params = relay.frontend.from_onnx(model, shape=shapes or None)
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(MODEL, f"The old TVM cannot import the ONNX model: {last_line(error)}.", "Try --engine relax, or another shape.") from error
    weights = {name: value.numpy() for name, value in params.items()}
    source = _source(module, arguments, weights, lambda calls: onnx_operators(calls, operators))
    source.outputs = outputs
    return source


def _check_given(inputs: Any, shapes: dict[str, list[int]]) -> None:
    """TVM takes any shape that is given, and some of its operators do not look at it."""
    for value in inputs:
        declared = [size.dim_value for size in value.type.tensor_type.shape.dim]
        given = shapes.get(value.name, declared)
        if len(given) != len(declared) or any(size not in (0, chosen) for size, chosen in zip(declared, given)):
            raise Refusal(MODEL, f"{value.name} has the shape {tuple(declared)}, not {tuple(given)}.", "Only unknown dimensions can be given.")


def _workload(arguments: dict[str, Any]) -> Source:
    name = arguments["workload"]
    if name in BUNDLED:
        return replace(_source(BUNDLED[name](*arguments["args"]), arguments, {}, plain_operators), is_operator=True)
    return replace(_source(_own_workload(arguments), arguments, {}, plain_operators), is_operator=True)


def prepare(held: Held, arguments: dict[str, Any], blobs: tuple[Blob, ...], progress: Any) -> None:
    """Make a ``workload`` of the user's known to this process, so that it can read functions that call it."""
    del held, blobs, progress
    _own_workload(arguments)


def _own_workload(arguments: dict[str, Any]) -> Any:
    """The Relay function of a workload of the user's, whose module is imported from a ``folder``."""
    name = arguments["workload"]
    module_name, _, function_name = name.partition(":")
    sys.path.insert(0, arguments["folder"])
    try:
        function: Any = importlib.import_module(module_name)
        for part in function_name.split("."):
            function = getattr(function, part)
        return as_relay(function, arguments["args"], name)
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(
            MODEL, f"The workload {name} fails in the old Python: {last_line(error)}.", "It has to import the old TVM, and return its TE tensors."
        ) from error
    finally:
        sys.path.remove(arguments["folder"])


_READERS: dict[str, Callable[[dict[str, Any]], Source]] = {"relay": _relay_text, "relay_json": _relay_json, "onnx": _onnx, "workload": _workload}


def _whole(text: str) -> str:
    """The text with the mark of its version, which the parser asks for."""
    return text if text.lstrip().startswith("#[version") else f'#[version = "0.0.5"]\n{text}'


def _source(module: Any, arguments: dict[str, Any], weights: dict[str, Any], name_them: Any) -> Source:
    """A module with numbered calls, all its weights, and its operators' names."""
    if not isinstance(module, tvm.IRModule):
        module = tvm.IRModule.from_expr(module)
    if "main" not in {item.name_hint for item in module.get_global_vars()} or not isinstance(module["main"], relay.Function):
        raise Refusal(MODEL, "The module has no Relay function main.", "Use --engine relax for Relax and TensorIR.")
    try:
        module = relay.transform.InferType()(module)
        module = relay.transform.InferType()(relay.transform.DefuseOps()(relay.transform.Inline()(module)))
    except Exception as error:
        raise Refusal(MODEL, f"The old TVM refuses the types of the model: {last_line(error)}.", "Correct its shapes.") from error
    main = module["main"]
    _check_static(main, arguments["shapes"], weights)
    order = list(dataflow(main.body))
    calls = [node for node in order if isinstance(node, relay.Call)]
    operators = name_them(calls)
    main = _numbered(main, order)
    uses = uses_of(calls)
    if weights:
        inputs = [item.name_hint for item in main.params if item.name_hint not in weights]
    else:
        inputs = find_inputs(main.params, uses, arguments["shapes"])
    notes = []
    for parameter in main.params:
        name = parameter.name_hint
        if name not in inputs and name not in weights:
            shape, dtype = tensor_of(parameter.type_annotation)
            weights[name] = random_weight(name, shape, dtype, uses.get(parameter, []), arguments["seed"])
            notes = ["random weights"]
    return Source(relay.transform.InferType()(tvm.IRModule.from_expr(main)), weights, operators, inputs, notes=notes)


def dataflow(body: Any) -> Iterable[Any]:
    """The expressions of a function's body, each once, what it reads before it, as the graph executor orders them; functions are not entered.

    Raises:
        Refusal: The body has control flow, which the graph executor cannot run.
    """
    done: set[Any] = set()
    stack: list[tuple[Any, bool]] = [(body, False)]
    while stack:
        node, complete = stack.pop()
        if node in done:
            continue
        if complete:
            done.add(node)
            yield node
            continue
        stack.append((node, True))
        stack.extend((child, False) for child in reversed(operands(node)))


def operands(node: Any) -> list[Any]:
    """What an expression reads."""
    if isinstance(node, relay.Call):
        return list(node.args)
    if isinstance(node, relay.Tuple):
        return list(node.fields)
    if isinstance(node, relay.TupleGetItem):
        return [node.tuple_value]
    if isinstance(node, (relay.Var, relay.Constant)):
        return []
    raise Refusal(
        MODEL, f"The model has control flow ({type(node).__name__}), which the graph executor cannot run.", "Use a model without if, match and let."
    )


def tensor_of(kind: Any) -> tuple[list[int], str]:
    """Shape and dtype of a tensor type."""
    return [int(size) for size in kind.shape], str(kind.dtype)


def tensors_of(kind: Any) -> list[tuple[list[int], str]]:
    """Shapes and dtypes of a type, those of a tuple one by one."""
    if isinstance(kind, relay.TupleType):
        return [tensor for item in kind.fields for tensor in tensors_of(item)]
    return [tensor_of(kind)]


def number_of(node: Any) -> int | None:
    """The number of the source's call that a call comes from; None if an optimisation made it."""
    span = node.span
    return int(span.line) - 1 if span is not None and str(span.source_name.name) == _SPANS else None


def _numbered(main: Any, order: list[Any]) -> Any:
    """The function with the number of each call, plus 1, in its span: what the optimiser keeps of a call, it keeps the span of."""
    made: dict[Any, Any] = {}
    count = 0
    name = relay.SourceName(_SPANS) if hasattr(relay, "SourceName") else tvm.ir.SourceName(_SPANS)
    for node in order:
        if isinstance(node, relay.Call):
            count += 1
            span = tvm.ir.Span(name, count, count, 1, 1)
            made[node] = relay.Call(node.op, [made[item] for item in node.args], node.attrs, node.type_args, span)
        elif isinstance(node, relay.Tuple):
            made[node] = relay.Tuple([made[item] for item in node.fields])
        elif isinstance(node, relay.TupleGetItem):
            made[node] = relay.TupleGetItem(made[node.tuple_value], node.index)
        else:
            made[node] = node
    return relay.Function(main.params, made[main.body], main.ret_type, main.type_params, main.attrs)


def _check_static(main: Any, shapes: dict[str, Any], weights: dict[str, Any]) -> None:
    named = {parameter.name_hint: parameter for parameter in main.params}
    strangers = sorted(set(shapes) - set(named))
    if strangers:
        raise Refusal(MODEL, f"The model has no input {', '.join(strangers)}.", f"Its inputs are {', '.join(set(named) - set(weights))[:300]}.")
    for name, parameter in named.items():
        try:
            shape, _ = tensor_of(parameter.type_annotation)
        except Exception as error:
            raise Refusal(MODEL, f"The shape of {name} is not known: {parameter.type_annotation}.", "Write the shape into the model.") from error
        if name in shapes and list(shapes[name]) != shape:
            raise Refusal(MODEL, f"{name} has the shape {tuple(shape)}, not {tuple(shapes[name])}.", "Leave its shape out.")


CALLS = {"import_model": import_model, "prepare": prepare}
