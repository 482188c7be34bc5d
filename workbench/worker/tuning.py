"""The search as a job of the worker: from the session's profile to trials in its store."""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
from typing import Any

from workbench.engines.protocol import Engine
from workbench.engines.search_protocol import Experience
from workbench.errors import EnvironmentFault, ModelError, SessionError, TargetError
from workbench.escaping import plain
from workbench.machine import read_machine
from workbench.records.conditions import Conditions, KnownConditions
from workbench.records.decode import DecodeError
from workbench.records.profile import Profile
from workbench.records.target import TargetSpec
from workbench.records.trial import MeasureOptions
from workbench.records.tuning import TuneRequest
from workbench.search.control import Control
from workbench.search.history import History
from workbench.search.limits import check_request
from workbench.search.loop import Search
from workbench.search.recorder import Recorder
from workbench.search.resuming import check_schedule, chosen_space
from workbench.store import Store
from workbench.worker.context import JobContext
from workbench.worker.transferring import Transfer
from workbench.worker.view_desk import DeskBesideSearch, ViewDesk
from workbench.workloads import load_schedule


def tune(engine: Engine, context: JobContext, request: TuneRequest, *, trust: bool, desk: ViewDesk | None = None) -> dict[str, Any]:
    """Search what is asked for.

    Args:
        engine: Holds the session's program.
        context: The session and the command.
        request: What is asked for.
        trust: True if the user's own schedule function may run, and recorded schedules may bring code of their own.
        desk: Answers fronts that want to see a trial meanwhile.

    Returns:
        As `workbench.search.loop.Search.run`, and ``transfer``: what each source of records gave.

    Raises:
        InputError: The request makes no sense, or names tasks or a space that there are not.
        EnvironmentFault: There is no device to measure on.
        Interrupted: The search was cancelled; all that was measured is stored.
    """
    check_request(request)
    if request.schedule and not trust:
        raise ModelError(f"The schedule function {plain(request.schedule)} is code of yours that has to run.", "Allow it with --trust.")
    schedule = load_schedule(request.schedule) if request.schedule else None
    store, directory = context.store, context.directory
    profile, profiled = store.profile(), store.request()
    if profile is None or profiled is None:
        raise SessionError("The session has no profile yet.", "Profile the model first.")
    target = context.target()
    _check_fresh(store, request)
    earlier = {progress.task: progress for progress in store.trials.progress()}
    for item in request.tasks:
        check_schedule(request, earlier.get(item.task))
    spaces = {task.task: chosen_space(request, earlier.get(task.task)) for task in profile.tasks}
    transfer = Transfer(request.transfer, target, engine=profile.engine)
    if target.kind == "llvm" and request.measure.device:
        raise TargetError(f"A processor has no device {request.measure.device}.", "Leave --device out.")
    conditions = conditions_of(engine, target, request.measure, threads=profiled.threads)
    known = KnownConditions(conditions, noted_conditions(store))
    # With command and cursor a front knows which trials are those of its own search.
    begun = {"command": context.command, "after_trial": store.trials.last(), "started_at": _now()}
    store.update_manifest(
        {
            "search": {"request": request.to_dict(), "conditions": conditions.digest, **begun},
            "conditions": {digest: item.to_dict() for digest, item in {**known.earlier, conditions.digest: conditions}.items()},
            "last_stop": None,
        }
    )
    with directory.scratch(context.command) as scratch, contextlib.ExitStack() as stack:
        evaluator = engine.evaluator(request.measure, scratch=scratch, builders=request.builders, seed=request.seed)
        stack.callback(evaluator.close)
        if evaluator.unmeasurable and request.dry_run is None:
            raise EnvironmentFault(f"Nothing can be measured: {evaluator.unmeasurable}.", "Use --dry-run N, or a machine that has the device.")
        recorder = Recorder(directory.store, directory.records, engine.records, conditions=conditions.digest, options=request.measure)
        stack.callback(recorder.close)
        search = Search(
            request,
            tasks={task.task: task for task in profile.tasks},
            prepare=lambda task: engine.search_task(
                task.name,
                space=spaces[task.task],
                seed=_seed(request.seed, task.task),
                schedule=schedule,
                device=request.measure.device,
                trust=trust,
            ),
            evaluator=evaluator,
            recorder=recorder,
            history=History(
                conditions=conditions.digest,
                trials=_count(store, profile),
                progress_of=store.trials.progress_of,
                trials_of=lambda task: [Experience(trial, trace) for trial, trace in store.trials.with_traces(task)],
                differences=known.differences,
            ),
            transferred=transfer.records,
            logged=transfer.logged,
            control=Control(store, context.command, front_gone=context.front_gone),
            on_progress=context.on_progress,
            side_work=None if desk is None else DeskBesideSearch(desk, store),
        )
        ended = search.run()
        given = transfer.summary(search.inherited(), search.translations(), lambda task: (trial for trial, _ in store.trials.with_traces(task)))
        result = {**ended, "transfer": given}
    store.update_manifest({"last_stop": {"command": "tune", "cause": result["stopped_because"]}})
    return result


def refuse_control(context: JobContext, arguments: dict[str, Any]) -> dict[str, Any]:
    """Answer a command for a running search when there is none."""
    del context, arguments
    raise SessionError("No search is running.", "Start one with: workbench tune.")


def _check_fresh(store: Store, request: TuneRequest) -> None:
    """A search that does not say that it goes on must not be mistaken for a first one."""
    count = store.trials.count([item.task for item in request.tasks])
    if count and not request.resume and request.dry_run is None:
        raise SessionError(f"These tasks have {count} trials already.", "Go on with --resume, or give another directory: --session DIR.")


def _count(store: Store, profile: Profile) -> int:
    return store.trials.count([task.task for task in profile.tasks])


def conditions_of(engine: Engine, target: TargetSpec, options: MeasureOptions, *, threads: int) -> Conditions:
    """What makes measured times comparable."""
    machine = read_machine()
    return Conditions(
        engine=engine.name,
        versions=engine.versions(),
        target=target.config,
        kind=target.kind,
        threads=threads,
        devices=(machine.cpu.model,) if target.kind == "llvm" else tuple(item.name for item in machine.cuda.devices),
        device=options.device,
        cold=options.cache_flush,
    )


def noted_conditions(store: Store) -> dict[str, Conditions]:
    """Conditions of the session's earlier searches by digest; what cannot be read, or is not what it says, is forgotten."""
    noted = store.manifest().get("conditions")
    found = {}
    for digest, values in noted.items() if isinstance(noted, dict) else ():
        with contextlib.suppress(DecodeError):
            conditions = Conditions.from_dict(values)
            if conditions.digest == digest:
                found[digest] = conditions
    return found


def _seed(seed: int, task: str) -> int:
    """A seed for each task, the same in every run."""
    return int.from_bytes(hashlib.sha256(f"{seed} {task}".encode()).digest()[:4], "big") % (2**31 - 2) + 1


def _now() -> str:
    return dt.datetime.now(dt.UTC).isoformat(timespec="seconds")
