"""A running or finished search for Python users: wait, watch, steer."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from workbench.analysis.forecast import model_forecast_us
from workbench.api.given import duration, plain_number, whole_number
from workbench.api.trial_frame import trial_frame
from workbench.errors import InternalError, Interrupted, SessionError
from workbench.kernel import OnEvent, Pending, WorkerProcess
from workbench.records.trial import Trial
from workbench.records.tuning import TaskProgress, TuneRequest
from workbench.search.control import ADDRESSEE
from workbench.search.limits import changed_budget, task_budget, task_identifier
from workbench.session import SessionDirectory

if TYPE_CHECKING:
    import pandas as pd

_POLL_S = 0.05
_REAL_LIMITS = ("seconds", "flat_gain")


class Search:
    """What `Session.tune` returns at once; the search runs in the worker.

    Attributes:
        request: What was asked for.
    """

    def __init__(self, directory: SessionDirectory, worker: WorkerProcess, request: TuneRequest, pending: Pending) -> None:
        self._directory = directory
        self._worker = worker
        self._pending = pending
        self._answer: dict[str, Any] | None = None
        self._error: BaseException | None = None
        self._since = time.monotonic()
        self._begun_after: int | None = None
        self.request = request

    @property
    def is_running(self) -> bool:
        """True until the search has ended, however it ended."""
        return self._poll(None) is None and self._error is None

    def wait(self, timeout: float | None = None, *, on_event: OnEvent | None = None) -> list[TaskProgress]:
        """Wait for the end.

        Args:
            timeout: Seconds to wait at most; None waits as long as it takes.
            on_event: Told each event meanwhile, which says what the worker is doing; looked for some twenty times a second.

        Returns:
            How each task ended, or how far it is when the time is over.

        Raises:
            InputError: The time is none.
            WorkbenchError: The search failed; what was measured is stored.
            Interrupted: Ctrl-C, which ends the search; what was measured is stored.
        """
        limit_s = duration("timeout", timeout)
        deadline = None if limit_s is None else time.monotonic() + limit_s
        try:
            while self._poll(on_event) is None:
                if self._error is not None:
                    raise self._error
                if deadline is not None and time.monotonic() >= deadline:
                    break
                time.sleep(_POLL_S)
        except KeyboardInterrupt:
            self.cancel()
            raise Interrupted("Stopped.", "What was measured is saved: go on with resume=True.") from None
        return self.progress()

    def result(self) -> dict[str, Any]:
        """The search as in ``tune --json``; waits for the end."""
        self.wait()
        if self._answer is None:
            raise InternalError("The search ended without an answer.")
        return self._summary(self._answer)

    def so_far(self) -> dict[str, Any]:
        """The same as far as the search is, also of one that was stopped before its end; ``transfer`` is known at the end alone."""
        if (answer := self._poll(None)) is not None:
            return self._summary(answer)
        wanted = {item.task for item in self.request.tasks}
        with self._directory.store() as store:
            tasks = [progress.to_dict() for progress in store.trials.progress() if progress.task in wanted]
            trials = store.trials.count()
        because = "stopped by the user" if isinstance(self._error, Interrupted) else ""
        values = {"trials": trials, "seconds": time.monotonic() - self._since, "stopped_because": because, "transfer": None, "tasks": tasks}
        return self._summary(values)

    def begun_after(self) -> int | None:
        """The cursor of the last trial that is none of this search's; None before it has begun.

        Before that, the worker may be at another front's search in the same session, whose trials and progress are not this one's.
        """
        if self._begun_after is None:
            with self._directory.store() as store:
                found = store.manifest().get("search")
            if isinstance(found, dict) and found.get("command") == self._pending.number and isinstance(found.get("after_trial"), int):
                self._begun_after, self._since = found["after_trial"], time.monotonic()
        return self._begun_after

    def stop(self) -> None:
        """End the search in order: what is being measured is finished, and the winners are named.

        One that has not begun, since the worker is at another front's work, is cancelled.
        """
        if self._worker.waits_behind(self._pending):
            self.cancel()
        else:
            self._tell("stop")

    def cancel(self) -> None:
        """End the search at once, within 5 s; what was measured is stored, winners are not named."""
        self._worker.cancel(self._pending)

    def pause(self) -> None:
        """Measure nothing more until `resume`."""
        self._tell("pause")

    def resume(self) -> None:
        """Go on after `pause`."""
        self._tell("resume")

    def add(self, task: str, *, trials: int | None = None, seconds: float | None = None) -> None:
        """Take another task into the search, or one back that was dropped or has ended, with budgets of its own if given.

        Raises:
            InputError: There is no such task, or a budget is none.
        """
        self._tell("add", **_named(task), **task_budget(_plain({"trials": trials, "seconds": seconds})))

    def drop(self, task: str) -> None:
        """Search a task no more; its trials stay."""
        self._tell("drop", **_named(task))

    def set_budget(self, **limits: float | None) -> None:
        """Change the budget of the whole search: ``trials``, ``seconds``, ``per_task``, ``flat_after``, ``flat_gain``.

        None lifts a limit, and one that is not named stays.

        Raises:
            InputError: There is no such limit, or it has a value that no search can use.
        """
        given = _plain(limits)
        changed_budget(self.request.budget, given)
        self._tell("budget", **given)

    def set_task_budget(self, task: str, **limits: float | None) -> None:
        """Change the budget of one task: ``trials``, ``seconds``; see `set_budget`."""
        self._tell("budget", **_named(task), **task_budget(_plain(limits)))

    def progress(self) -> list[TaskProgress]:
        """How far each task of the session is."""
        with self._directory.store() as store:
            return store.trials.progress()

    def trials(self, *, since: int = 0) -> tuple[list[Trial], int]:
        """Trials stored after a cursor, oldest first, at most 1000, and the cursor to ask with next time."""
        cursor = whole_number("since", since, least=0)
        with self._directory.store() as store:
            found = store.trials.since(cursor)
        return [stored.trial for stored in found], found[-1].cursor if found else cursor

    def frame(self) -> pd.DataFrame:
        """All trials of the session as a data frame: one row a trial, times in microseconds."""
        with self._directory.store() as store:
            return trial_frame(stored.trial for stored in store.trials.all())

    def _tell(self, kind: str, **arguments: Any) -> None:
        """Give a command that is meant for this search and no other: a worker may be at a later one of another front's."""
        if self._poll(None) is not None or self._error is not None:
            raise SessionError("The search has ended.", "Start it again with resume=True.")
        self._worker.tell(kind, {**arguments, ADDRESSEE: self._pending.number})

    def _summary(self, answer: dict[str, Any]) -> dict[str, Any]:
        """A search as in ``tune --json``, with what it makes of the whole model."""
        with self._directory.store() as store:
            profile, progress = store.profile(), store.trials.progress()
        forecast_us = None if profile is None else model_forecast_us(profile, progress)
        return {**summary(answer), "model_us": None if forecast_us is None or profile is None else profile.total_us, "forecast_us": forecast_us}

    def _poll(self, on_event: OnEvent | None) -> dict[str, Any] | None:
        if self._answer is None and self._error is None:
            try:
                self._answer = self._worker.poll(self._pending, on_event=on_event)
            except Exception as error:  # noqa: BLE001 - kept for whoever waits
                self._error = error
        return self._answer


def _named(task: str) -> dict[str, str]:
    return {"task": task_identifier({"task": task})}


def _plain(limits: Mapping[str, Any]) -> dict[str, Any]:
    """Limits with Python's own numbers; what is none stays, to be refused."""
    return {name: plain_number(value, is_whole=name not in _REAL_LIMITS) for name, value in limits.items()}


def summary(answer: dict[str, Any]) -> dict[str, Any]:
    """What a search ended with, as in ``tune --json``."""
    tasks = [TaskProgress.from_dict(values) for values in answer["tasks"]]
    return {
        "trials": answer["trials"],
        "seconds": answer["seconds"],
        "stopped_because": answer["stopped_because"],
        "transfer": answer.get("transfer"),
        "tasks": [task_summary(task) for task in tasks],
    }


def task_summary(task: TaskProgress) -> dict[str, Any]:
    """A task as in ``tune --json``: times are those of the final measurement, or else of the search."""
    final = task.final
    baseline_us, best_us = task.before_and_now_us
    return {
        "task": task.task,
        "name": task.name,
        "weight": task.weight,
        "baseline_us": baseline_us,
        "best_us": best_us,
        "other_conditions": task.other_times(),
        "winner": None if final is None else final.winner,
        "verdict": None if final is None else final.verdict,
        "why": None if final is None else final.why,
        "trials": task.trials,
        "errors": dict(task.errors),
        "first_errors": dict(task.first_errors),
        "verified": task.verified,
        "state": task.state,
        "stopped_because": task.stopped_because,
        "space_size": task.space_size,
        "seconds": task.seconds,
        "dry_run": None if task.dry_run is None else {**task.dry_run.to_dict(), "unchecked": task.dry_run.unchecked},
    }
