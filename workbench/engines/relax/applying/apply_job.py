"""Runs in the process of an application: replays schedules, builds both models, runs and times them; a crash here costs that process alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import tvm

from workbench.engines.apply_protocol import RecordedSchedule
from workbench.engines.onnx_reference import outputs_of_onnxruntime, packed, unpacked
from workbench.engines.relax import program_files
from workbench.engines.relax.applying.models import Models
from workbench.engines.relax.applying.package import export, write_package
from workbench.engines.relax.applying.scheduling import built_with, replayed
from workbench.engines.relax.build import build
from workbench.engines.relax.inputs import random_inputs
from workbench.engines.relax.lowering import Lowered
from workbench.engines.relax.workload_module import fingerprint
from workbench.engines.targets import to_tvm
from workbench.errors import WorkbenchError
from workbench.isolation import Message
from workbench.records.target import TargetSpec

_UNTUNED = "untuned.so"


@dataclass
class _State:
    """What the process holds.

    Attributes:
        lowered: The program.
        spec: The target as the session has it.
        target: The same as TVM's.
        scratch: Where libraries go.
        seed: Seed of the inputs that models are timed on.
        trust: True allows schedules that bring code of their own.
        device: Index of the device.
        untuned: Library of the untuned model; None before it is built.
        models: Both models; None before they are built.
    """

    lowered: Lowered
    spec: TargetSpec
    target: tvm.target.Target
    scratch: Path
    seed: int
    trust: bool
    device: int
    untuned: Path | None = None
    models: Models | None = field(default=None)


_states: list[_State] = []


def serve(request: Message) -> Message:
    """Answer one request, by its ``do``; an error that a user can act on is answered as ``refused``, with its class, message and remedy."""
    values = dict(request.values)
    jobs: dict[str, Callable[[dict[str, Any], tuple[bytes, ...]], Message]] = {
        "open": _open,
        "replay": _replay,
        "build": _build,
        "outputs": _outputs,
        "onnxruntime": _onnxruntime,
        "beside": _beside,
        "round": _round,
    }
    try:
        return jobs[values.pop("do")](values, request.blobs)
    except WorkbenchError as error:
        return Message({"refused": type(error).__name__, "message": error.message, "remedy": error.remedy})


def _open(values: dict[str, Any], blobs: tuple[bytes, ...]) -> Message:
    """Load the program."""
    del blobs
    spec = TargetSpec.from_dict(values["target"])
    lowered = program_files.load(Path(values["program"]), trust=values["trust"])
    state = _State(lowered, spec, to_tvm(spec), Path(values["scratch"]), values["seed"], trust=values["trust"], device=values["device"])
    _states[:] = [state]
    return Message({})


def _replay(values: dict[str, Any], blobs: tuple[bytes, ...]) -> Message:
    """The scheduled kernel as TVM's JSON, and its fingerprint."""
    state = _states[0]
    function = state.lowered.module[values["kernel"]]
    schedule = RecordedSchedule(blobs[0].decode(), values["fingerprint"])
    module = replayed(function, state.target, schedule, trust=state.trust)
    return Message({"fingerprint": fingerprint(module)}, (str(tvm.ir.save_json(module)).encode(),))


def _build(values: dict[str, Any], blobs: tuple[bytes, ...]) -> Message:
    """Build the model with schedules into a folder, and the untuned one if it is not there yet; load both."""
    state = _states[0]
    schedules = _schedules(values, blobs)
    built, applied = built_with(state.lowered.module, state.target, schedules, trust=state.trust)
    if state.untuned is None:
        untuned = state.scratch / _UNTUNED
        export(build(state.lowered.module, state.target).executable, untuned)
        state.untuned = untuned
    folder = Path(values["folder"])
    library = write_package(built.executable, state.lowered, state.spec, folder)
    device = tvm.device("cpu" if state.spec.kind == "llvm" else state.spec.kind, state.device)
    state.models = Models(state.lowered, device, untuned=state.untuned, tuned=library, scheduled=schedules, seed=state.seed)
    return Message({"applied": {name: asdict(item) for name, item in applied.items()}})


def _schedules(values: Mapping[str, Any], blobs: tuple[bytes, ...]) -> dict[str, RecordedSchedule]:
    named = zip(values["kernels"], values["fingerprints"], blobs, strict=True)
    return {name: RecordedSchedule(trace.decode(), found) for name, found, trace in named}


def _outputs(values: dict[str, Any], blobs: tuple[bytes, ...]) -> Message:
    """Both models on one set of inputs."""
    del blobs
    found = _models().compare_outputs(values["seed"], each_kernel=values["each_kernel"], random_weights=values["random_weights"])
    return Message(asdict(found))


def _onnxruntime(values: dict[str, Any], blobs: tuple[bytes, ...]) -> Message:
    """What onnxruntime makes of the source model."""
    del blobs
    inputs = random_inputs(_states[0].lowered, seed=values["seed"])
    outcome = outputs_of_onnxruntime(Path(values["model"]), inputs)
    return Message({"why_not": outcome}) if isinstance(outcome, str) else Message({}, tuple(map(packed, outcome)))


def _beside(values: dict[str, Any], blobs: tuple[bytes, ...]) -> Message:
    """The model with schedules beside what onnxruntime made of the source model."""
    outcome = _models().compare_with_onnxruntime([unpacked(blob) for blob in blobs], values["seed"])
    return Message({"why_not": outcome} if isinstance(outcome, str) else asdict(outcome))


def _round(values: dict[str, Any], blobs: tuple[bytes, ...]) -> Message:
    """Times of both models, by turns."""
    del blobs
    return Message(asdict(_models().time_round(runs=values["runs"], tuned_first=values["tuned_first"])))


def _models() -> Models:
    models = _states[0].models
    if models is None:
        raise RuntimeError("no model was built")
    return models
