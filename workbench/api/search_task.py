"""The auto-scheduler's operator-level way of working: one function, one search, its best schedule; on the same loop as whole models."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from workbench.api.best_schedule import BestSchedule
from workbench.api.opening import open as open_session
from workbench.api.search import Search
from workbench.api.trial_frame import trial_frame
from workbench.api.winner import winner
from workbench.errors import InputError, ModelError, SelectionError
from workbench.escaping import plain
from workbench.kernel import OnEvent
from workbench.records.profile import Task
from workbench.records.request import RELAX
from workbench.records.trial import MeasureOptions, Trial
from workbench.records.tuning import DEFAULT_TRIALS_PER_TASK, SearchBudget
from workbench.records.view import COMPUTE_DAG, SCHEDULE, SOURCE, TIR
from workbench.workloads import BUNDLED, registered

if TYPE_CHECKING:
    import pandas as pd

_CUDA = "cuda"
_REFERENCE = re.compile(r"[\w.]+:\w+")
_PRINTABLE = (SCHEDULE, TIR, SOURCE, _CUDA)


class SearchTask:
    """The search for the best schedule of a TE function, as ``tvm.auto_scheduler.SearchTask`` was.

    ``tune`` returns at once, so that a notebook stays usable; what needs its result (`apply_best`, `print_best`) waits for it.

    Attributes:
        session: The session that everything is kept in; `close`, or the end of a ``with`` block, ends its worker.

    Args:
        func: A function that returns a list of TE tensors, inputs first and outputs last; or the name of a registered or bundled one; or
            ``module:function``, which needs trust. The relay engine takes no function of this process, whose TVM is another one.
        args: Its arguments; None takes a bundled function's own.
        target: As for `workbench.open`.
        session: The session directory; None takes ``workbench-sessions/<function>-<arguments>-<target>``.
        threads: Threads that run the kernel on a CPU; None takes all physical cores that this process may use.
        seed: Seed of candidates and of random inputs.
        trust: True allows the code of ``module:function`` to run.
        engine: ``relax`` (today's TVM), or ``relay`` (the auto_scheduler of TVM 0.8 to 0.18, in a Python of its own).
        python: That Python, as for `workbench.open`.

    Raises:
        ModelError: There is no such function, or it cannot be handed to the worker.
        InputError: An option has a value that cannot be used.
    """

    def __init__(
        self,
        func: Callable[..., Any] | str,
        args: Sequence[Any] | None = None,
        target: str = "auto",
        *,
        session: str | Path | None = None,
        threads: int | None = None,
        seed: int = 0,
        trust: bool = False,
        engine: str = RELAX,
        python: str | Path = "",
    ) -> None:
        _check_workload(func)
        self.session = open_session(
            func, args=args, target=target, session=session, threads=threads, seed=seed, trust=trust, engine=engine, python=python
        )
        self._seed = seed
        self._search: Search | None = None
        self._compute_dag = ""

    @property
    def kernels(self) -> tuple[str, ...]:
        """Names of the kernels that TVM makes of the function: one, unless its lowering splits it; all of them are tuned together."""
        return tuple(task.name for task in self._tasks())

    @property
    def compute_dag(self) -> str:
        """What the function computes: a line an input, then a line a computed tensor with its axes, then the FLOP; for ``print``."""
        if not self._compute_dag:
            texts = [self.session.inspect(task.task, COMPUTE_DAG) for task in self._tasks()]
            self._compute_dag = "\n\n".join(texts)
        return self._compute_dag

    def tune(
        self,
        trials: int | None = None,
        *,
        seconds: float | None = None,
        measure: MeasureOptions | None = None,
        resume: bool = False,
        flat_after: int | None = SearchBudget.flat_after,
        dry_run: int | None = None,
        space: str = "",
        builders: int | None = None,
        transfer: str | Path | Iterable[str | Path] = (),
    ) -> Search:
        """Search; returns at once. Wait with ``.wait()`` of what is returned, which Ctrl-C ends without a loss.

        Args:
            trials: All trials together, the baseline and those of earlier searches included; without any budget, 64 a kernel.
            seconds: Time for this search.
            measure: How to measure.
            resume: Go on where an earlier search ended.
            flat_after: End when so many trials brought no gain of 1 %; None never ends it so.
            dry_run: Generate, build and check so many candidates without measuring: works for a GPU that is not here.
            space: Search space, e.g. ``default`` or ``tensorcore``; empty for that of the search which is resumed, or else ``default``.
            builders: Processes that build; None takes one for each physical core.
            transfer: Session directories, MetaSchedule databases or auto_scheduler logs of the same target, whose schedules are tried first.

        Raises:
            SelectionError: TVM cannot schedule the kernel; the message says why.
            InputError: An argument has a value that no search can use.
        """
        self._settle()
        tunable = [task.task for task in self._tasks() if not task.untunable]
        selection = self.session.profile().select(tasks=tunable or [task.task for task in self._tasks()])  # which says why it cannot be tuned
        self._search = self.session.tune(
            selection,
            trials=trials,
            seconds=seconds,
            measure=measure,
            resume=resume,
            flat_after=flat_after,
            dry_run=dry_run,
            space=space,
            seed=self._seed,
            builders=builders,
            transfer=transfer,
        )
        return self._search

    def resume(self, trials: int | None = None, *, seconds: float | None = None, **options: Any) -> Search:
        """Go on where the last search ended, also in a session that was opened again; as `tune`.

        Args:
            trials: All trials together, earlier ones included; without any budget, 64 a kernel more than there are.
            seconds: Time for this search.
            options: The other arguments of `tune`.
        """
        if trials is None and seconds is None:
            self._settle()
            tasks = [task.task for task in self._tasks()]
            with self.session.directory.store() as store:
                trials = store.trials.count(tasks) + DEFAULT_TRIALS_PER_TASK * len(tasks)
        return self.tune(trials, seconds=seconds, resume=True, **options)

    def wait(self, timeout: float | None = None, *, on_event: OnEvent | None = None) -> Self:
        """Wait for the running search, if there is one; see `workbench.api.search.Search.wait`."""
        if self._search is not None:
            self._search.wait(timeout, on_event=on_event)
        return self

    def apply_best(self, kernel: str | None = None) -> BestSchedule:
        """The best schedule and a library of it; waits for a running search. Says so if the untuned kernel won.

        Args:
            kernel: Which, if the function has several kernels.

        Raises:
            SelectionError: Nothing was measured yet, or there are several kernels and none is named.
        """
        self._settle()
        task = self._task(kernel)
        with self.session.directory.store() as store:
            best = winner(store.trials.progress(), task.task)
            trial, trace = store.trials.trial(task.task, best.number), store.trials.trace(task.task, best.number) or ""
        return BestSchedule(
            kernel=task.name,
            trial=best.number,
            is_baseline=not trace,
            time_us=best.time_us,
            baseline_us=best.baseline_us,
            verdict=best.verdict,
            why=best.why,
            decisions=() if trial is None else trial.decisions,
            trace=trace,
            schedule=self.session.inspect(task.task, SCHEDULE, trial=best.number),
            tir=self.session.inspect(task.task, TIR, trial=best.number),
            library=self.session.write_library(task.task, trial=best.number),
        )

    def print_best(self, view: str = SCHEDULE, *, trial: int | None = None, kernel: str | None = None) -> str:
        """The best schedule as text, for ``print``; waits for a running search.

        Args:
            view: ``schedule`` (Python that makes the same schedule), ``tir`` (TVMScript), ``source`` (LLVM IR or CUDA C), ``cuda`` (CUDA C).
            trial: Another trial than the best one; 0 is the untuned kernel.
            kernel: Which, if the function has several kernels.

        Raises:
            SelectionError: Nothing was measured yet, or there is no such trial.
            InputError: There is no such view of a kernel for this target.
        """
        if view not in _PRINTABLE:
            raise InputError(f"There is no view {plain(str(view))}.", f"Views: {', '.join(_PRINTABLE)}.")
        self._settle()
        task = self._task(kernel)
        kind = str(self.session.manifest().get("target", {}).get("kind", ""))
        if view == _CUDA and kind != "cuda":
            raise InputError(f"A kernel for {plain(kind)} has no CUDA source.", f'Give "{SOURCE}", or a target such as cuda:sm_90.')
        return self.session.inspect(task.task, SOURCE if view == _CUDA else view, trial=trial)

    def trials(self) -> list[Trial]:
        """All trials so far, kernel by kernel, in the order of measurement."""
        with self.session.directory.store() as store:
            return [trial for task in self._tasks() for trial in store.trials.of_task(task.task)]

    def frame(self) -> pd.DataFrame:
        """All trials so far as a data frame: one row a trial, times in microseconds."""
        return trial_frame(self.trials())

    def close(self) -> None:
        """End the worker, and with it a running search; everything measured stays in the session."""
        if self._search is not None and self._search.is_running:
            self._search.cancel()
        self.session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SearchTask {plain(self.session.request.source.name)} in {plain(str(self.session.path), 120)}>"

    def _settle(self) -> None:
        """Wait for a running search; what it raises is told once."""
        if self._search is not None and self._search.is_running:
            self._search.wait()

    def _tasks(self) -> tuple[Task, ...]:
        """The kernels of the function; it is lowered and timed first if it was not."""
        return self.session.profile().tasks

    def _task(self, kernel: str | None) -> Task:
        tasks = self._tasks()
        found = [task for task in tasks if kernel is None or kernel in (task.task, *task.kernels)]
        if len(found) == 1:
            return found[0]
        names = ", ".join(plain(task.name) for task in tasks)
        if kernel is None:
            raise SelectionError(f"TVM makes {len(tasks)} kernels of the function.", f"Say which: kernel= one of {names}.")
        raise SelectionError(f"There is no kernel {plain(str(kernel))}.", f"Kernels: {names}.")


def _check_workload(func: Any) -> None:
    """Raise ModelError unless it is a workload: files and sessions are models for `workbench.open`."""
    if isinstance(func, str):
        if func in BUNDLED or func in registered() or _REFERENCE.fullmatch(func):
            return
        known = ", ".join([*map(plain, registered()), *BUNDLED])
        raise ModelError(f"There is no workload {plain(func)}.", f"Give a TE function, module:function, or one of: {known}.")
    if not callable(func):
        raise ModelError(f"A {type(func).__name__} is no TE function.", "Give a function that returns TE tensors, inputs first and outputs last.")
