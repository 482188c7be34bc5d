"""What a worker can do for a front: profile a model, hand out intermediate tensors, search schedules, show them."""

from __future__ import annotations

import datetime as dt
import hashlib
import os
import resource
import shutil
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import cloudpickle
import numpy as np

from workbench.engines.protocol import Engine, Progress
from workbench.errors import EnvironmentFault, ModelError, SessionError
from workbench.escaping import plain
from workbench.links import build_profile
from workbench.machine import read_machine
from workbench.models import check_trust
from workbench.records.graph import GRAPH_DOCUMENT
from workbench.records.profile import Profile
from workbench.records.request import ProfileRequest
from workbench.records.tuning import TuneRequest
from workbench.search.control import CONTROL_COMMANDS
from workbench.store import FORMAT_VERSION
from workbench.worker.applying import apply, read_request, verify
from workbench.worker.context import Job, JobContext
from workbench.worker.limits import note_peaks
from workbench.worker.recorded import write_library
from workbench.worker.rerunning import rerun
from workbench.worker.tuning import refuse_control, tune
from workbench.worker.view_desk import INSPECT, ViewDesk


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
    """The jobs of one worker; they share an engine, so that a model stays loaded between commands.

    Args:
        engine: Does the work.
        start_s: Seconds that the worker took to get ready, for the record.
        function: The pickled TE function that the front handed over; empty if it has none.
        trust: True if the user allowed the model's own code to run; nothing in the session can say so.
    """

    def __init__(self, engine: Engine, *, start_s: float, function: bytes, trust: bool) -> None:
        self._engine = engine
        self._start_s = start_s
        self._function = function
        self._trust = trust
        self._loaded_profile: str | None = None
        self._desk = ViewDesk(engine)

    def by_kind(self) -> dict[str, Job]:
        """The jobs by the kind of command that asks for them."""
        return {
            "profile": self.profile,
            "outputs": self.outputs,
            "tune": self.tune,
            INSPECT: self.inspect,
            "peaks": self.peaks,
            "library": self.library,
            "apply": self.apply,
            "verify": self.verify,
            "rerun": self.rerun,
            "warm": self.warm,
            **dict.fromkeys(CONTROL_COMMANDS, refuse_control),
        }

    def profile(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Import, lower, extract, measure, link, and store it all at once."""
        request = ProfileRequest.from_dict(arguments)
        request = replace(request, source=replace(request.source, trust=self._trust))
        self._check_front(arguments)
        check_trust(request.source)
        _check_threads(request)
        _check_engine(request, self._engine)
        identifier = uuid.uuid4().hex
        self._loaded_profile = None  # from here on the engine holds another program than the stored one
        program = context.directory.new_program(identifier)
        try:
            profile, hashes, manifest = self._measured(request, program, on_progress=context.on_progress)
            context.store.write_profile(
                profile,
                hashes,
                {"last_stop": None, "profile_id": identifier, **manifest},
                documents={GRAPH_DOCUMENT: self._engine.graph().to_dict()},
                command=context.command,
            )
        except BaseException:
            shutil.rmtree(program, ignore_errors=True)
            raise
        context.directory.settle_program(identifier)
        self._loaded_profile = identifier
        note_peaks(self._engine, context)
        return {}

    def _check_front(self, arguments: Mapping[str, Any]) -> None:
        """A front that trusts the model may have met the worker of one that does not; a claim of trust alone gives none."""
        if arguments.get("expects_trust") is True and not self._trust:
            raise EnvironmentFault(
                "The worker that serves this session was started without trust.", "Close the other front of the session, then try again with --trust."
            )

    def _measured(self, request: ProfileRequest, program: Path, *, on_progress: Progress) -> tuple[Profile, dict[str, str], dict[str, Any]]:
        """A new profile, the structural hashes of its kernels, and what the manifest says of it; the program is written to `program`."""
        engine, clock = self._engine, Clock()
        on_progress("import", 0.0)
        target = engine.resolve_target(request.target, threads=request.threads)
        notes = [*engine.import_model(request.source, seed=request.seed, function=self._function_of(request)), *target.remarks]
        clock.phase("import")
        steps = engine.lower(target, layout=request.layout, fusion=request.fusion, on_progress=on_progress)
        clock.phase("lower")
        kernels = engine.extract_tasks(on_progress=on_progress)
        clock.phase("extract")
        on_progress("save", 0.0)
        engine.save(program)
        clock.phase("save")
        measurement = engine.profile(repeat=request.repeat, seed=request.seed, on_progress=on_progress)
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
            eliminated=engine.eliminated_origins(),
        )
        clock.phase("link")
        manifest = {
            "format_version": FORMAT_VERSION,
            "request": request.to_dict(),
            "engine": engine.name,
            "versions": engine.versions(),
            "target": target.to_dict(),
            "lowering": {"steps": list(steps), "layout": request.layout, "fusion": request.fusion},
            "measurement": {"hook_us": measurement.hook_us, "repeat": request.repeat, "threads": measurement.threads, "seed": request.seed},
            "machine": read_machine().to_dict(),
            "timings": {"start_s": self._start_s, **clock.to_dict()},
            "profiled_at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        }
        return profile, {kernel.name: kernel.structural_hash for kernel in kernels}, manifest

    def _function_of(self, request: ProfileRequest) -> Callable[..., Any] | None:
        """The TE function that the user's own process handed over, if the request is about one."""
        if request.source.kind != "function":
            return None
        if not self._function:
            raise SessionError(
                f"The function {plain(request.source.name)} lives in the process that defined it, and this worker did not get it from there.",
                "Open the session with the function again, and close other fronts of the session.",
            )
        if hashlib.sha256(self._function).hexdigest() != request.source.stamp:
            raise SessionError(
                f"The worker that serves this session has another function {plain(request.source.name)} than the one that is asked for.",
                "Close the other front of the session, or give another directory: --session DIR.",
            )
        try:
            return cast("Callable[..., Any]", cloudpickle.loads(self._function))
        except Exception as error:  # unpickling runs what the function imports
            raise ModelError(
                f"The function {plain(request.source.name)} cannot be loaded in the worker: {plain(f'{type(error).__name__}: {error}', 300)}.",
                "Import what it needs inside of it, or from a module that the worker finds.",
            ) from error

    def outputs(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Write the output tensors of some rows as .npy files; the front reads and removes them."""
        self._check_front(arguments)
        request = self._load(context)
        arrays = self._engine.outputs(arguments["rows"], seed=request.seed, on_progress=context.on_progress)
        identifier = uuid.uuid4().hex
        folder = context.directory.outputs(identifier)
        folder.mkdir(parents=True)
        try:
            files = {
                str(row): [_write_array(folder / f"row{row}_{index}.npy", array) for index, array in enumerate(outputs)]
                for row, outputs in arrays.items()
            }
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return {"folder": identifier, "files": files}

    def tune(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Search schedules; every trial is stored as it is measured."""
        self._check_front(arguments)
        self._load(context)
        return tune(self._engine, context, TuneRequest.from_dict(arguments), trust=self._trust, desk=self._desk)

    def inspect(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Show a trial as texts; while a search runs, it looks after these commands itself."""
        self._load(context)
        return self._desk.answer(context, arguments)

    def peaks(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Note the limits of the device, measured if this machine does not know them yet."""
        del arguments
        self._load(context)
        return note_peaks(self._engine, context).to_dict()

    def library(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Build a trial into a library of the session."""
        self._check_front(arguments)
        self._load(context)
        return write_library(self._engine, context, arguments, trust=self._trust)

    def apply(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Build, verify, compare and write the model with its winners."""
        self._check_front(arguments)
        self._load(context)
        return apply(self._engine, context, read_request(arguments), trust=self._trust)

    def verify(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Verify again what is applied."""
        self._check_front(arguments)
        self._load(context)
        return verify(self._engine, context, read_request(arguments), trust=self._trust)

    def rerun(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Measure a recorded trial again."""
        self._check_front(arguments)
        self._load(context)
        return rerun(self._engine, context, arguments, trust=self._trust)

    def warm(self, context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
        """Load the program, if there is one, and what a search needs, so that the next command begins at once."""
        self._check_front(arguments)
        self._engine.warm()
        if "profile_id" in context.store.manifest():
            self._load(context)
        return {}

    def _load(self, context: JobContext) -> ProfileRequest:
        """Have the engine hold the program that the store's profile was made of; returns what it was made for."""
        manifest, request, profile = context.store.manifest(), context.store.request(), context.store.profile()
        if profile is None or request is None or "profile_id" not in manifest:
            raise SessionError("The session has no profile yet.", "Profile the model first.")
        if self._loaded_profile != manifest["profile_id"]:
            context.on_progress("load", 0.0)
            self._loaded_profile = None
            self._engine.load(context.directory.program, context.target(), trust=self._trust)
            if [row.kernel for row in profile.kernel_rows] != [call.kernel for call in self._engine.calls()]:
                raise SessionError("The program of the session is not the one that its profile shows.", "Profile the model again.")
            self._loaded_profile = manifest["profile_id"]
        return request


def _check_threads(request: ProfileRequest) -> None:
    """TVM's threads are fixed when it is loaded, so a worker that another front started may have another number."""
    mine = os.environ.get("TVM_NUM_THREADS", "")
    if mine.isdigit() and int(mine) != request.threads:
        raise EnvironmentFault(
            f"The worker that serves this session runs kernels on {mine} threads, not on {request.threads}.",
            f"Close the other front of the session, or ask for {mine} threads.",
        )


def _check_engine(request: ProfileRequest, engine: Engine) -> None:
    """A worker has one engine, whichever front started it."""
    if request.engine != engine.name:
        raise EnvironmentFault(
            f"The worker that serves this session runs the engine {engine.name}, not {plain(request.engine)}.",
            f"Close the other front of the session, or ask for --engine {engine.name}.",
        )


def _write_array(path: Path, array: np.ndarray[Any, Any]) -> dict[str, str]:
    """Write an array; return its name and dtype, since .npy keeps dtypes such as bfloat16 only as raw bytes."""
    np.save(path, array, allow_pickle=False)
    return {"file": path.name, "dtype": str(array.dtype)}
