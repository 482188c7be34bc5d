"""What a session's store says at one moment, as the app needs it; reads only what has changed."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from workbench.machine import is_halted
from workbench.records.command import FINAL_STATES, Command
from workbench.records.decode import DecodeError
from workbench.records.peaks import Peaks
from workbench.records.profile import Profile
from workbench.records.selection import Selection
from workbench.records.tuning import TaskProgress, TuneRequest
from workbench.session import NO_COMPARISON, SessionDirectory, StoredComparison, stored_comparison, stored_peaks
from workbench.store import Store

PROFILE, TUNE, APPLY = "profile", "tune", "apply"
STEPS = (PROFILE, TUNE, APPLY)
"""The kinds of commands that take long."""

_CONTROLS = ("pause", "resume", "stop")
_EVENTS_BACK = 200


@dataclass(frozen=True)
class Phase:
    """What a command was doing when it told so last.

    Attributes:
        command: The command.
        name: What it does.
        share: How much of it is done; None if unknown.
        event: Number of the event.
    """

    command: int
    name: str
    share: float | None
    event: int


@dataclass(frozen=True)
class SessionView:
    """A session at one moment.

    Attributes:
        place: The session directory.
        model: Name of the model.
        target: Target in words.
        engine: Name and version of the engine.
        profile_id: Identifier of the profile; empty before the first.
        profile: The profile.
        selection: What is ticked.
        progress: How far each task is.
        command: The newest command that takes long: profile, tune or apply.
        control: What the newest search was told last and obeyed: ``pause``, ``resume`` or ``stop``; empty for nothing.
        phases: What the newest such command did since the last look, oldest first.
        doing: What it does, as it told last; empty if it told nothing.
        is_served: True while a worker holds the session's lock.
        worker_pid: Process that serves the session; None if that is unknown.
        worker_phase: ``starting`` or ``ready``.
        is_halted: True while a signal keeps the worker's process from running.
        is_busy: True while any command runs.
        request: What the last search was asked for.
        last_stop: Why the last search ended; empty if another command failed since.
        applied: What applying gave last.
        peaks: What the device can do at most; None if that is not known.
        last_event: Number of the newest event that was read.
    """

    place: str
    model: str = ""
    target: str = ""
    engine: str = ""
    profile_id: str = ""
    profile: Profile | None = None
    selection: Selection | None = None
    progress: tuple[TaskProgress, ...] = ()
    command: Command | None = None
    control: str = ""
    phases: tuple[Phase, ...] = ()
    doing: str = ""
    is_served: bool = False
    worker_pid: int | None = None
    worker_phase: str = ""
    is_halted: bool = False
    is_busy: bool = False
    request: TuneRequest | None = None
    last_stop: str = ""
    applied: StoredComparison = NO_COMPARISON
    peaks: Peaks | None = None
    last_event: int = 0

    @property
    def comparison_id(self) -> str:
        """Changes with every comparison; empty before the first one of this profile."""
        found = self.applied.comparison
        return "" if found is None else f"{found.applied_at} of {found.profile_id}"


def read_view(directory: SessionDirectory, store: Store, before: SessionView | None) -> SessionView:
    """Look at a session.

    Args:
        directory: The session.
        store: Its store, open.
        before: What was seen last; what has not changed since is not read again.

    Raises:
        WorkbenchError: The session is locked, damaged or gone.
    """
    is_served = directory.is_served()
    manifest = store.manifest()
    profile_id = _text(manifest.get("profile_id"))
    known = before is not None and before.profile_id == profile_id
    command = store.last_command(*STEPS)
    worker = store.worker() if is_served else None
    phases, last_event = _phases(store, command, before)
    return SessionView(
        place=str(directory.path),
        model=_text(_inside(manifest, "request", "source", "name")),
        target=_text(_inside(manifest, "target", "description")) or _text(_inside(manifest, "request", "target")),
        engine=_engine(manifest),
        profile_id=profile_id,
        profile=before.profile if known and before is not None else store.profile(),
        selection=store.selection(),
        progress=tuple(store.trials.progress()),
        command=command,
        control=_control(store, command),
        phases=phases,
        doing=_doing(command, phases, before),
        is_served=is_served,
        worker_pid=None if worker is None else worker.pid,
        worker_phase="" if worker is None else worker.phase,
        is_halted=worker is not None and is_halted(worker.pid),
        is_busy=is_served and bool(store.open_commands()),
        request=_request(manifest),
        last_stop=_text(_inside(manifest, "last_stop", "cause")) if _inside(manifest, "last_stop", "command") == TUNE else "",
        applied=_applied(store, command, before if known else None),
        peaks=_peaks(store, command, before),
        last_event=last_event,
    )


def with_worker(view: SessionView, *, is_served: bool) -> SessionView:
    """The same session, of whose worker alone something new may be known."""
    now_halted = is_served and view.worker_pid is not None and is_halted(view.worker_pid)
    if (is_served, now_halted) == (view.is_served, view.is_halted):
        return view
    return replace(view, is_served=is_served, is_halted=now_halted, phases=(), is_busy=view.is_busy and is_served)


def _phases(store: Store, command: Command | None, before: SessionView | None) -> tuple[tuple[Phase, ...], int]:
    """What the newest long command told since the last look; of one that began before that, only what it told last."""
    since = max(store.last_event() - _EVENTS_BACK, 0) if before is None else before.last_event
    found: list[Phase] = []
    while events := store.events_since(since):
        since = events[-1].event
        for event in events:
            share = event.data.get("share")
            if event.kind == "progress" and command is not None and event.data.get("command") == command.command:
                share = float(share) if isinstance(share, int | float) and 0 < share <= 1 else None
                found.append(Phase(command.command, _text(event.data.get("phase")), share, event.event))
    return tuple(found), since


def _doing(command: Command | None, phases: tuple[Phase, ...], before: SessionView | None) -> str:
    """What the newest long command does."""
    if phases:
        return phases[-1].name
    same = before is not None and before.command is not None and command is not None and before.command.command == command.command
    return before.doing if same and before is not None else ""


def _control(store: Store, command: Command | None) -> str:
    """What the newest search was told last."""
    if command is None or command.kind != TUNE or command.state in FINAL_STATES:
        return ""
    told = store.last_obeyed(command.command, *_CONTROLS)
    return "" if told is None else told.kind


def _applied(store: Store, command: Command | None, before: SessionView | None) -> StoredComparison:
    """What applying gave last; read again when another comparison may be in the store."""
    if before is not None and command == before.command:
        return before.applied
    return stored_comparison(store)


def _peaks(store: Store, command: Command | None, before: SessionView | None) -> Peaks | None:
    """The limits of the device; while a profile is made they may still be those of the target before."""
    if command is not None and command.kind == PROFILE:
        return stored_peaks(store) if command.state in FINAL_STATES else None
    return stored_peaks(store) if before is None or before.peaks is None else before.peaks


def _request(manifest: Mapping[str, Any]) -> TuneRequest | None:
    """What the last search was asked for, as far as the manifest tells."""
    try:
        values = _inside(manifest, "search", "request")
        return TuneRequest.from_dict(values) if isinstance(values, Mapping) else None
    except DecodeError:
        return None  # of another version of the workbench: a new search is asked for anew


def _engine(manifest: Mapping[str, Any]) -> str:
    """Name of the engine, and the version of its TVM."""
    name, version = _text(manifest.get("engine")), _text(_inside(manifest, "versions", "tvm"))
    return f"{name} engine, TVM {version}" if name and version else f"{name} engine" if name else ""


def _inside(values: Any, *keys: str) -> Any:
    """A value inside objects that anybody may have written; None where there is none."""
    for key in keys:
        if not isinstance(values, Mapping):
            return None
        values = values.get(key)
    return values


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""
