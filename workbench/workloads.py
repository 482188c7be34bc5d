"""Owns the names of TE workloads: the registry of the user's functions, the way to load one from a file, and the list of bundled ones.

A workload is a function that returns a list of TE tensors, inputs first and outputs last, as in the auto-scheduler. Nothing here knows
TVM: calling the function and reading its tensors is an engine's job.
"""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any, cast, overload

from workbench import strict_json
from workbench.errors import ModelError
from workbench.escaping import plain

Workload = Callable[..., Any]

_DECORATOR = "Put @workbench.register_workload above the function that returns its TE tensors"


@dataclass(frozen=True)
class BundledWorkload:
    """A TE workload that comes with the workbench.

    Attributes:
        function: Where it is, as ``module:function``; the module needs TVM.
        defaults: Its parameters in order, and their default values.
        description: One line for ``workbench models``.
    """

    function: str
    defaults: Mapping[str, int]
    description: str

    @property
    def arguments(self) -> tuple[int, ...]:
        """The default arguments, in order."""
        return tuple(self.defaults.values())


def _bundled(name: str, description: str, **defaults: int) -> BundledWorkload:
    return BundledWorkload(f"workbench.engines.relax.bundled_workloads:{name}", MappingProxyType(defaults), description)


BUNDLED: Mapping[str, BundledWorkload] = MappingProxyType(
    {
        "conv2d_relu": _bundled(
            "conv2d_relu", "convolution, bias and ReLU of ResNet-50's last stage", N=1, H=7, W=7, CO=512, CI=512, KH=3, KW=3, stride=1, padding=1
        ),
        "matmul": _bundled("matmul", "matrix product", M=512, N=512, K=512),
        "matmul_add": _bundled("matmul_add", "matrix product plus a row of biases (a dense layer)", M=128, N=768, K=768),
        "depthwise_conv2d": _bundled(
            "depthwise_conv2d", "depthwise convolution, bias and ReLU of MobileNet", N=1, H=28, W=28, C=256, KH=3, KW=3, stride=1, padding=1
        ),
        "softmax": _bundled("softmax", "softmax over rows", rows=512, columns=1024),
        "attention": _bundled("attention", "scaled dot-product attention, all stages in one kernel", heads=8, length=128, size=64),
    }
)

_registry: dict[str, Workload] = {}


@overload
def register_workload(name: str, function: None = None, *, override: bool = False) -> Callable[[Workload], Workload]: ...
@overload
def register_workload(name: str | Workload, function: Workload, *, override: bool = False) -> Workload: ...
@overload
def register_workload(name: Workload, function: None = None, *, override: bool = False) -> Workload: ...
def register_workload(name: str | Workload, function: Workload | None = None, *, override: bool = False) -> Any:
    """Register a TE workload: ``@register_workload``, ``@register_workload("name")`` or ``register_workload("name", function)``.

    Args:
        name: The name to register; by default the function's own.
        function: The workload, unless this is used as a decorator.
        override: Replace another function of the same name.

    Raises:
        ModelError: Another function has the name. The same function defined again (a notebook cell run twice) replaces itself.
    """
    if not isinstance(name, str):
        return _register(_own_name(name), name, override=override)
    if function is not None:
        return _register(name, function, override=override)
    return lambda decorated: _register(name, decorated, override=override)


def _register(name: str, function: Workload, *, override: bool) -> Workload:
    if not callable(function):
        raise ModelError(f"The workload {plain(name)} is no function but {plain(repr(function))}.", "Register a function.")
    if not name.strip():
        raise ModelError("The name of a workload is empty.", "Give it a name.")
    previous = _registry.get(name)
    if previous is not None and not override and _place(previous) != _place(function):
        raise ModelError(
            f"The workload {plain(name)} is already registered by {plain(':'.join(_place(previous)), 120)}.",
            "Choose another name, or pass override=True.",
        )
    _registry[name] = function
    return function


def _own_name(function: Workload) -> str:
    return str(getattr(function, "__name__", type(function).__name__))


def _place(function: Workload) -> tuple[str, str]:
    return str(getattr(function, "__module__", "")), str(getattr(function, "__qualname__", repr(function)))


def registered() -> tuple[str, ...]:
    """Names of the registered workloads, in order of their registration."""
    return tuple(_registry)


def lookup(name: str) -> Workload:
    """The workload registered under a name.

    Raises:
        ModelError: There is none.
    """
    if name not in _registry:
        known = ", ".join(plain(other) for other in _registry) or "none"
        raise ModelError(f"No workload {plain(name)} is registered.", f"{_DECORATOR}. Registered: {known}.")
    return _registry[name]


def name_of(function: Workload) -> str:
    """The name under which a function is registered; its own name if it is not."""
    return next((name for name, known in _registry.items() if known is function), _own_name(function))


def load_function(reference: str) -> Workload:
    """Import a registered workload given as ``module:function``; the current folder is searched first, then ``PYTHONPATH``.

    This runs the module's code: only call it for a module that the user trusts.

    Args:
        reference: The module's dotted name, a colon, and the function's name or the name it registered.

    Raises:
        ModelError: The reference is malformed, the module is not found or fails, or it has no such registered workload.
    """
    module_name, function_name = _parts(reference)
    module = _import(module_name)
    function = getattr(module, function_name, None)
    if function is None:
        function = _registry.get(function_name)
        if function is None or _place(function)[0] != module_name:
            raise ModelError(_no_function(module, function_name), f"{_DECORATOR}, and give that function's name.")
    if not callable(function):
        raise ModelError(f"{plain(reference)} is no function but of type {type(function).__name__}.", f"{_DECORATOR}.")
    if not any(known is function for known in _registry.values()):
        raise ModelError(f"The function {plain(reference)} is not registered as a workload.", f"{_DECORATOR}.")
    return function


def load_schedule(reference: str) -> Callable[..., Any]:
    """Import a schedule function given as ``module:function``, from where `load_function` looks.

    The function is called with a ``tvm.s_tir.Schedule`` of each kernel that is searched. It schedules in place, or returns one schedule or a list
    of several; its ``sample_*`` calls are the decisions that the search makes.

    This runs the module's code: only call it for a module that the user trusts.

    Raises:
        ModelError: The reference is malformed, the module is not found or fails, or it has no such function.
    """
    module_name, function_name = _parts(reference)
    module = _import(module_name)
    function = getattr(module, function_name, None)
    if not callable(function):
        raise ModelError(
            f"The module {plain(module_name)} has no function {plain(function_name)}.",
            "Give the name of a function that takes a tvm.s_tir.Schedule; workbench tune --help shows one.",
        )
    return cast("Callable[..., Any]", function)


def _parts(reference: str) -> tuple[str, str]:
    """Module and function of ``module:function``."""
    module_name, _, function_name = reference.partition(":")
    is_path = module_name.endswith(".py") or "/" in module_name
    if is_path or not all(part.isidentifier() for part in module_name.split(".")) or not function_name.strip():
        remedy = "Leave out the .py and write dots between folders." if is_path else ""
        raise ModelError(f"{plain(reference)} is no module:function.", remedy or "Write it like my_layers:conv2d.")
    return module_name, function_name


def _no_function(module: ModuleType, name: str) -> str:
    place = plain(str(getattr(module, "__file__", None) or "built into Python"), 120)
    own = [registered_name for registered_name, function in _registry.items() if _place(function)[0] == module.__name__]
    listing = f"it registers {', '.join(plain(known) for known in own)}" if own else "it registers no workload"
    return f"The module {plain(module.__name__)} ({place}) has no workload {plain(name)}; {listing}."


def _import(name: str) -> ModuleType:
    with _current_folder_first():
        importlib.invalidate_caches()
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is not None and (error.name == name or name.startswith(f"{error.name}.")):
                raise ModelError(
                    f"There is no module {plain(error.name)} in the current folder ({plain(str(Path.cwd()), 120)}) or on PYTHONPATH.",
                    "Change to its folder, or add the folder to PYTHONPATH.",
                ) from error
            raise ModelError(f"The module {plain(name)} needs a module that is missing: {plain(str(error.name))}.", "Install it.") from error
        except (Exception, SystemExit) as error:  # the user's module may raise anything, and a script may end the process
            reason = plain(f"{type(error).__name__}: {error}", 300)
            place = own_line(error, name)
            where = f" ({place})" if place else ""
            raise ModelError(f"The module {plain(name)} cannot be imported{where}: {reason}", "Run it alone in Python to see where.") from error


def own_line(error: BaseException, module: str) -> str:
    """Where in a module of the user's own an error came up, as ``/home/me/mine.py, line 7``; empty if it came up elsewhere."""
    if isinstance(error, SyntaxError) and error.filename and error.lineno:
        return f"{plain(error.filename, 120)}, line {error.lineno}"
    own = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if frame.f_globals.get("__name__") == module]
    return f"{plain(own[-1][0].f_code.co_filename, 120)}, line {own[-1][1]}" if own else ""


@contextmanager
def _current_folder_first() -> Iterator[None]:
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        yield
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def parse_arguments(text: str) -> tuple[Any, ...]:
    """The arguments of a workload from the text of ``--args``, a JSON list.

    Raises:
        ModelError: It is no JSON, no list, or has a number that JSON does not have.
    """
    try:
        values = strict_json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ModelError(f"The arguments {plain(text)} are no JSON: {plain(str(error), 120)}.", "Write them like --args '[1, 7, 7]'.") from error
    if not isinstance(values, list):
        raise ModelError(f"The arguments {plain(text)} are no list.", "Write them like --args '[1, 7, 7]'.")
    return tuple(values)
