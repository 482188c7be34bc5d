"""Opens sessions: on a model of any kind, or an existing directory."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import cloudpickle

from workbench.api.session import Session
from workbench.errors import InputError, ModelError, SessionError
from workbench.machine import cpu_facts, cuda_facts
from workbench.models import resolve_model
from workbench.records.request import ModelSource, ProfileRequest
from workbench.session import SessionDirectory, default_path
from workbench.workloads import BUNDLED, lookup, name_of, registered

Model = str | Path | Callable[..., Any] | Any


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
) -> Session:
    """Open a session.

    Args:
        model: A model file, a bundled name, ``module:function``, an IRModule, a TE function (``register_workload``), or a session directory.
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

    Returns:
        A session. Nothing is imported or measured yet: that is `Session.profile`.

    Raises:
        ModelError: There is no such model, or it needs trust.
        SessionError: The directory holds another model's session.
    """
    if isinstance(model, str | Path) and (Path(model) / "session.sqlite").is_file():
        return _reopen(SessionDirectory.open(Path(model)), threads)
    if threads is not None and threads < 1:
        raise InputError(f"{threads} threads cannot run anything.", "Give at least 1.")
    source, function = _source(model, shapes=shapes, args=args, trust=trust)
    request = ProfileRequest(
        source=source, target=target, layout=layout, fusion=fusion, repeat=repeat, threads=threads or cpu_facts().physical_cores, seed=seed
    )
    path = Path(session) if session is not None else default_path(source.name, _label(target))
    directory = SessionDirectory.create(path)
    try:
        request = _keep_module(directory, request, model)
        _claim(directory, request)
    except BaseException:
        directory.discard()
        raise
    return Session(directory, request, function=function)


def _reopen(directory: SessionDirectory, threads: int | None) -> Session:
    with directory.store() as store:
        manifest = store.manifest()
    if "request" not in manifest:
        raise SessionError(f"The session in {directory.path} was never begun.", "Profile a model into it.")
    request = ProfileRequest.from_dict(manifest["request"])
    return Session(directory, request if threads is None else ProfileRequest(**{**vars(request), "threads": threads}))


def _source(
    model: Model, *, shapes: Mapping[str, Sequence[int]] | None, args: Sequence[Any] | None, trust: bool
) -> tuple[ModelSource, bytes]:
    """What a model argument means, and the pickled function if it is one."""
    arguments = None if args is None else tuple(args)
    if isinstance(model, str) and model in registered() and model not in BUNDLED and not Path(model).exists():
        model = lookup(model)  # a function of this process, which the worker has never seen
    if isinstance(model, str | Path):
        fixed = {name: tuple(int(size) for size in shape) for name, shape in (shapes or {}).items()}
        source = resolve_model(str(model), shapes=fixed, args=arguments, trust=trust)
        return source, b""
    if _is_ir_module(model):
        return ModelSource(kind="ir_json", name="module"), b""
    if callable(model):
        return ModelSource(kind="function", name=name_of(model), args=arguments), cloudpickle.dumps(model)
    raise ModelError(f"A {type(model).__name__} is no model.", "Give a file, a name, an IRModule, or a TE function.")


def _is_ir_module(model: Model) -> bool:
    """True for an IRModule; TVM is loaded already if there is one, so it is not imported for the question."""
    tvm = sys.modules.get("tvm")
    return tvm is not None and isinstance(model, tvm.IRModule)


def _keep_module(directory: SessionDirectory, request: ProfileRequest, model: Model) -> ProfileRequest:
    """Write an IRModule from this process where the worker can read it."""
    if request.source.kind != "ir_json":
        return request
    tvm = cast("Any", sys.modules["tvm"])
    with tempfile.NamedTemporaryFile("w", dir=directory.path, prefix=".module-", suffix=".json", delete=False, encoding="utf-8") as file:
        file.write(tvm.ir.save_json(model))
    path = Path(file.name).replace(directory.path / "module.json")
    values = request.to_dict()
    values["source"]["path"] = str(path)
    return ProfileRequest.from_dict(values)


def _claim(directory: SessionDirectory, request: ProfileRequest) -> None:
    """Write the request into a new session; refuse a session of another model."""
    with directory.store() as store:
        known = store.manifest().get("request")
        if known is not None:
            source = ModelSource.from_dict(known["source"])
            if (source.kind, source.path, source.workload) != (request.source.kind, request.source.path, request.source.workload):
                raise SessionError(
                    f"{directory.path} is the session of another model ({source.path or source.workload or source.name}).",
                    "Give another directory: --session DIR.",
                )
        else:
            store.update_manifest({"request": request.to_dict(), "state": "new"})


def _label(target: str) -> str:
    """Label of a target for the directory's name, without loading TVM."""
    text = target.strip()
    if text in ("auto", "cuda"):
        devices = cuda_facts().devices
        return f"cuda-{devices[0].arch}" if devices else ("cpu" if text == "auto" else "cuda")
    return text.replace("cuda:", "cuda-")
