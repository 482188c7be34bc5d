"""Opens sessions: on a model of any kind, or an existing directory."""

from __future__ import annotations

import hashlib
import json
import operator
import sys
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

import cloudpickle

from workbench.api.given import LARGEST_WHOLE, switch, text, whole_number
from workbench.api.places import default_place
from workbench.api.session import Session
from workbench.errors import InputError, ModelError, SessionError, TargetError
from workbench.escaping import plain, plain_value
from workbench.exchange import unpack_session
from workbench.machine import cpu_facts
from workbench.models import is_bundled, resolve_model
from workbench.old_python import find_old_python
from workbench.records.number import real, whole
from workbench.records.request import ENGINES, MOST_ROUNDS, MOST_THREADS, RELAX, RELAY, ModelSource, ProfileRequest
from workbench.session import SessionDirectory, is_session
from workbench.workloads import BUNDLED, lookup, name_of, registered

Model = str | Path | Callable[..., Any] | Any

_opened: weakref.WeakValueDictionary[Path, Session] = weakref.WeakValueDictionary()


def open(  # noqa: A001 - workbench.open reads well
    model: Model,
    *,
    target: str = "auto",
    session: str | Path | None = None,
    shapes: Mapping[str, Sequence[int]] | None = None,
    args: Sequence[Any] | None = None,
    layout: str = "keep",
    fusion: bool = True,
    threads: int | None = None,
    repeat: int | None = None,
    seed: int = 0,
    trust: bool = False,
    engine: str = RELAX,
    python: str | Path = "",
) -> Session:
    """Open a session.

    Args:
        model: A model file, a bundled name, ``module:function``, an IRModule, a TE function (``register_workload``), or a session directory;
            for that, options that are not the default change what it profiles.
        target: ``auto``, ``cpu``, ``cuda``, ``cuda:sm_90``, a TVM tag, JSON, or TVM's old string form.
        session: The directory; None takes ``workbench-sessions/<model>-<target>``.
        shapes: Numbers for inputs with dynamic dimensions.
        args: Arguments of a TE workload.
        layout: Data layout; ``keep`` leaves the model's own.
        fusion: False keeps one kernel per operator.
        threads: Threads that run the kernels on a CPU; None takes all physical cores that this process may use.
        repeat: Measured runs; None lets the time a run takes decide.
        seed: Seed of the random inputs, and of random weights.
        trust: True allows a model's own code to run (TVMScript, torch.export archives, ``module:function``).
        engine: ``relax`` (today's TVM), or ``relay`` (TVM 0.8 to 0.18, in a Python of its own).
        python: That Python for the relay engine: a program, or the name of a Jupyter kernelspec; empty takes WORKBENCH_RELAY_PYTHON's.

    Returns:
        A session. Nothing is imported or measured yet: that is `Session.profile`.

    Raises:
        InputError: An option has a value that cannot be used.
        ModelError: There is no such model, or it needs trust.
        SessionError: The directory holds another model's session.
    """
    switch("trust", trust)
    options = _checked(target=target, layout=layout, fusion=fusion, threads=threads, repeat=repeat, seed=seed, engine=engine)
    fixed = _fixed_shapes(shapes)
    if isinstance(model, str | Path) and not is_bundled(str(model)) and is_session(Path(model)):
        return _reopen(Path(model), session, options=options, shapes=fixed, args=args, trust=trust, python=str(python))
    source, content = _source(model, shapes=fixed, args=args, trust=trust)
    request = replace(ProfileRequest(source=source, threads=cpu_facts().physical_cores), **options)
    path = Path(session) if session is not None else default_place(source, target, request.engine)
    old_python = _old_python(request, str(python))
    if source.kind == "function":
        _end_worker_of_this_process(path)
    directory = SessionDirectory.create(path)
    try:
        request = _claim(directory, request)
    except BaseException:
        directory.discard()
        raise
    opened = Session(directory, request, content=content, python=old_python)
    _opened[path.absolute()] = opened
    return opened


def open_archive(path: str | Path, session: str | Path | None = None) -> Session:
    """Make a session of an archive that `Session.export` or ``workbench export --archive`` wrote, and open it.

    Args:
        path: The archive; it may be a stranger's.
        session: The new directory; None takes ``workbench-sessions/<model>-<target>``.

    Raises:
        InputError: It is no archive of a session, is damaged, or wants more than a session may.
        SessionError: The directory is in use.
    """
    return open(unpack_session(Path(path), None if session is None else Path(session)).path)


def _end_worker_of_this_process(path: Path) -> None:
    """End the worker of a session that this process opened before in the same place: it may hold an older function of the same name."""
    previous = _opened.pop(path.absolute(), None)
    if previous is not None:
        previous.close()


def _checked(**options: Any) -> dict[str, Any]:
    """The options that were given: threads if there are any, the others if they differ from the default.

    Raises:
        InputError: One has a value that no engine can use.
    """
    for name, least, most in (("threads", 1, MOST_THREADS), ("repeat", 1, MOST_ROUNDS), ("seed", 0, LARGEST_WHOLE)):
        if options[name] is not None:
            options[name] = whole_number(name, options[name], least=least, most=most)
    if not isinstance(options["target"], str) or not options["target"].strip():
        raise TargetError(f"{plain_value(options['target'])} is no target.", "Give a text, for example auto, cpu or cuda.")
    text("layout", options["layout"])
    switch("fusion", options["fusion"])
    if options["engine"] not in ENGINES:
        raise InputError(f"There is no engine {plain_value(options['engine'])}.", f"Give one of: {', '.join(ENGINES)}.")
    defaults = {field.name: field.default for field in fields(ProfileRequest)}
    return {name: value for name, value in options.items() if value is not None and (name == "threads" or value != defaults[name])}


def _fixed_shapes(shapes: Mapping[str, Sequence[int]] | None) -> dict[str, tuple[int, ...]]:
    try:
        fixed = {str(name): tuple(operator.index(size) for size in shape) for name, shape in (shapes or {}).items()}
    except (TypeError, AttributeError) as error:
        raise InputError("The shapes are no whole numbers.", 'Give shapes={"name": (1, 3, 224, 224)}.') from error
    if any(size < 1 for shape in fixed.values() for size in shape):
        raise InputError("A shape has a size below 1.", "Give positive sizes.")
    return fixed


def _reopen(
    path: Path,
    session: str | Path | None,
    *,
    options: Mapping[str, Any],
    shapes: Mapping[str, tuple[int, ...]],
    args: Sequence[Any] | None,
    trust: bool,
    python: str,
) -> Session:
    """The session in a directory; options that are not the default change what it profiles."""
    if session is not None and Path(session).absolute() != path.absolute():
        raise SessionError(f"{plain(str(path), 120)} is a session itself.", "Leave --session out.")
    directory = SessionDirectory.open(path)
    with directory.store() as store:
        request = store.request()
    if request is None:
        raise SessionError(f"The session in {plain(str(directory.path), 120)} was never begun.", "Profile a model into it.")
    source = replace(request.source, trust=trust)  # whoever wrote the directory cannot grant trust
    if source.kind == "ir_json":
        source = replace(source, path=str(directory.module(source.stamp)))  # a session may have been copied
    if shapes:
        source = replace(source, shapes=shapes)
    if args is not None:
        if source.kind not in ("workload", "function"):
            raise ModelError(f"{plain(source.name)} takes no --args.", "Only TE workloads do.")
        _check_same_arguments(directory, source, replace(source, args=_plain_arguments(args)))
    request = replace(request, source=source, **options)
    return Session(directory, request, python=_old_python(request, python))


def _old_python(request: ProfileRequest, given: str) -> str:
    """The Python for the relay engine; empty for the other one.

    Raises:
        InputError: One is given that is none, or that nobody asks for.
    """
    if request.engine == RELAY:
        return find_old_python(given)
    if given:
        raise InputError("--python is the Python of the relay engine, and this session is of the engine relax.", "Give --engine relay, too.")
    return ""


def _source(model: Model, *, shapes: Mapping[str, tuple[int, ...]], args: Sequence[Any] | None, trust: bool) -> tuple[ModelSource, bytes]:
    """What a model argument means, and its content if that is in this process: a pickled function, or an IRModule as JSON."""
    arguments = None if args is None else _plain_arguments(args)
    if isinstance(model, str) and model in registered() and model not in BUNDLED and not Path(model).exists():
        model = lookup(model)  # a function of this process, which the worker has never seen
    if isinstance(model, str | Path):
        return resolve_model(str(model), shapes=shapes, args=arguments, trust=trust), b""
    if _is_ir_module(model):
        content = cast("Any", sys.modules["tvm"]).ir.save_json(model).encode()
        return ModelSource(kind="ir_json", name="module", stamp=hashlib.sha256(content).hexdigest()), content
    if callable(model):
        content = _pickled(model)
        return ModelSource(kind="function", name=name_of(model), args=arguments, stamp=hashlib.sha256(content).hexdigest()), content
    raise ModelError(f"A {type(model).__name__} is no model.", "Give a file, a name, an IRModule, or a TE function.")


def _pickled(function: Callable[..., Any]) -> bytes:
    try:
        return cast("bytes", cloudpickle.dumps(function))
    except Exception as error:  # pickling runs code of whatever the function refers to
        raise ModelError(
            f"The function {plain(name_of(function))} cannot be handed to the worker: {plain(str(error), 200)}.",
            "Let it use nothing from outside that is bound to this process, such as open files, locks or running generators.",
        ) from error


def _plain_arguments(args: Sequence[Any]) -> tuple[Any, ...]:
    """Arguments of a workload as plain JSON values, so that they are the same after a session was reopened."""
    refusal = ModelError(f"The arguments {plain_value(args)} are no plain values.", "Give a list of numbers, texts and lists of them.")
    if isinstance(args, str):  # its letters are not meant
        raise refusal
    try:
        return tuple(json.loads(json.dumps(list(args), allow_nan=False, default=_plain_argument)))
    except (TypeError, ValueError, RecursionError) as error:
        raise refusal from error


def _plain_argument(value: Any) -> int | float:
    """One of NumPy's numbers as Python's own; raises TypeError for anything else."""
    counted = whole(value)
    number = real(value) if counted is None else counted
    if number is None:
        raise TypeError(f"a {type(value).__name__} is no plain value")
    return number


def _is_ir_module(model: Model) -> bool:
    """True for an IRModule; TVM is loaded already if there is one, so it is not imported for the question."""
    tvm = sys.modules.get("tvm")
    return tvm is not None and isinstance(model, tvm.IRModule)


def _claim(directory: SessionDirectory, request: ProfileRequest) -> ProfileRequest:
    """Note in a session without a profile what it is for; refuse a session of another model."""
    with directory.store() as store:
        known = store.request()
        is_profiled = "profile_id" in store.manifest()
        if known is not None and not _same_model(known.source, request.source):
            shown = plain(known.source.path or known.source.workload or known.source.name, 120)
            raise SessionError(
                f"{plain(str(directory.path), 120)} is the session of another model ({shown}).", "Give another directory: --session DIR."
            )
        if known is not None and is_profiled:
            _check_same_arguments(directory, known.source, request.source)
        if request.source.kind == "ir_json":
            request = replace(request, source=replace(request.source, path=str(directory.module(request.source.stamp))))
        if not is_profiled:
            store.update_manifest({"request": request.to_dict()})
    return request


def _check_same_arguments(directory: SessionDirectory, known: ModelSource, asked: ModelSource) -> None:
    """Raise SessionError if a workload is asked for with other arguments than a session has it: its trials are those of other kernels."""
    if _arguments_of(known) != _arguments_of(asked):
        shown = "its own" if known.args is None else plain(json.dumps(known.args), 120)
        raise SessionError(
            f"{plain(str(directory.path), 120)} is the session of {plain(known.name)} with other arguments ({shown}).",
            "Give another --session DIR, or none: the default directory is named after the arguments.",
        )


def _arguments_of(source: ModelSource) -> tuple[Any, ...] | None:
    """Arguments of a workload; of a bundled one its own, if none are given."""
    bundled = BUNDLED.get(source.workload)
    return bundled.arguments if source.args is None and bundled is not None else source.args


def _same_model(one: ModelSource, other: ModelSource) -> bool:
    """True if both are the same model, whatever its options, and even if it was edited meanwhile.

    A file that is gone from its old place is taken for the one of the same name at the new place.
    """
    if (one.kind, one.workload) != (other.kind, other.workload):
        return False
    if one.kind in ("function", "ir_json"):
        return one.name == other.name
    return one.path == other.path or (Path(one.path).name == Path(other.path).name and not Path(one.path).exists())
