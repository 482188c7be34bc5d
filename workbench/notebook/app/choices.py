"""What a user can choose from: models and sessions, targets, layouts, engines, and the kernels that may host a worker."""

from __future__ import annotations

import importlib.metadata
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jupyter_client.kernelspec import NATIVE_KERNEL_NAME

from workbench.errors import InputError, ModelError
from workbench.escaping import plain, plain_value
from workbench.kernel.jupyter_kernel import kernel_names
from workbench.machine import cpu_facts, cuda_facts
from workbench.models import bundled_models
from workbench.old_python import VARIABLE
from workbench.records.request import ENGINES, RELAX, RELAY
from workbench.session import DATABASE
from workbench.session.places import SESSIONS

LAYOUTS = ("keep",)
CUDA_ARCHITECTURES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90")
_MOST_SESSIONS = 20
_LONGEST_MODEL = 4096
_LONGEST_KERNEL = 255
_LONGEST_PYTHON = 4096


@dataclass(frozen=True)
class Opening:
    """What the user wants to open.

    Attributes:
        model: A bundled name, a file, ``module:function``, or a session directory.
        is_session: True if it is a session directory.
        target: As the user wrote it; ``auto`` takes what this machine has.
        layout: Data layout.
        shapes: Numbers for inputs with dynamic dimensions.
        args: Arguments of a TE workload; None takes its own defaults.
        trust: True if the user allowed the model's own code to run.
        refresh: True measures again even if there is a profile.
        kernel: Name of the Jupyter kernel whose environment has the TVM; empty for the app's own.
        engine: The generation of TVM: one of `ENGINES`; a session has its own.
        python: The old Python that the relay engine runs TVM in: a program or a Jupyter kernelspec, as the user wrote it. It is started, so it comes
            from the user alone, and no session keeps it. Empty takes the environment variable's.
    """

    model: str
    is_session: bool = False
    target: str = "auto"
    layout: str = "keep"
    shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    args: tuple[Any, ...] | None = None
    trust: bool = False
    refresh: bool = False
    kernel: str = ""
    engine: str = RELAX
    python: str = ""

    @property
    def name(self) -> str:
        """What to call it while it is being opened."""
        return Path(self.model).name or self.model

    def options(self) -> dict[str, Any]:
        """The arguments of `workbench.open` beside the model."""
        allowed = {"trust": self.trust, "python": self.python}
        if self.is_session:
            return allowed
        return {**allowed, "target": self.target, "layout": self.layout, "shapes": self.shapes, "args": self.args, "engine": self.engine}


def read_opening(values: Mapping[str, Any]) -> Opening:
    """What a page asks to open.

    Raises:
        InputError: Something in it makes no sense.
    """
    model, target, layout = (values.get(name, default) for name, default in (("model", ""), ("target", "auto"), ("layout", "keep")))
    if not isinstance(model, str) or not model.strip() or len(model) > _LONGEST_MODEL:
        raise ModelError("No model is chosen.", "Choose one from the list, type a file's path, or drop a file.")
    if not isinstance(target, str) or not isinstance(layout, str) or layout not in LAYOUTS:
        raise InputError("The target or layout that the page sent is none.", "Reload the page.")
    if not isinstance(kernel := values.get("kernel", ""), str) or len(kernel) > _LONGEST_KERNEL:
        raise InputError("The kernel that the page sent is none.", "Reload the page.")
    engine, python = read_engine(values)
    return Opening(
        model=model.strip(),
        is_session=values.get("is_session") is True,
        target=target.strip() or "auto",
        layout=layout,
        shapes=_shapes(values.get("shapes", "")),
        args=_arguments(values.get("args", "")),
        trust=values.get("trust") is True,
        refresh=values.get("refresh") is True,
        kernel=kernel,
        engine=engine,
        python=python,
    )


def read_engine(values: Mapping[str, Any]) -> tuple[str, str]:
    """An engine, and the old Python for the one that needs it, as the user wrote that; empty if none is named, or none is needed.

    Raises:
        InputError: There is no such engine, or that is no name of a program.
    """
    engine, python = values.get("engine", RELAX), values.get("python", "")
    if not isinstance(engine, str) or engine not in ENGINES:
        raise InputError(f"There is no engine {plain_value(engine)}.", f"Choose one of: {', '.join(ENGINES)}.")
    if not isinstance(python, str) or len(python) > _LONGEST_PYTHON or not python.isprintable():
        raise InputError("The name of the Python is none.", "Give its path, or the name of a Jupyter kernel.")
    return engine, python.strip() if engine == RELAY else ""


def model_choices() -> list[dict[str, str]]:
    """The bundled models."""
    return [{"value": model.name, "label": model.name, "about": model.description, "kind": model.kind} for model in bundled_models()]


def session_choices(sessions: Path = SESSIONS) -> list[dict[str, str]]:
    """The sessions of the current folder, the one used last first."""
    found = []
    for database in sessions.glob(f"*/{DATABASE}"):
        try:
            found.append((database.stat().st_mtime, database.parent))
        except OSError:
            continue  # it has just gone
    return [{"value": str(path), "label": plain(path.name, 80)} for _, path in sorted(found, reverse=True)[:_MOST_SESSIONS]]


def kernel_choices() -> list[dict[str, str]]:
    """The Jupyter kernels whose environments may have the workbench and a TVM."""
    return [{"value": name, "label": plain(words, 80)} for name, words in kernel_names().items()]


def engine_choices() -> list[dict[str, str]]:
    """The engines, today's with the version of the TVM that is installed beside the app."""
    try:
        version = "TVM " + ".".join(importlib.metadata.version("apache-tvm").split(".")[:2])
    except importlib.metadata.PackageNotFoundError:
        version = "today's TVM"  # it may be in a kernel's environment
    return [{"value": RELAX, "label": f"{RELAX}: {plain(version, 40)}"}, {"value": RELAY, "label": f"{RELAY}: an old TVM"}]


def python_choices() -> list[dict[str, str]]:
    """The Jupyter kernels whose Python may have an old TVM: all but this one's own."""
    return [choice for choice in kernel_choices() if choice["value"] != NATIVE_KERNEL_NAME]


def named_python() -> str:
    """The old Python that the environment variable names."""
    return os.environ.get(VARIABLE, "").strip()


def target_choices() -> list[dict[str, str]]:
    """Targets: what this machine has, then what can be built for without being here. Asks ``nvidia-smi``, which may take a while."""
    cpu, cuda = cpu_facts(), cuda_facts()
    choices = [{"value": "auto", "label": "this machine"}]
    choices += [
        {"value": f"cuda:{device.arch}", "label": f"GPU {device.index}: {plain(device.name, 40)} ({device.arch})"}
        for device in cuda.devices
        if device.arch
    ]
    choices.append({"value": "cpu", "label": f"CPU: {plain(cpu.model, 40)}, {cpu.physical_cores} cores"})
    here = {device.arch for device in cuda.devices}
    choices += [
        {"value": f"cuda:{arch}", "label": f"CUDA {arch}, not here: builds and checks, measures nothing"}
        for arch in CUDA_ARCHITECTURES
        if arch not in here
    ]
    return choices


def _shapes(text: object) -> dict[str, tuple[int, ...]]:
    """Shapes from ``NAME=1,3,224,224; OTHER=1,8``."""
    if not isinstance(text, str):
        raise InputError("The shapes are no text.", "Write NAME=1,3,224,224.")
    shapes = {}
    for piece in filter(None, (piece.strip() for piece in text.split(";"))):
        name, _, sizes = piece.rpartition("=")
        numbers = [size.strip() for size in sizes.split(",")]
        if not name or not all(number.isascii() and number.isdigit() and len(number) < 11 for number in numbers):
            raise InputError(f"{plain(piece)} is no shape.", "Write NAME=1,3,224,224 with positive sizes; several with ; between them.")
        shapes[name.strip()] = tuple(int(number) for number in numbers)
    return shapes


def _arguments(text: object) -> tuple[Any, ...] | None:
    """Arguments of a workload from a JSON list; None for an empty text."""
    if not isinstance(text, str) or not text.strip():
        return None
    try:
        values = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{plain(text)} is no JSON list.", "Write for example [1, 64].") from error
    if not isinstance(values, Sequence) or isinstance(values, str):
        raise InputError(f"{plain(text)} is no JSON list.", "Write for example [1, 64].")
    return tuple(values)
