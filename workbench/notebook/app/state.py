"""The states of the app, as plain values: what is being done, what it is about, and what may be done next. It reads and draws nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace

from workbench.errors import InternalError, WorkbenchError
from workbench.escaping import plain
from workbench.notebook.app.remedies import in_the_app
from workbench.records.peaks import Peaks
from workbench.records.profile import Profile
from workbench.records.selection import Selection
from workbench.records.tuning import TaskProgress, TuneRequest

EMPTY = "empty"
PREPARING = "preparing"
FAILED = "failed"
PROFILED = "profiled"
TUNING = "tuning"
PAUSED = "paused"
ENDING = "ending"
TUNED = "tuned"
STOPPED = "stopped"
APPLYING = "applying"
APPLIED = "applied"

PHASES = (EMPTY, PREPARING, FAILED, PROFILED, TUNING, PAUSED, ENDING, TUNED, STOPPED, APPLYING, APPLIED)
SEARCHING = (TUNING, PAUSED, ENDING)
BUSY = (PREPARING, *SEARCHING, APPLYING)

OPEN = "open"
CANCEL = "cancel"
TICK = "tick"
TUNE = "tune"
RESUME = "resume"
PAUSE = "pause"
STOP = "stop"
APPLY = "apply"
EXPORT = "export"
IMPORT = "import"

_AT_REST = frozenset({OPEN, TICK, EXPORT, IMPORT})
_ACTIONS: dict[str, frozenset[str]] = {
    EMPTY: frozenset({OPEN}),
    PREPARING: frozenset({CANCEL}),
    FAILED: frozenset({OPEN}),
    PROFILED: _AT_REST | {TUNE},
    TUNING: frozenset({TICK, PAUSE, STOP, EXPORT}),
    PAUSED: frozenset({TICK, RESUME, STOP, EXPORT}),
    ENDING: frozenset({CANCEL, EXPORT}),
    TUNED: _AT_REST | {TUNE, APPLY},
    STOPPED: _AT_REST | {TUNE, RESUME, APPLY},
    APPLYING: frozenset({CANCEL, EXPORT}),
    APPLIED: _AT_REST | {TUNE, APPLY},
}

_REASON_LIMIT = 600
_DETAIL_LIMIT = 20_000


@dataclass(frozen=True)
class Problem:
    """Something that went wrong, for the user.

    Attributes:
        message: What happened.
        remedy: What to do about it; empty if nothing is known.
        detail: The full text; empty if there is none.
    """

    message: str
    remedy: str = ""
    detail: str = ""

    @classmethod
    def of(cls, error: BaseException) -> Problem:
        """An error as a problem; one of no known kind is a fault of the workbench."""
        known = error if isinstance(error, WorkbenchError) else InternalError(f"The workbench failed: {type(error).__name__}: {error}.")
        detail = "\n".join(str(note) for note in getattr(error, "__notes__", ()))
        remedy = known.remedy or ("" if isinstance(error, WorkbenchError) else "Please report it.")
        return cls(plain(known.message, _REASON_LIMIT), plain(in_the_app(remedy), _REASON_LIMIT), detail[-_DETAIL_LIMIT:])


@dataclass(frozen=True)
class Step:
    """One phase of a long step.

    Attributes:
        name: What is being done.
        seconds: How long it has taken so far.
        share: How much of it is done, 0 to 1; None if that is unknown.
        is_done: True if another phase has begun since.
    """

    name: str
    seconds: float
    share: float | None = None
    is_done: bool = False


NO_WORKER = "none"
STARTING = "starting"
READY = "ready"
WORKING = "working"
HALTED = "halted"
GONE = "gone"


@dataclass(frozen=True)
class WorkerStanding:
    """What is known of the worker.

    Attributes:
        state: ``none`` (not needed now), ``starting``, ``ready``, ``working``, ``halted`` (a signal keeps it from running), or ``gone`` (it
            ended in the middle of something).
        words: The same for people.
        pid: Its process; None if it has none.
    """

    state: str = NO_WORKER
    words: str = "no worker"
    pid: int | None = None


@dataclass(frozen=True)
class AppState:
    """What the app is doing, and what it shows.

    Attributes:
        phase: One of `PHASES`.
        model: Name of the model; empty before there is one.
        target: Target in words.
        engine: Name and version of the engine.
        place: The session directory.
        worker: What is known of the worker.
        steps: Phases of the long step that runs, or ran last.
        doing: What the search is doing, in words; empty if none runs.
        problem: What went wrong last and has not been dismissed.
        trouble: What is wrong at this moment, e.g. a locked store; goes away by itself.
        profile_id: Identifier of the profile.
        profile: The profile; None before there is one.
        selection: What is ticked; None if nothing ever was.
        progress: How far each task is.
        request: What the last search was asked for; None before the first.
        stopped_because: Why the last search ended; empty while one runs.
        comparison_id: Changes with every comparison; empty before the first.
        why_no_comparison: Why a comparison that is there is not shown; empty if there is none.
        given_up: What the user cancelled last, in a sentence; empty if something was done since.
        peaks: What the device can do at most; None if that is not known.
    """

    phase: str = EMPTY
    model: str = ""
    target: str = ""
    engine: str = ""
    place: str = ""
    worker: WorkerStanding = WorkerStanding()
    steps: tuple[Step, ...] = ()
    doing: str = ""
    problem: Problem | None = None
    trouble: Problem | None = None
    profile_id: str = ""
    profile: Profile | None = None
    selection: Selection | None = None
    progress: tuple[TaskProgress, ...] = ()
    request: TuneRequest | None = None
    stopped_because: str = ""
    comparison_id: str = ""
    why_no_comparison: str = ""
    given_up: str = ""
    peaks: Peaks | None = None

    @property
    def actions(self) -> frozenset[str]:
        """What may be done now."""
        actions = _ACTIONS[self.phase]
        if not self.has_ticks:
            actions -= {TUNE}
        if not any(task.final is not None for task in self.progress):
            actions -= {APPLY}
        if self.request is None:
            actions -= {RESUME} if self.phase == STOPPED else frozenset()
        return actions

    @property
    def has_ticks(self) -> bool:
        """True if a task is ticked."""
        return self.selection is not None and bool(self.selection.tasks)

    @property
    def next_step(self) -> str:
        """What to do next, in a sentence; never empty."""
        said = self.why_no_comparison if self.phase in (PROFILED, TUNED, STOPPED, APPLIED) else ""
        return " ".join(words for words in (self.given_up, self._why_ended, said, _next_step(self)) if words)

    @property
    def _why_ended(self) -> str:
        """Why the last search ended, in a sentence; empty where that is said already."""
        is_said = self.given_up or self.problem is not None or self.phase not in (TUNED, STOPPED)
        return "" if is_said or not self.stopped_because else f"The search ended: {self.stopped_because.rstrip('.')}."


def is_progress_alone(before: AppState, now: AppState) -> bool:
    """True if a state is another one than before, and only because something has gone on: trials, phases of a long step, what is being done."""
    return now != before and replace(now, progress=before.progress, steps=before.steps, doing=before.doing) == before


def _next_step(state: AppState) -> str:
    """What can be done next in each phase."""
    faster = sum(task.final is not None and task.final.winner != 0 for task in state.progress)
    return {
        EMPTY: "Choose a model and press Profile.",
        PREPARING: "The profile appears here as soon as it is measured. Cancel keeps what was there before.",
        FAILED: "Choose another model or target, then press Profile.",
        PROFILED: _before_search(state),
        TUNING: "Trials appear as they are measured. Tick or untick tasks, pause, or stop: what was measured is kept.",
        PAUSED: "Nothing is measured. Resume goes on; Stop measures the best again and names the winners.",
        ENDING: "The best of each task are measured again beside the untuned kernel.",
        TUNED: _after_search(faster),
        STOPPED: "Resume goes on with what was measured; Tune begins with what is ticked now."
        if any(task.trials for task in state.progress)
        else "Nothing was measured. Resume tries once more; Tune begins with what is ticked now.",
        APPLYING: "The model is built with the winners and compared with the untuned one.",
        APPLIED: _after_search(faster)
        if state.why_no_comparison
        else "The comparison is below. Tune goes on with what is ticked; Export takes the results along.",
    }[state.phase]


def _before_search(state: AppState) -> str:
    if state.profile is not None and all(task.untunable for task in state.profile.tasks):
        return "None of these kernels can be tuned; the column Remarks says why. To tune, choose a model and press Profile."
    if state.profile is not None and state.profile.unmeasured:
        return f"There are no times: {plain(state.profile.unmeasured, _REASON_LIMIT)}. Click a row to read its code; a search needs the device."
    if state.has_ticks:
        return "Press Tune to search faster schedules for what is ticked."
    return "Tick the kernels to tune, e.g. until 80 %."


def _after_search(faster: int) -> str:
    if not faster:
        return "No schedule was faster than the untuned kernel. Raise the trials, or tick other tasks, and press Tune."
    kernels = "1 kernel is" if faster == 1 else f"{faster} kernels are"
    return f"{kernels} faster. Apply builds the model with them and checks it; Tune goes on."
