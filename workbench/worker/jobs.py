"""What a worker can do for a front: profile a model, and hand out intermediate tensors."""

from __future__ import annotations

import datetime
import resource
import shutil
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from workbench.engines.protocol import Engine, Progress
from workbench.errors import SessionError
from workbench.links import build_profile
from workbench.records.request import ProfileRequest
from workbench.records.target import TargetSpec
from workbench.session import SessionDirectory
from workbench.store import FORMAT_VERSION, Store

Job = Callable[["JobContext", dict[str, Any]], dict[str, Any]]


@dataclass(frozen=True)
class JobContext:
    """What a job works with."""

    directory: SessionDirectory
    store: Store
    on_progress: Progress


class Clock:
    """Seconds that the phases of a job took, and the memory it reached."""

    def __init__(self) -> None:
        self._started = time.perf_counter()
        self.phases: dict[str, float] = {}

    def phase(self, name: str) -> None:
        """Note that a phase has just ended."""
        now = time.perf_counter()
        self.phases[f"{name}_s"] = now - self._started
        self._started = now

    def to_dict(self) -> dict[str, float]:
        """Phases in seconds, and ``peak_bytes``: the largest resident set of the process so far."""
        return {**self.phases, "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}


class Jobs:
    """The jobs of one worker; they share an engine, so that a model stays loaded between commands."""

    def __init__(self, engine: Engine, *, start_s: float, function: Callable[..., Any] | None) -> None:
        self._engine = engine
        self._start_s = start_s
        self._function = function
        self._loaded_profile: str | None = None

    def by_kind(self) -> dict[str, Job]:
        """The jobs by the kind of command that asks for them."""
        return {"profile": self.profile, "outputs": self.outputs}

    def profile(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Import, lower, extract, measure, link, and store it all at once."""
        request = ProfileRequest.from_dict(arguments)
        engine, progress, clock = self._engine, context.on_progress, Clock()
        context.store.update_manifest({"state": "preparing"})
        progress("import", 0.0)
        target = engine.resolve_target(request.target, threads=request.threads)
        notes = [*engine.import_model(request.source, seed=request.seed, function=self._function), *target.remarks]
        clock.phase("import")
        steps = engine.lower(target, layout=request.layout, fusion=request.fusion, on_progress=progress)
        clock.phase("lower")
        kernels = engine.extract_tasks(on_progress=progress)
        clock.phase("extract")
        progress("save", 0.0)
        engine.save(context.directory.program)
        clock.phase("save")
        measurement = engine.profile(repeat=request.repeat, seed=request.seed, on_progress=progress)
        clock.phase("measure")
        profile = build_profile(
            model=request.source.name,
            engine=engine.name,
            target=target.label,
            kernels=kernels,
            calls=engine.calls(),
            measurement=measurement,
            builtin_origins=engine.builtin_origins(),
            notes=notes,
        )
        clock.phase("link")
        identifier = uuid.uuid4().hex
        manifest = {
            "state": "ready",
            "profile_id": identifier,
            "format_version": FORMAT_VERSION,
            "request": request.to_dict(),
            "engine": engine.name,
            "versions": engine.versions(),
            "target": target.to_dict(),
            "lowering": {"steps": list(steps), "layout": request.layout, "fusion": request.fusion},
            "measurement": {"hook_us": measurement.hook_us, "repeat": request.repeat, "threads": measurement.threads, "seed": request.seed},
            "machine": engine.machine().to_dict(),
            "timings": {"start_s": self._start_s, **clock.to_dict()},
            "profiled_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        }
        context.store.write_profile(profile, {kernel.name: kernel.structural_hash for kernel in kernels}, manifest)
        self._loaded_profile = identifier
        return {"timings": manifest["timings"]}

    def outputs(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Write the output tensors of some rows as .npy files; the front reads and removes them."""
        manifest = context.store.manifest()
        self._load(context, manifest)
        arrays = self._engine.outputs(arguments["rows"], seed=manifest["request"]["seed"], on_progress=context.on_progress)
        folder = context.directory.artifacts / f"outputs-{uuid.uuid4().hex}"
        folder.mkdir(parents=True)
        try:
            files = {
                str(row): [_write_array(folder / f"row{row}_{index}.npy", array) for index, array in enumerate(outputs)]
                for row, outputs in arrays.items()
            }
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return {"folder": str(folder), "files": files}

    def _load(self, context: JobContext, manifest: dict[str, Any]) -> None:
        """Have the engine hold the program that the store's profile was made of."""
        if manifest.get("profile_id") is None:
            raise SessionError("The session has no profile yet.", "Profile the model first.")
        if self._loaded_profile == manifest["profile_id"]:
            return
        context.on_progress("load", 0.0)
        self._engine.load(context.directory.program, TargetSpec.from_dict(manifest["target"]))
        profile = context.store.profile()
        rows = [] if profile is None else [row.kernel for row in profile.kernel_rows]
        if rows != [call.kernel for call in self._engine.calls()]:
            raise SessionError("The program of the session is not the one that its profile shows.", "Profile the model again.")
        self._loaded_profile = manifest["profile_id"]


def _write_array(path: Any, array: np.ndarray[Any, Any]) -> dict[str, str]:
    """Write an array; return its file and dtype, since .npy keeps dtypes such as bfloat16 only as raw bytes."""
    np.save(path, array, allow_pickle=False)
    return {"file": str(path), "dtype": str(array.dtype)}
