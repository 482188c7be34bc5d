"""Which state the app is in, from what its session says and what this front is doing: pure functions."""

from __future__ import annotations

from dataclasses import dataclass, field

from workbench.escaping import plain
from workbench.notebook.app import state
from workbench.notebook.app.remedies import in_the_app
from workbench.notebook.app.session_view import APPLY, PROFILE, TUNE, Phase, SessionView
from workbench.notebook.app.state import AppState, Problem, Step, WorkerStanding
from workbench.records.command import CANCELLED, DONE, FAILED, FINAL_STATES, RUNNING, Failure
from workbench.records.selection import Selection

_NAME_LIMIT = 120
_LONGEST = 400
_MOST_STEPS = 12
_PAUSED = "paused"
_FINALS = "measure the best again"
_WORKER_GONE = "The worker has ended without an answer; what was measured is saved."
_GIVEN_UP = {
    PROFILE: "The profile was cancelled.",
    TUNE: "The search was cancelled; what was measured is kept.",
    APPLY: "Applying was cancelled; what was applied before stays.",
}
_WORDS = {
    "load": "loading the program",
    "import": "reading the model",
    "lower": "lowering",
    "extract tasks": "extracting the tasks",
    "save": "saving the program",
    "compile": "compiling",
    "prepare": "preparing",
    "search": "generating and building candidates of",
    "measure": "measuring",
    _FINALS: "measuring the best again of",
}


@dataclass
class LocalWork:
    """What this front is doing, which the store does not tell yet.

    Attributes:
        opening: Name of a model that is being opened; empty if none is. What is shown meanwhile is another one's.
        begun: Kind of a long command that is being given; empty if none is.
        begun_after: Number of the newest long command before that one.
        problem: What went wrong last.
        lack: What the engine that is chosen, and that nothing was opened with, lacks here.
        trouble: What is wrong with the session at this moment.
        given_up: What the user cancelled here, in a sentence, where the session that is shown does not tell.
        ticks: What was ticked here and is not in the store yet.
        dismissed: Number of the command whose failure the user has dismissed.
    """

    opening: str = ""
    begun: str = ""
    begun_after: int = 0
    problem: Problem | None = None
    lack: Problem | None = None
    trouble: Problem | None = None
    given_up: str = ""
    ticks: Selection | None = None
    dismissed: int = 0


@dataclass
class StepClock:
    """Measures how long each phase of a long command takes, by this front's own clock, which nobody sets.

    Attributes:
        command: The command.
        begun: Name and start of each phase so far.
    """

    command: int = 0
    begun: list[tuple[str, float]] = field(default_factory=list)
    share: float | None = None
    ended_at: float | None = None

    def note(self, phases: tuple[Phase, ...], now: float) -> None:
        """Take note of what a command has told."""
        for phase in phases:
            if phase.command != self.command:
                self.begin(phase.command)
            name = words(phase.name.partition(":")[0].partition(" (")[0])
            if not self.begun or self.begun[-1][0] != name:
                self.begun.append((name, now))
            self.share = phase.share

    def begin(self, command: int) -> None:
        """Begin with another command."""
        self.command, self.begun, self.share, self.ended_at = command, [], None, None

    def end(self, now: float) -> None:
        """Note that the command has ended."""
        self.ended_at = now if self.ended_at is None else self.ended_at

    def steps(self, now: float) -> tuple[Step, ...]:
        """The phases with their times."""
        if not self.begun:
            return ()
        ends = [start for _, start in self.begun[1:]] + [now if self.ended_at is None else self.ended_at]
        found = [
            Step(name, max(end - start, 0.0), None if place + 1 < len(self.begun) else self.share, place + 1 < len(self.begun))
            for place, ((name, start), end) in enumerate(zip(self.begun, ends, strict=True))
        ]
        return tuple(found[-_MOST_STEPS:])


def words(phase: str) -> str:
    """A phase of the worker in words."""
    name, _, what = phase.partition(": ")
    return plain(f"{_WORDS.get(name, name)} {what}".strip(), _NAME_LIMIT)


def app_state(view: SessionView | None, local: LocalWork, steps: tuple[Step, ...]) -> AppState:
    """The state of the app.

    Args:
        view: What the session says; None if there is none.
        local: What this front is doing.
        steps: Phases of the long command that runs, or ran last.
    """
    if view is None:
        phase = state.PREPARING if local.opening or local.begun else state.FAILED if local.problem is not None else state.EMPTY
        problem = local.problem or local.lack
        return AppState(phase=phase, model=plain(local.opening, _NAME_LIMIT), problem=problem, trouble=local.trouble, given_up=local.given_up)
    phase = _phase(view, local)
    return AppState(
        phase=phase,
        model=plain(local.opening or view.model, _NAME_LIMIT),
        target=plain(view.target, _NAME_LIMIT),
        engine=plain(view.engine, _NAME_LIMIT),
        place=view.place,
        worker=_worker(view, local),
        steps=steps if phase in (state.PREPARING, state.APPLYING, state.FAILED) and not local.opening else (),
        doing=_doing(view) if phase in state.SEARCHING else "",
        problem=local.problem or (None if phase in state.BUSY else failure_of(view, local)) or local.lack,
        trouble=local.trouble or _halt(view),
        profile_id=view.profile_id,
        profile=view.profile,
        selection=view.selection if local.ticks is None else local.ticks,
        progress=view.progress,
        request=view.request,
        stopped_because="" if phase in state.BUSY else plain(view.last_stop, _LONGEST),
        comparison_id=view.comparison_id,
        why_no_comparison=view.applied.why_none,
        given_up="" if phase in state.BUSY else local.given_up or _given_up(view),
        peaks=view.peaks,
    )


def _halt(view: SessionView) -> Problem | None:
    """That nothing goes on although nothing has ended."""
    if not view.is_halted:
        return None
    return Problem("A signal halted the worker: nothing goes on until it is continued.", f"Run: kill -CONT {view.worker_pid}")


def _given_up(view: SessionView) -> str:
    """What was cancelled last, by whichever front."""
    command = view.command
    return _GIVEN_UP.get(command.kind, "") if command is not None and command.state == CANCELLED else ""


def _phase(view: SessionView, local: LocalWork) -> str:
    command = view.command
    if local.opening:
        return state.PREPARING
    if _is_running(view, local):
        kind = local.begun or (command.kind if command is not None else "")
        if kind == TUNE:
            return _phase_of_search(view)
        return {PROFILE: state.PREPARING, APPLY: state.APPLYING}.get(kind, state.PREPARING)
    if view.profile is None:
        return state.FAILED if local.problem is not None or failure_of(view, local) is not None else state.EMPTY
    if command is not None and command.kind == APPLY and command.state == DONE:
        return state.APPLIED
    searched = [task for task in view.progress if task.trials]
    if command is not None and command.kind == TUNE and command.state != DONE:
        return state.STOPPED
    if any(task.final is not None for task in searched):
        return state.TUNED
    return state.STOPPED if searched else state.PROFILED


def _is_running(view: SessionView, local: LocalWork) -> bool:
    """True while a long command runs: a worker is at it, or this front is just getting it one."""
    if local.begun:
        return True
    return view.command is not None and view.command.state not in FINAL_STATES and view.is_served


def _phase_of_search(view: SessionView) -> str:
    if view.control == "pause":
        return state.PAUSED
    return state.ENDING if view.control == "stop" or view.doing.startswith(_FINALS) else state.TUNING


def _doing(view: SessionView) -> str:
    """What the search does; a command that was given just now has told nothing yet."""
    is_known = view.command is not None and view.command.kind == TUNE and view.doing != _PAUSED
    return words(view.doing) if is_known else ""


def _worker(view: SessionView, local: LocalWork) -> WorkerStanding:
    command = view.command
    if view.is_served:
        if view.is_halted:
            return WorkerStanding(state.HALTED, "worker halted", view.worker_pid)
        if view.worker_phase == state.STARTING:
            return WorkerStanding(state.STARTING, "worker starting", view.worker_pid)
        if view.is_busy:
            return WorkerStanding(state.WORKING, "worker busy", view.worker_pid)
        return WorkerStanding(state.READY, "worker ready", view.worker_pid)
    if local.begun:
        return WorkerStanding(state.STARTING, "worker starting")
    if command is not None and (command.state == RUNNING or (command.failure is not None and command.failure.kind == "WorkerDied")):
        return WorkerStanding(state.GONE, "worker gone")
    return WorkerStanding()


def failure_of(view: SessionView, local: LocalWork) -> Problem | None:
    """Why the last long command failed, unless the user has read it."""
    command = view.command
    if command is None or command.command <= local.dismissed:
        return None
    if command.state == FAILED:
        failure = command.failure or Failure("InternalError", "The worker gave no reason.")
        return Problem(plain(failure.message, _LONGEST), plain(in_the_app(failure.remedy), _LONGEST), failure.detail)
    if command.state == RUNNING and not view.is_served:
        return Problem(_WORKER_GONE, "Resume goes on with it." if command.kind == TUNE else "Try again.")
    return None
