"""From a program to kernels: the one lowered module that profile, tasks, tuning and application share.

The lowering is a list of named steps. A step is a function of the module; which steps ran is recorded in the session's manifest.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tvm
from tvm import relax
from tvm.relax.backend import DispatchSortScan

from workbench.engines.relax.batch_norm import simplify_batch_norm
from workbench.engines.relax.fold import fold_constants, fold_with_tvm
from workbench.engines.relax.fusion_trace import trace_fusion
from workbench.engines.relax.kernel_graph import kernel_graph
from workbench.engines.relax.naming import name_bindings, origin_indices
from workbench.engines.relax.origins import OriginTable
from workbench.engines.relax.program import Program
from workbench.engines.relax.rewriting import Binding, Scope, bindings_of, check_straight_line, is_static, operator_name, rewrite_main
from workbench.errors import ModelError
from workbench.escaping import plain
from workbench.records.graph import ModelGraph
from workbench.records.origin import Origin
from workbench.records.profile import KernelCall

Step = tuple[str, Callable[[tvm.IRModule], tvm.IRModule]]

_NOT_LOWERED_IS_FINE = {"relax.call_tir", "relax.reshape", "relax.builtin.alloc_tensor", "relax.memory.view"}


@dataclass(frozen=True)
class Lowered:
    """The lowered module and what is known of it.

    Attributes:
        module: ``main`` takes the model's inputs, then the parameters; every kernel is a PrimFunc without a schedule.
        parameters: Values of the parameters, in order.
        calls: Kernel calls in execution order, with their origins.
        ops: Operators fused into each called kernel, in order.
        result_counts: Number of output tensors of each called kernel.
        builtin_origins: Origins of what needs no kernel and runs as VM builtins, as a reshape does.
        eliminated: Origins that no call and no builtin has: what was computed before the run (constants), does nothing at inference
            (an identity), or computes what nobody reads. So every source operator is in a call, a builtin, or here.
        input_count: Number of ``main``'s parameters that are the model's inputs.
        steps: Names of the steps that ran.
        graph: The source model and the calls as graphs; None for a program that was loaded.
    """

    module: tvm.IRModule
    parameters: tuple[Any, ...]
    calls: tuple[KernelCall, ...]
    ops: Mapping[str, tuple[str, ...]]
    result_counts: Mapping[str, int]
    builtin_origins: tuple[Origin, ...]
    eliminated: tuple[Origin, ...]
    input_count: int
    steps: tuple[str, ...]
    graph: ModelGraph | None = None


def simplification_steps(origins: OriginTable) -> list[Step]:
    """Steps on operators of the source model, before they become TIR.

    What TVM's passes bind has no name; it is named before the binding that it belongs to may vanish.
    """
    return [
        ("straight_line", check_straight_line),
        ("fold_constants", fold_constants),
        ("simplify_batch_norm", lambda module: simplify_batch_norm(module, origins)),
        ("decompose", relax.transform.DecomposeOpsForInference()),
        ("name_decomposed", lambda module: name_bindings(module, origins)),
        ("canonicalize", relax.transform.CanonicalizeBindings()),
        ("fold_decomposed_constants", fold_constants),
        ("fold_other_constants", fold_with_tvm),
        ("remove_dead_code", relax.transform.DeadCodeElimination()),
    ]


def legalization_steps(origins: OriginTable) -> list[Step]:
    """Steps that turn operators into calls of PrimFuncs."""
    return [
        ("dispatch_sort_scan", DispatchSortScan()),
        ("legalize", relax.transform.LegalizeOps()),
        ("name_legalized", lambda module: name_bindings(module, origins)),
        ("annotate_patterns", relax.transform.AnnotateTIROpPattern()),
        ("fold_legalized_constants", fold_with_tvm),
        ("remove_unused_kernels", relax.transform.DeadCodeElimination()),
    ]


def lower(program: Program, target: tvm.target.Target, *, fusion: bool, on_step: Callable[[str], None]) -> Lowered:
    """Lower a program.

    Args:
        program: The imported model.
        target: Where it will run; some legalisations depend on it.
        fusion: False keeps one kernel per operator.
        on_step: Told the name of each step before it runs.

    Raises:
        ModelError: A step or an operator fails; the message names it.
    """
    names: list[str] = []

    def run(module: tvm.IRModule, steps: Sequence[Step]) -> tvm.IRModule:
        for name, step in steps:
            on_step(name)
            names.append(name)
            module = _run_step(name, step, module)
        return module

    with target:
        unfused = run(program.module, [*simplification_steps(program.origins), *legalization_steps(program.origins)])
        _check_all_legalized(unfused, program.origins)
        if fusion:
            grouped = run(unfused, [("group", relax.transform.FuseOps())])
            fused, groups = _name_groups(unfused, grouped, program)
            fused = run(fused, [("fuse", relax.transform.FuseTIR()), ("remove_unfused", relax.transform.DeadCodeElimination())])
        else:
            fused, groups = _name_groups(unfused, unfused, program)
        fused = run(fused, [("views", relax.transform.RewriteDataflowReshape()), ("remove_views", relax.transform.DeadCodeElimination())])
    on_step("lift_parameters")
    module, parameters = _lift_parameters(fused)
    return _lowered(module, parameters, groups, program=program, steps=(*names, "lift_parameters"))


def _run_step(name: str, step: Callable[[tvm.IRModule], tvm.IRModule], module: tvm.IRModule) -> tvm.IRModule:
    try:
        return step(module)
    except ModelError:
        raise
    except Exception as error:  # TVM's passes raise any class of error
        raise ModelError(f"The lowering step {name} failed: {plain(str(error).strip(), 400)}", "Run with -v for TVM's own text.") from error


def _check_all_legalized(module: tvm.IRModule, origins: OriginTable) -> None:
    """Raise ModelError for operators that have no kernel, and for values whose shape is not known before the run."""
    indices = origin_indices(module["main"], origins)
    missing, dynamic = [], []
    for binding in bindings_of(module["main"]):
        index = indices[binding.var]
        source = plain(", ".join(map(str, origins.at(index))) if index is not None else "the model")
        operator = operator_name(binding.value)
        if operator and operator not in _NOT_LOWERED_IS_FINE and not _calls_builtin(binding.value):
            missing.append(f"{operator} (from {source})")
        elif not _is_known_before_the_run(binding.var.ty):
            dynamic.append(source)
    if missing:
        raise ModelError(f"TVM has no kernel for {len(missing)} operators: {', '.join(sorted(set(missing)))}.", "Replace them in the model.")
    if dynamic:
        raise ModelError(f"The shape of a value depends on the values of the inputs, first at {dynamic[0]}.", "Export the model with fixed shapes.")


def _is_known_before_the_run(kind: Any) -> bool:
    if isinstance(kind, relax.TupleType):
        return all(map(_is_known_before_the_run, kind.fields))
    if isinstance(kind, relax.ShapeType):
        return kind.values is not None and all(isinstance(size, tvm.tirx.IntImm) for size in kind.values)
    return not isinstance(kind, relax.TensorType) or is_static(kind)


def _calls_builtin(value: Any) -> bool:
    """True for a direct call of a VM builtin, as TVM's scan on a GPU makes for its reshapes."""
    return operator_name(value) == "relax.call_pure_packed" and str(value.args[0].global_symbol).startswith("vm.builtin.")


@dataclass(frozen=True)
class _Group:
    """Source operators (and their numbers) and kernels' operators behind one binding of the fused ``main``."""

    origins: tuple[Origin, ...]
    numbers: tuple[int, ...]
    ops: tuple[str, ...]


def _name_groups(unfused: tvm.IRModule, grouped: tvm.IRModule, program: Program) -> tuple[tvm.IRModule, dict[str, _Group]]:
    """Give each binding of the grouped ``main`` a name of its own; return the module and what is behind each name."""
    table = program.origins
    indices = origin_indices(unfused["main"], table)
    values = {binding.var: binding.value for binding in bindings_of(unfused["main"])}
    order = {variable: position for position, variable in enumerate(values)}
    members = trace_fusion(unfused, grouped)
    operators = _operator_names(unfused, given={variable.name_hint for variable in program.module.functions})
    groups: dict[str, _Group] = {}

    def rename(binding: Binding, scope: Scope) -> Any:
        del scope
        binding.name = f"r{len(groups)}_"
        found = sorted((variable for variable in members[binding.var] if variable in order), key=order.__getitem__)
        places = dict.fromkeys(indices[variable] for variable in found)
        groups[binding.name] = _Group(
            origins=tuple(dict.fromkeys(origin for index in places if index is not None for origin in table.at(index))),
            numbers=tuple(dict.fromkeys(number for index in places if index is not None for number in table.numbers_at(index))),
            ops=tuple(operators[_callee(values[variable])] for variable in found if _callee(values[variable]) in operators),
        )
        return binding.value

    return rewrite_main(grouped, rename), groups


def _callee(value: Any) -> str:
    """Name of the PrimFunc that an expression calls; empty if it calls none."""
    return str(value.args[0].name_hint) if operator_name(value) == "relax.call_tir" else ""


def _operator_names(module: tvm.IRModule, *, given: Collection[str]) -> dict[str, str]:
    """Operator of each unfused PrimFunc: its name without the number that the block builder gave to repeated ones.

    A PrimFunc that the model itself brought, one of `given`, keeps its number unless the one without a number is there too.
    """
    names = {variable.name_hint for variable in module.functions}
    known = {name.rpartition(".")[2] for name in tvm.ir.Op.list_op_names() if name.startswith("relax.")}
    operators = {}
    for name in names:
        base = re.sub(r"\d+$", "", name)
        own = name in given or name in known
        operators[name] = name if own and base not in names else base
    return operators


def _lift_parameters(module: tvm.IRModule) -> tuple[tvm.IRModule, tuple[Any, ...]]:
    """Make parameters of the constants in ``main``, so that the weights are no part of the module."""
    lifted: dict[Any, Any] = {}
    values: list[Any] = []

    def lift(value: Any) -> Any:
        if isinstance(value, tvm.ir.GenericConst) and isinstance(value.ty, relax.TensorType):
            if value not in lifted:
                lifted[value] = relax.Var(f"p{len(values)}", value.ty)
                values.append(value.value)
            return lifted[value]
        if isinstance(value, relax.Tuple):
            return relax.Tuple([lift(field) for field in value.fields])
        if isinstance(value, relax.Call):
            return relax.Call(value.op, [lift(argument) for argument in value.args], value.attrs, value.ty_args)
        return value

    def rewrite(binding: Binding, scope: Scope) -> Any:
        del scope
        return lift(binding.value)

    return rewrite_main(module, rewrite, extra_parameters=lambda: list(lifted.values())), tuple(values)


def _lowered(module: tvm.IRModule, parameters: tuple[Any, ...], groups: Mapping[str, _Group], *, program: Program, steps: tuple[str, ...]) -> Lowered:
    """Read the calls off the finished ``main``."""
    calls: list[KernelCall] = []
    ops: dict[str, tuple[str, ...]] = {}
    results: dict[str, int] = {}
    builtins: dict[Origin, None] = {}
    rows: dict[int, list[int]] = {}
    builtin_numbers: set[int] = set()
    for binding in bindings_of(module["main"]):
        group = groups[binding.var.name[: binding.var.name.find("_") + 1]]
        kernel = _callee(binding.value)
        if kernel:
            for number in group.numbers:
                rows.setdefault(number, []).append(len(calls))
            calls.append(KernelCall(kernel=kernel, origins=group.origins))
            ops.setdefault(kernel, group.ops)
            results[kernel] = len(binding.var.ty.fields) if isinstance(binding.var.ty, relax.TupleType) else 1
        elif operator_name(binding.value):
            builtins.update(dict.fromkeys(group.origins))
            builtin_numbers.update(group.numbers)
    kept = {*builtins, *(origin for call in calls for origin in call.origins)}
    input_count = len(module["main"].params) - len(parameters)
    return Lowered(
        module=module,
        parameters=parameters,
        calls=tuple(calls),
        ops=ops,
        result_counts=results,
        builtin_origins=tuple(builtins),
        eliminated=tuple(origin for origin in program.origins.origins if origin not in kept),
        input_count=input_count,
        steps=steps,
        graph=ModelGraph(
            source=program.graph.nodes(program.origins.operators, rows, builtin_numbers),
            kernels=kernel_graph(module["main"], inputs=program.graph.input_names, outputs=program.graph.output_names, input_count=input_count),
        ),
    )
