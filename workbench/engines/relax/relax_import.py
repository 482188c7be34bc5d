"""Turns a user's own IRModule, as TVMScript or JSON, into a program: one straight ``main`` without weights as inputs.

Other Relax functions are inlined (the lowering fuses anew); PrimFuncs that ``main`` calls stay as they are, one kernel each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import tvm
from tvm import relax

from workbench.engines.relax.foreign_code import HOW_TO_TRUST, foreign_code
from workbench.engines.relax.memory import memory_limit, tensor_bytes
from workbench.engines.relax.naming import name_bindings
from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.program import Program
from workbench.engines.relax.relax_graph import RelaxGraph
from workbench.engines.relax.rewriting import Binding, Scope, bindings_of, check_straight_line, operator_name, rewrite_main
from workbench.engines.relax.source_graph import SourceGraph
from workbench.engines.relax.symbolic_shapes import bind_shapes
from workbench.engines.relax.tvmscript_file import read_tvmscript
from workbench.errors import ModelError
from workbench.escaping import plain

_NO_SHAPES: Mapping[str, tuple[int, ...]] = {}
_CALL_TIR = "relax.call_tir"
_OPAQUE = 8  # the operator pattern that FuseOps leaves alone
_TOO_LOW = "Give the module before it is lowered for the VM: operators, or PrimFuncs called by R.call_tir."


def import_tvmscript(path: Path, shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES, *, seed: int = 0) -> Program:
    """Import a file of TVMScript: a Python module that defines an IRModule, or what ``module.script()`` printed.

    This runs the file: only call it for a file that the user trusts.

    Args:
        path: The file.
        shapes: Shapes of the inputs that have symbolic dimensions.
        seed: Seed of random weights.

    Raises:
        ModelError: The file fails, defines no IRModule, or the IRModule cannot be used; the message says why.
    """
    return import_module(read_tvmscript(path), shapes, seed=seed)


def import_ir_json(text: str, shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES, *, seed: int = 0, trust: bool = False) -> Program:
    """Import an IRModule from the text of ``tvm.ir.save_json``.

    Args:
        text: The JSON; it must be of this version of TVM.
        shapes: Shapes of the inputs that have symbolic dimensions.
        seed: Seed of random weights.
        trust: True if the user allowed code to run that is not in the module, such as a function of the C library that a kernel calls.

    Raises:
        ModelError: The text is no such JSON, or the IRModule cannot be used; the message says why.
    """
    try:
        module = tvm.ir.load_json(text)
    except Exception as error:  # TVM raises any class of error on text that it did not write
        reason = plain(str(error).strip(), 240)
        raise ModelError(
            f"The text is no IRModule in TVM's JSON: {reason}", "Write it with tvm.ir.save_json, with the same version of TVM."
        ) from error
    if not isinstance(module, tvm.IRModule):
        raise ModelError(f"The JSON holds a value of type {plain(type(module).__name__)}, not an IRModule.", "Save the IRModule itself.")
    foreign = [] if trust else foreign_code(module)
    if foreign:
        raise ModelError(f"The module would run code that is not in it: {plain(', '.join(foreign), 120)}.", HOW_TO_TRUST)
    return import_module(module, shapes, seed=seed)


def import_module(module: tvm.IRModule, shapes: Mapping[str, tuple[int, ...]] = _NO_SHAPES, *, seed: int = 0) -> Program:
    """Import an IRModule.

    Its entry is ``main``, or its only public Relax function. Parameters after the first ``num_input`` (an attribute of the entry) are
    weights: with the values of the attribute ``params`` if it has them, else random. Without ``num_input`` all parameters are inputs.

    Args:
        module: Legalised or not, with one or more Relax functions.
        shapes: Shapes of the inputs that have symbolic dimensions.
        seed: Seed of random weights.

    Raises:
        ModelError: The module cannot be used; the message says why.
    """
    entry = _entry_name(module)
    main = _inlined(module, entry)
    _check_parameters(main)
    _check_calls(main)
    module = tvm.IRModule({"main": main.with_attr("global_symbol", "main"), **_called_kernels(module, main)})
    module = check_straight_line(bind_shapes(module, shapes))
    module, random_weights = _bind_weights(module, seed=seed)
    table, graph = OriginTable(), SourceGraph()
    module = _with_origins(module, table, graph)
    return Program(module=name_bindings(module, table), origins=table, random_weights=random_weights, graph=graph)


def _entry_name(module: tvm.IRModule) -> str:
    functions = {variable.name_hint: function for variable, function in module.functions.items() if isinstance(function, relax.Function)}
    if "main" in functions:
        return "main"
    called = {other for function in functions.values() for other in _called_names(function)}
    entries = [str(name) for name in functions if name not in called]
    if len(entries) == 1:
        return entries[0]
    if not functions:
        raise ModelError("The module has no Relax function.", "Add a main that calls the PrimFunc by R.call_tir, or register a TE workload.")
    names = ", ".join(map(plain, functions))
    raise ModelError(f"The module has no function main, but {names}.", "Name the entry function main.")


def _called_names(function: relax.Function) -> Iterator[str]:
    """Names of the functions that a function calls, or hands to ``call_tir``."""
    names: list[str] = []

    def visit(expression: Any) -> None:
        if isinstance(expression, relax.Call):
            callees = [expression.op, *expression.args[:1]]
            names.extend(callee.name_hint for callee in callees if isinstance(callee, tvm.ir.GlobalVar))

    relax.analysis.post_order_visit(function, visit)
    return iter(dict.fromkeys(names))


def _inlined(module: tvm.IRModule, entry: str) -> relax.Function:
    """The entry function, with the Relax functions that it calls inlined."""
    functions = {variable.name_hint: function for variable, function in module.functions.items() if isinstance(function, relax.Function)}
    _refuse_recursion(functions, entry, ())
    main = functions.pop(entry)
    for _ in functions:
        if not set(_called_names(main)) & set(functions):
            break
        main = main.inline_functions(functions)
    return relax.transform.Normalize()(tvm.IRModule({"main": main}))["main"]


def _refuse_recursion(functions: Mapping[str, relax.Function], name: str, callers: tuple[str, ...]) -> None:
    if name in callers:
        raise ModelError(f"The function {plain(name)} calls itself.", "A profile needs one order of execution: unroll the recursion.")
    for other in _called_names(functions[name]):
        if other in functions:
            _refuse_recursion(functions, other, (*callers, name))


def _check_parameters(main: relax.Function) -> None:
    for parameter in main.params:
        if not isinstance(parameter.ty, relax.TensorType):
            kind = type(parameter.ty).__name__.removesuffix("Type").lower()
            raise ModelError(f"Parameter {plain(parameter.name)} is no tensor but of the type {kind}.", "Make each parameter of main a tensor.")


def _check_calls(main: relax.Function) -> None:
    """Refuse what the lowering cannot keep in order: branches, side effects, calls past ``call_tir``."""
    bound = {binding.var for binding in bindings_of(main)}
    for binding in bindings_of(main):
        name = plain(binding.var.name)
        value = binding.value
        if isinstance(value, relax.If):
            raise ModelError(f"Binding {name} branches (If).", "A profile needs one order of execution: export one branch.")
        if isinstance(value, relax.Function) or (isinstance(value, relax.Call) and value.op in bound):
            raise ModelError(f"Binding {name} is, or calls, a function inside of main.", "Move it out of main, or write it inline.")
        if isinstance(value, relax.Call) and isinstance(value.op, relax.ExternFunc):
            raise ModelError(f"Binding {name} calls the external function {plain(str(value.op.global_symbol))}.", "Use operators or R.call_tir.")
        if isinstance(value, relax.Call) and isinstance(value.op, tvm.ir.GlobalVar):
            raise ModelError(f"Binding {name} calls {plain(value.op.name_hint)} directly.", _TOO_LOW)
        if operator_name(value) in ("relax.builtin.alloc_tensor", "relax.memory.alloc_tensor", "relax.vm.alloc_tensor"):
            raise ModelError(f"Binding {name} allocates memory.", _TOO_LOW)
    if not main.is_pure:
        raise ModelError("The function main has side effects.", "Remove what prints, asserts or writes into its arguments.")


def _called_kernels(module: tvm.IRModule, main: relax.Function) -> dict[Any, Any]:
    """The PrimFuncs that ``main`` calls; without a public symbol, so that fusion may consume them.

    Relax counts in int64. A PrimFunc whose buffers count in int32, as written by hand, cannot be fused with others: ``FuseTIR`` fails.
    """
    kernels = {}
    for name in _called_names(main):
        variable = module.get_global_var(name)
        function = module[variable]
        if not isinstance(function, tvm.tirx.PrimFunc):
            raise ModelError(f"{plain(name)} is called as a kernel but is of the type {plain(type(function).__name__)}.", _TOO_LOW)
        function = function.without_attr("global_symbol")
        kernels[variable] = function if _counts_in_int64(function) else function.with_attr("op_pattern", _OPAQUE)
    return kernels


def _counts_in_int64(function: tvm.tirx.PrimFunc) -> bool:
    buffers = [parameter.ty for parameter in function.params if isinstance(parameter.ty, tvm.tirx.BufferType)]
    return all(str(size.ty.dtype) == "int64" for buffer in buffers for size in buffer.shape)


def _bind_weights(module: tvm.IRModule, *, seed: int) -> tuple[tvm.IRModule, bool]:
    """The module with constants for its weights, and whether any is random."""
    main = module["main"]
    attributes = main.attrs or {}
    count = int(attributes["num_input"]) if "num_input" in attributes else len(main.params)
    if not 0 <= count <= len(main.params):
        raise ModelError(f"The attribute num_input of main is {count}, but main has {len(main.params)} parameters.", "Correct the attribute.")
    weights = main.params[count:]
    values = list(attributes["params"]) if "params" in attributes else []
    if values and len(values) != len(weights):
        raise ModelError(f"The attribute params of main has {len(values)} values for {len(weights)} weights.", "Give one for each weight.")
    module = module.clone()
    module.update_func(module.get_global_var("main"), main.without_attr("params").with_attr("num_input", count))
    if not weights:
        return module, False
    bound = dict(zip(weights, values or _random_values(weights, seed=seed), strict=True))
    try:
        return relax.transform.BindParams("main", bound)(module), not values
    except Exception as error:  # TVM raises any class of error on a value of another shape
        raise ModelError(f"The weights do not fit their parameters: {plain(str(error).strip(), 240)}", "Correct the attribute params.") from error


def _random_values(weights: Any, *, seed: int) -> list[Any]:
    """Random weights of a plausible scale: vectors around 1 (some are variances), matrices normal over the root of their fan-in."""
    shapes = [[int(size) for size in weight.ty.shape.values] for weight in weights]
    total = sum(tensor_bytes(shape, str(weight.ty.dtype)) for weight, shape in zip(weights, shapes, strict=True))
    if total > memory_limit():
        raise ModelError(f"The weights take {total / 2**30:.1f} GiB, more than is used on this machine.", "Use a machine with more memory.")
    random = np.random.default_rng(seed)
    values = []
    for weight, shape in zip(weights, shapes, strict=True):
        dtype = str(weight.ty.dtype)
        if "float" not in dtype:
            values.append(tvm.runtime.tensor(np.zeros(shape, dtype)))
            continue
        fan_in = max(1, int(np.prod(shape[1:])))
        drawn = random.uniform(0.5, 1.5, shape) if len(shape) < 2 else random.standard_normal(shape) / np.sqrt(fan_in)
        values.append(relax.const(drawn.astype("float32"), dtype).value if dtype == "bfloat16" else tvm.runtime.tensor(drawn.astype(dtype)))
    return values


def _with_origins(module: tvm.IRModule, table: OriginTable, graph: SourceGraph) -> tvm.IRModule:
    """The module with every call in ``main`` named after an origin of its own, which the graph gets a description of."""
    old = {binding.var: binding for binding in bindings_of(module["main"])}
    names = {variable.name_hint for variable in module.functions}
    described = RelaxGraph(graph, module["main"])

    def rename(binding: Binding, scope: Scope) -> Any:
        del scope
        value = binding.value
        binding.name = "v"
        if isinstance(value, relax.Call):
            binding.name = table.add(_operator(value, names), binding.var.name, _location(old[binding.var].value))
            described.call(old[binding.var], table.numbers(binding.name)[0])
        else:
            described.other(old[binding.var])
        return value

    module = rewrite_main(module, rename)
    described.finish()
    return module


def _operator(call: relax.Call, kernels: set[str]) -> str:
    """What a call does: the operator without ``relax.``, or the PrimFunc without the number of a repeated one."""
    if operator_name(call) != _CALL_TIR:
        return operator_name(call).removeprefix("relax.") or "call"
    name = str(call.args[0].name_hint)
    base = name.rstrip("0123456789")
    return base if base in kernels else name


def _location(value: Any) -> str:
    return f"line {value.span.line}" if value.span is not None else ""
