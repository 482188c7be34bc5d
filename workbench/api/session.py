"""A session for Python users."""

from __future__ import annotations

import atexit
import contextlib
import os
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from workbench.api.applying import Applier
from workbench.api.comparison import Comparison
from workbench.api.debug_outputs import Arrays, debug_outputs
from workbench.api.given import whole_number
from workbench.api.handing_out import HandsOut
from workbench.api.inspecting import Inspector
from workbench.api.model_graph import model_graph
from workbench.api.profile import SessionProfile, stored_profile
from workbench.api.replaying import Replayer
from workbench.api.search import Search
from workbench.api.searching import Searches
from workbench.api.tune_request import make_request
from workbench.errors import EnvironmentFault, InputError, SessionError
from workbench.escaping import plain
from workbench.kernel import Host, OnEvent, WorkerProcess
from workbench.models import check_trust
from workbench.records.comparison import Verification
from workbench.records.graph import ModelGraph
from workbench.records.knob import KnobEffects
from workbench.records.peaks import Peaks
from workbench.records.request import IMPORTED, MOST_ROUNDS, ProfileRequest
from workbench.records.rerun import Rerun
from workbench.records.selection import Selection
from workbench.records.trial import BASELINE, MeasureOptions
from workbench.records.tuning import SearchBudget
from workbench.records.view import Inspection, ViewInfo
from workbench.records.view_diff import ViewDiff
from workbench.session import SessionDirectory


class Session(HandsOut):
    """One model on one target, in one directory.

    A session starts a worker process on first use and keeps it warm; `close`, the end of a ``with`` block or of the program ends it.

    Attributes:
        directory: Where it lives.
        request: What it profiles.
        python: The old Python that its workers run TVM in; empty if there is none. It is not kept in the directory.

    Args:
        content: The model itself if it is in this process alone: a pickled function, or an IRModule as JSON.
        python: The old Python that the relay engine runs TVM in; empty if there is none.
    """

    def __init__(self, directory: SessionDirectory, request: ProfileRequest, *, content: bytes = b"", python: str = "") -> None:
        self.directory = directory
        self.request = request
        self.python = python
        source = request.source
        self._module = content if source.kind == "ir_json" else b""
        function = content if source.kind == "function" else b""
        self._worker = WorkerProcess(directory, threads=request.threads, function=function, trust=source.trust, engine=request.engine, python=python)
        self._inspector = Inspector(directory, self._run)
        self._searches = Searches(directory, self._worker)
        self._applier = Applier(directory, self._run)
        self._replayer = Replayer(directory, self._run)
        self._attendance: BinaryIO | None = None
        self._process = os.getpid()
        atexit.register(self.close)

    @property
    def path(self) -> Path:
        """The session directory."""
        return self.directory.path

    def manifest(self) -> dict[str, Any]:
        """Everything that decided what the profile shows: versions, target, lowering, machine, timings."""
        with self.directory.store() as store:
            return store.manifest()

    def profile(self, *, refresh: bool = False, repeat: int | None = None, on_event: OnEvent | None = None) -> SessionProfile:
        """The profile: the stored one, or a new one if there is none yet.

        A stored profile that was made for something else - another target, other options, or a model that was edited since - is replaced.

        Args:
            refresh: Measure again even if there is one.
            repeat: Measured rounds; None takes the number that the session was opened with.
            on_event: Told meanwhile how far the worker is.

        Raises:
            InputError: The number of rounds is none.
            WorkbenchError: The model, the target or the machine does not allow it; the profile that the session held before is kept.
        """
        request = self.request if repeat is None else replace(self.request, repeat=whole_number("repeat", repeat, least=1, most=MOST_ROUNDS))
        if not refresh and (stored := stored_profile(self.directory, answering=request)) is not None:
            return stored
        if request.source.kind == IMPORTED:
            raise InputError("This session was imported: the model itself is not in it.", "Profile the model: workbench profile MODEL.")
        check_trust(request.source)
        if self._module:
            self.directory.write_module(request.source.stamp, self._module)
        self._run("profile", request.to_dict(), on_event=on_event)
        self.request = request
        profile = self.stored_profile()
        if profile is None:
            raise SessionError(f"The worker stored no profile in {self.path}.", "Please report it.")
        if self._module:
            self.directory.forget_modules(but=request.source.stamp)
        return profile

    def graph(self) -> ModelGraph:
        """The operators of the model and the kernel calls that they became, as two graphs; profiles if there is no profile yet.

        Raises:
            SessionError: The session was profiled by a version that kept no graph, or was imported without one, or the graph is damaged or another
                profile's.
        """
        return model_graph(self.directory, self.profile().record, is_imported=self.request.source.kind == IMPORTED)

    def stored_profile(self) -> SessionProfile | None:
        """The profile that the session holds; None before the first one."""
        return stored_profile(self.directory)

    @property
    def selection(self) -> Selection | None:
        """The ticked tasks."""
        with self.directory.store() as store:
            return store.selection()

    def tune(
        self,
        selection: Selection | None = None,
        *,
        trials: int | None = None,
        seconds: float | None = None,
        per_task: int | None = None,
        flat_after: int | None = SearchBudget.flat_after,
        seed: int = 0,
        resume: bool = False,
        dry_run: int | None = None,
        space: str = "",
        schedule: str = "",
        measure: MeasureOptions | None = None,
        builders: int | None = None,
        transfer: str | Path | Iterable[str | Path] = (),
        library: bool = True,
    ) -> Search:
        """Search schedules for the selected tasks, in the worker; returns at once.

        Args:
            selection: What to search; None takes the session's selection.
            trials: All trials of the session together; without any budget, 64 a task.
            seconds: Time for this search.
            per_task: Trials of each task.
            flat_after: A task ends when so many trials brought no gain of 1 %; None never ends it so.
            seed: Seed of candidates and of random inputs.
            resume: Go on where earlier searches of these tasks ended.
            dry_run: Generate, build and check so many candidates of each task, without measuring.
            space: Search space, e.g. ``default`` or ``tensorcore``; empty for that of the search which is resumed, or else ``default``.
            schedule: A schedule function of your own as ``module:function``; the session has to be opened with trust. It is called with a
                ``tvm.s_tir.Schedule`` of each kernel, schedules in place or returns one or several schedules, and its ``sample_*`` calls are the
                decisions of the search. A task that was searched with one is resumed with one, or with a `space`.
            measure: How to measure.
            builders: Processes that build; None takes one for each physical core.
            transfer: Session directories, MetaSchedule databases, or logs of auto_scheduler or AutoTVM for the same target, whose schedules are
                tried first.
            library: Try what the record library has of the same kernels on the same target, too; it is measured as any candidate.

        Raises:
            SelectionError: Nothing is selected.
            InputError: An argument has a value that no search can use.
        """
        request = make_request(
            self.selection if selection is None else selection,
            trials=trials,
            seconds=seconds,
            per_task=per_task,
            flat_after=flat_after,
            seed=seed,
            resume=resume,
            dry_run=dry_run,
            space=space,
            schedule=schedule,
            measure=measure,
            builders=builders,
            transfer=transfer,
        )
        self._prepare_worker()
        return self._searches.begin(request, library=library)

    def running_search(self) -> Search | None:
        """The search that runs in the session, whichever front began it, to wait for or to steer; None if there is none."""
        return self._searches.running()

    def cancel_running(self, *kinds: str) -> bool:
        """End the newest piece of work that has no answer yet, whichever front asked for it, within some seconds; what was finished before is kept.

        Args:
            kinds: Kinds of commands, e.g. ``profile``, ``tune``, ``apply``: of these the newest, begun or not; none takes what the worker is at.

        Returns:
            True if there was one.
        """
        return self._searches.cancel(*kinds)

    @property
    def worker_pid(self) -> int | None:
        """The worker's process, if this session object started it."""
        return self._worker.pid

    def use_host(self, host: Host) -> None:
        """Have the workers from now on run in another kind of process than a plain child of this one, e.g. in a Jupyter kernel."""
        self._worker.use_host(host)

    def attend(self) -> None:
        """Show that somebody is here until `close`: a worker that may outlive its front then stays warm, and its search goes on."""
        if self._attendance is None:
            with contextlib.suppress(EnvironmentFault):  # in a session that cannot be written nobody works
                self._attendance = self.directory.attend()

    def warm_up(self) -> None:
        """Have the worker load the program and what a search needs, so that the next command begins at once.

        Raises:
            WorkbenchError: It cannot; the message says why.
        """
        self._run("warm", {})

    def inspect(self, task: str, view: str, *, trial: int | None = None) -> str:
        """One view of a task's trial as text; answered while a search runs, too.

        Args:
            task: The task, or the name of its kernel.
            view: ``schedule`` (Python that makes the same schedule), ``decisions``, ``tir_before``, ``tir`` (TVMScript), ``lowered``, ``source``
                (CUDA C or LLVM IR), ``asm``, ``ptx``, ``sass``, ``resources``, ``effects`` (which decisions matter, over all trials), or
                ``compute_dag`` (what the kernel computes, whatever the schedule).
            trial: Number of the trial, 0 for the untuned kernel; None takes the winner of the search.

        Raises:
            SelectionError: There is no such task or trial, or no winner yet.
            InputError: There is no such view of it, or the recorded schedule is damaged.
        """
        return self._inspector.text(task, view, trial)

    def views(self, task: str) -> tuple[ViewInfo, ...]:
        """All views of a task's trials: what they are, whether they can be shown here, and if not, why. Asks no worker."""
        return self._inspector.views(task)

    def inspection(self, task: str, *views: str, trial: int | None = None) -> Inspection:
        """Several views of a trial, with their links and data; one that cannot be shown says why instead. As `inspect`."""
        return self._inspector.inspection(task, views, trial)

    def diff(self, task: str, view: str, *, trial: int | None = None, other: int | None = BASELINE) -> ViewDiff:
        """A view of two trials line by line, and the decisions in which they differ; `other` stands left. As `inspect`.

        Args:
            task: The task, or the name of its kernel.
            view: Any view of one trial.
            trial: Number of the right one; None takes the winner.
            other: Number of the left one; None takes the winner.
        """
        return self._inspector.diff(task, view, trial, other)

    def effects(self, task: str) -> KnobEffects:
        """Which decisions matter, over all measured trials of a task."""
        return self._inspector.effects(task)

    def peaks(self, *, measure: bool = False) -> Peaks | None:
        """What the target's device can do at most: arithmetic and memory; None if that is not known.

        Args:
            measure: Measure it if this machine has not yet, which takes some seconds.
        """
        return self._inspector.peaks(measure=measure)

    def write_library(self, task: str, *, trial: int | None = None) -> Path:
        """Build a task's kernel into ``artifacts/`` of the session; ``tvm.runtime.load_module`` loads it, and its function has the kernel's name.

        Args:
            task: The task, or the name of its kernel.
            trial: Number of the trial, 0 for the untuned kernel; None takes the winner of the search.

        Raises:
            SelectionError: There is no such task or trial, or no winner yet.
            InputError: The recorded schedule is damaged, or brings code of its own and the session was opened without trust.
        """
        return self._replayer.write_library(task, trial)

    def apply(self, *, inputs: int = 3, rounds: int | None = None, anew: bool = False, on_event: OnEvent | None = None) -> Comparison:
        """Build the model with the winners of its searches, verify and compare it with the untuned one, and keep it in ``tuned/``.

        What is not right is not applied: then ``.applied`` is false, ``.verification`` says what is wrong, and ``tuned/`` is what it was.

        Args:
            inputs: Number of random inputs that the outputs are compared on.
            rounds: Measured rounds of each model; None measures for about six seconds.
            anew: Decide again which records are too slow in the model; else those that an earlier call with the same records has kept or taken
                back stay so, whatever is measured now.
            on_event: Told meanwhile how far the worker is.

        Raises:
            SessionError: Nothing was searched yet.
            EnvironmentFault: The model cannot be run here, so that nothing could be verified.
        """
        return self._applier.apply(inputs=inputs, rounds=rounds, anew=anew, on_event=on_event)

    @property
    def comparison(self) -> Comparison | None:
        """What the last `apply` gave; None before the first one, and where the model was profiled again since."""
        return self._applier.comparison()

    def verify(self, *, inputs: int = 3, on_event: OnEvent | None = None) -> Verification:
        """Verify again what is applied: built once more from its records, and compared with the untuned model; its files have to be unchanged.

        Args:
            inputs: Number of random inputs that the outputs are compared on.
            on_event: Told meanwhile how far the worker is.

        Raises:
            SessionError: Nothing is applied.
        """
        return self._applier.verify(inputs=inputs, on_event=on_event)

    def rerun(
        self,
        task: str,
        trial: int | None = None,
        *,
        device: int | None = None,
        on_event: OnEvent | None = None,
        wanted: Callable[[], bool] | None = None,
    ) -> Rerun:
        """Lower and measure a recorded trial again, by turns with the untuned kernel; says how far it is from its record.

        Args:
            task: The task, or the name of its kernel.
            trial: Number of the trial, 0 for the untuned kernel; None takes the winner of the search.
            device: Index of the device; None takes the one of the record.
            on_event: Told meanwhile how far the worker is.
            wanted: Asked again and again meanwhile; the re-run is given up when it says no.

        Raises:
            SelectionError: There is no such task or trial, or no winner yet.
            EnvironmentFault: Nothing can be measured here.
            Interrupted: It was given up.
        """
        return self._replayer.rerun(task, trial, device=device, on_event=on_event, wanted=wanted)

    def debug_outputs(self, rows: Iterable[int] | int | str) -> Arrays:
        """Output tensors of kernel calls, on the inputs that the profile ran with.

        Args:
            rows: Row numbers of the profile, a lone one, or a text such as ``"0,2,5-9"``.

        Returns:
            For each row its outputs, in the kernel's own shapes and dtypes.

        Raises:
            SelectionError: A row does not exist, or is the ``runtime`` row.
        """
        return debug_outputs(self.directory, self._run, rows, count=len(self.profile().record.kernel_rows))

    def close(self) -> None:
        """End the worker; the session stays on disk, unless this call of `workbench.open` made it and it never got a profile."""
        if os.getpid() != self._process:
            return  # a fork of the process that opened the session: the worker and the directory are not its own
        attendance, self._attendance = self._attendance, None
        if attendance is not None:
            attendance.close()
        self._worker.stop()
        self.directory.discard(own_commands=self._worker.commands)
        atexit.unregister(self.close)

    def _run(
        self, kind: str, arguments: dict[str, Any], *, on_event: OnEvent | None = None, wanted: Callable[[], bool] | None = None
    ) -> dict[str, Any]:
        """Have the worker do something; it is started if need be."""
        self._prepare_worker()
        return self._worker.run(kind, arguments, on_event=on_event, wanted=wanted)

    def _prepare_worker(self) -> None:
        """Have the worker ended with the program."""
        if os.getpid() != self._process:
            raise SessionError("This session was opened by the process that this one was forked from.", "Open it again here.")
        atexit.unregister(self.close)  # a session that was closed and is used again has to be closed again
        atexit.register(self.close)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Session {plain(self.request.source.name)} in {plain(str(self.path), 120)}>"
