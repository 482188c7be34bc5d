"""Import of Relay text into a Relax `Program`: checks first, then the walk that emits."""

from __future__ import annotations

import re
from collections.abc import Mapping

from tvm import relax

from workbench.engines.relax.memory import tensor_bytes
from workbench.engines.relax.program import Program
from workbench.engines.relax.relay.attributes import refuse_unknown_attributes
from workbench.engines.relax.relay.emitter import Emitter
from workbench.engines.relax.relay.memory import check_size, check_total
from workbench.engines.relax.relay.operation import Value
from workbench.engines.relax.relay.registry import CONVERTERS
from workbench.engines.relax.relay.source_graph import describe_relay
from workbench.engines.relax.source_graph import tensors_of_type
from workbench.errors import ModelError
from workbench.legacy.relay import parse_relay, syntax
from workbench.legacy.relay.interpreter import Item, fail_at
from workbench.legacy.relay.roles import find_inputs, find_uses
from workbench.legacy.relay.walk import walk

_PACKED = ("nn.contrib_conv2d_NCHWc", "nn.contrib_dense_pack")


def import_relay(text: str, *, shapes: Mapping[str, tuple[int, ...]] | None = None, seed: int = 0) -> Program:
    """Import a model from the text that TVM 0.8 to 0.18 prints.

    A parameter of ``main`` becomes an input or a constant (`find_inputs` has the rule). Constants whose value the text does not have are
    random, scaled for their use. Functions inside (``Primitive=1``) are inlined; blocked layouts (``NCHW16c``) become plain ones.

    Args:
        text: The module, a function, or an expression with its ``free_var`` lines.
        shapes: Shapes of parameters whose type has an unknown dimension (``?``); a parameter named here is an input.
        seed: What the random weights are drawn from.

    Raises:
        ModelError: The text is no Relay, is not complete, has unknown operators or dimensions, or its types do not agree.
    """
    if seed < 0:
        raise ModelError(f"The seed {seed} is negative.", "Use a seed of 0 or more.")
    module = parse_relay(text)
    _refuse_unknown_operators(module)
    refuse_unknown_attributes(module)
    types = _parameter_types(module.main, shapes or {})
    _check_sizes(module, types)
    uses = find_uses(module)
    names = find_inputs(module.main, uses, (shapes or {}).keys())
    variables = {name: relax.Var(safe, types[name]) for name, safe in _safe_names(names).items()}
    builder = relax.BlockBuilder()
    emitter = Emitter(module, builder, uses, seed)
    failure: ModelError | None = None
    with builder.function("main", list(variables.values()), attrs={"num_input": len(variables)}):
        with builder.dataflow():
            try:
                output = emitter.emit_output(emitter.run(module.main, _arguments(module.main, emitter, variables, types)), module.main)
            except ModelError as error:  # the builder's blocks must be closed in order: raised after them
                failure = error
                output = builder.emit_output(relax.const(0))
        builder.emit_func_output(output)
    if failure is not None:
        raise failure
    notes = ("packed layouts of the text were unpacked",) if _is_packed(module) else ()
    graph = describe_relay(module, emitter, names, {name: tensor for name, kind in types.items() for tensor in tensors_of_type(kind)})
    return Program(builder.get(), emitter.origins, random_weights=emitter.random_weights, notes=notes, graph=graph)


def _is_packed(module: syntax.Module) -> bool:
    """True if the text has an operator of a blocked layout (``NCHW16c``), as an optimised model has."""
    return any(isinstance(node, syntax.Call) and _reads_packed(node) for function in module.functions.values() for node in walk(function))


def _reads_packed(call: syntax.Call) -> bool:
    if not isinstance(call.callee, syntax.Operator):
        return False
    layouts = [str(call.attributes.get(name, "")) for name in ("src_layout", "dst_layout")]
    return call.callee.name in _PACKED or (call.callee.name == "layout_transform" and any(re.search(r"\d", layout) for layout in layouts))


def _refuse_unknown_operators(module: syntax.Module) -> None:
    unknown: dict[str, list[str]] = {}
    for function in module.functions.values():
        for node in walk(function):
            if isinstance(node, syntax.Operator) and node.name not in CONVERTERS:
                unknown.setdefault(node.name, []).append(f"{node.line}:{node.column}")
    if unknown:
        listed = "; ".join(f"{name} at {', '.join(places[:5])}{', ...' if len(places) > 5 else ''}" for name, places in unknown.items())
        raise ModelError(
            f"Relay text with operators that cannot be converted (line:column): {listed}.",
            "Import the model from its original format (ONNX), or remove these operators from it.",
        )


def _parameter_types(main: syntax.Function, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, relax.TensorType]:
    """The Relax type of each parameter, every dimension known."""
    strangers = sorted(set(shapes) - {param.name for param in main.params})
    if strangers:
        raise ModelError(
            f"A shape is given for {', '.join(strangers)}, which the Relay text does not have as a parameter.",
            f"The parameters are {', '.join(param.name for param in main.params)[:500]}.",
        )
    types: dict[str, relax.TensorType] = {}
    symbolic: list[str] = []
    for param in main.params:
        if not isinstance(param.type, syntax.TensorType):
            fail_at(param, f"parameter %{param.name} needs the type of a tensor, not {param.type or 'none'}")
        given = shapes.get(param.name)
        if given is None and None in param.type.shape:
            symbolic.append(f"%{param.name}: {param.type} (line {param.line}, column {param.column})")
            continue
        shape = _given_shape(param, param.type, given)
        check_size(shape, param.type.dtype, f"line {param.line}, column {param.column}: parameter %{param.name}")
        types[param.name] = relax.TensorType(shape, param.type.dtype)
    if symbolic:
        raise ModelError(
            f"The Relay text has dimensions that are not known: {'; '.join(symbolic)}.",
            "Give the shape of each of these parameters: shapes={name: (1, 3, 224, 224)}, --shape name=1,3,224,224.",
        )
    return types


def _given_shape(param: syntax.Parameter, declared: syntax.TensorType, given: tuple[int, ...] | None) -> tuple[int, ...]:
    if given is None:
        return tuple(dim for dim in declared.shape if dim is not None)
    same = len(given) == len(declared.shape) and all(old in (None, new) for old, new in zip(declared.shape, given, strict=True))
    if not same or min(given, default=1) < 1:
        fail_at(param, f"%{param.name} is {declared}, and the shape {tuple(given)} does not fit it", "Only unknown dimensions (?) can be given.")
    return tuple(int(dim) for dim in given)


def _check_sizes(module: syntax.Module, types: Mapping[str, relax.TensorType]) -> None:
    """Refuse a model whose parameters and constants together cannot be held, before any of them is made."""
    total = 0
    for tensor in types.values():
        total += tensor_bytes([int(dim) for dim in tensor.shape.values], str(tensor.dtype))
    seen: set[int] = set()
    for function in module.functions.values():
        for node in walk(function):
            if isinstance(node, syntax.MetaRef) and node.index not in seen and isinstance(node.type, syntax.TensorType):
                seen.add(node.index)
                total += tensor_bytes([dim or 1 for dim in node.type.shape], node.type.dtype)
    check_total(total, "all parameters and constants together:")


def _safe_names(names: list[str]) -> dict[str, str]:
    """Names that TVMScript can print; ``o1_`` is an origin's and not a parameter's."""
    safe: dict[str, str] = {}
    for name in names:
        base = re.sub(r"\W", "_", name)
        base = base if re.match(r"[A-Za-z_]", base) and re.match(r"o\d+_", base) is None else f"v{base}"
        choice, number = base, 1
        while choice in safe.values():
            choice, number = f"{base}_{number}", number + 1
        safe[name] = choice
    return safe


def _arguments(
    main: syntax.Function, emitter: Emitter, inputs: Mapping[str, relax.Var], types: Mapping[str, relax.TensorType]
) -> dict[str, Item[Value]]:
    values: dict[str, Item[Value]] = {}
    for param in main.params:
        shape = tuple(int(dim) for dim in types[param.name].shape.values)
        declared = syntax.TensorType(shape, str(types[param.name].dtype))
        values[param.name] = inputs[param.name] if param.name in inputs else emitter.random(declared, shape, param.name, param)
    return values
