"""Gives the symbolic dimensions of a program's inputs their numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import tvm
from tvm import relax

from workbench.errors import ModelError
from workbench.escaping import plain

_BOUNDS = ("tir_var_lower_bound", "tir_var_upper_bound")


def bind_shapes(module: tvm.IRModule, shapes: Mapping[str, tuple[int, ...]]) -> tvm.IRModule:
    """The module with the symbolic dimensions of the parameters of ``main`` replaced by numbers.

    Args:
        module: Its ``main`` has tensors as parameters.
        shapes: Full shapes of parameters, by name.

    Raises:
        ModelError: A shape names no parameter, does not fit it, or a dimension stays unknown; the message lists them.
    """
    parameters = {parameter.name: parameter for parameter in module["main"].params}
    unknown = [name for name in shapes if name not in parameters]
    if unknown:
        listing = ", ".join(f"{plain(name)} {_dimensions(parameter)}" for name, parameter in parameters.items()) or "none"
        raise ModelError(f"The model has no input named {plain(unknown[0])}.", f"Its inputs are: {listing}.")
    numbers: dict[Any, int] = {}
    for name, shape in shapes.items():
        for symbol, size in _assignments(parameters[name], shape):
            if numbers.setdefault(symbol, size) != size:
                raise ModelError(
                    f"The shapes give the dimension {plain(symbol.name)} two numbers: {numbers[symbol]} and {size}.", "Give it one number."
                )
            _check_bounds(module["main"], symbol, size)
    if numbers:
        module = relax.transform.BindSymbolicVars(numbers, "main")(module)
    _check_static(module, shapes)
    main = module["main"]
    for attribute in _BOUNDS:
        main = main.without_attr(attribute)
    module = module.clone()
    module.update_func(module.get_global_var("main"), main)
    return module


def _assignments(parameter: Any, shape: tuple[int, ...]) -> Iterator[tuple[Any, int]]:
    """The symbols that stand alone as a dimension, and their numbers."""
    declared = _declared(parameter)
    fixed = [(int(old), new) for old, new in zip(declared, shape, strict=False) if isinstance(old, tvm.tirx.IntImm)]
    if len(declared) != len(shape) or any(old != new for old, new in fixed) or min(shape, default=1) < 1:
        raise ModelError(
            f"Shape {shape} does not fit input {plain(parameter.name)}, which is declared as {_dimensions(parameter)}.",
            "Give as many dimensions as declared, and change only the named ones.",
        )
    for old, new in zip(declared, shape, strict=True):
        if tvm.ir.is_prim_var(old):
            yield old, new


def _check_bounds(main: relax.Function, symbol: Any, size: int) -> None:
    attributes = main.attrs or {}
    lower, upper = (dict(attributes[name]).get(symbol.name) if name in attributes else None for name in _BOUNDS)
    if (lower is not None and size < int(lower)) or (upper is not None and size > int(upper)):
        span = f"at least {lower}" if upper is None else f"{lower if lower is not None else 1} to {upper}"
        raise ModelError(f"The model was exported for {plain(symbol.name)} of {span}, not {size}.", "Give a size in this range, or export it again.")


def _check_static(module: tvm.IRModule, shapes: Mapping[str, tuple[int, ...]]) -> None:
    dynamic = []
    for parameter in module["main"].params:
        declared = _declared(parameter)
        if parameter.ty.shape is None or not all(isinstance(size, tvm.tirx.IntImm) for size in declared):
            dynamic.append(parameter)
        elif parameter.name in shapes and [int(size) for size in declared] != list(shapes[parameter.name]):
            raise ModelError(
                f"Shape {shapes[parameter.name]} does not fit input {plain(parameter.name)}: with the other shapes it is {_dimensions(parameter)}.",
                "Give sizes that fit together.",
            )
    if dynamic:
        listing = ", ".join(f"{plain(parameter.name)} {_dimensions(parameter)}" for parameter in dynamic)
        example = ",".join(str(int(size)) if isinstance(size, tvm.tirx.IntImm) else "1" for size in _declared(dynamic[0])) or "1,3,224,224"
        raise ModelError(f"The model has dynamic dimensions: {listing}.", f"Give them numbers, e.g. --shape {plain(dynamic[0].name)}={example}.")


def _declared(parameter: Any) -> list[Any]:
    return [] if parameter.ty.shape is None else list(parameter.ty.shape.values)


def _dimensions(parameter: Any) -> str:
    if parameter.ty.shape is None:
        return "(unknown shape)"
    return "(" + ", ".join(str(int(size)) if isinstance(size, tvm.tirx.IntImm) else plain(str(size)) for size in _declared(parameter)) + ")"
