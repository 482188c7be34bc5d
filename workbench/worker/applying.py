"""Applying the winners, and verifying again what is applied, as jobs of the worker."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workbench.applying.applier import Applier, Outcome
from workbench.applying.choice import choose, is_untouched
from workbench.applying.settled import NOTHING_SETTLED, settled
from workbench.applying.verifying import Verifier
from workbench.applying.writing import VERDICT, read_verdict, write_database, write_verdict
from workbench.engines.apply_protocol import RecordedSchedule
from workbench.engines.protocol import Engine
from workbench.engines.search_protocol import Failed
from workbench.errors import SelectionError, SessionError
from workbench.escaping import plain
from workbench.models import file_stamp
from workbench.records.comparison import RECORD, Comparison, Verification
from workbench.records.conditions import KnownConditions
from workbench.records.decode import decode
from workbench.records.profile import Profile
from workbench.records.request import ModelSource, ProfileRequest
from workbench.records.trial import MeasureOptions
from workbench.session import COMPARISON, TUNED, stored_comparison
from workbench.worker.application import opened_application, profiled_session
from workbench.worker.context import JobContext
from workbench.worker.tuning import conditions_of, noted_conditions

_HOW_TO_TUNE = "Search first: workbench select --share 0.8, then workbench tune."


@dataclass(frozen=True)
class ApplyRequest:
    """What is asked for.

    Attributes:
        inputs: Number of random inputs that outputs are compared on.
        rounds: Measured rounds of each model; None lets the time of a run decide.
        anew: True decides again which records are too slow in the model, also where an earlier apply of the same ones has.
    """

    inputs: int = 3
    rounds: int | None = None
    anew: bool = False


def apply(engine: Engine, context: JobContext, request: ApplyRequest, *, trust: bool) -> dict[str, Any]:
    """Build the model with its winners, verify and compare it, and make it the session's applied model if it is right.

    Returns:
        A comparison as `workbench.records.comparison.Comparison.to_dict`; it is stored too.

    Raises:
        SessionError: The session has no profile, or nothing was searched in it.
        EnvironmentFault: The model cannot be run here, or the disk refuses.
        Interrupted: The command was cancelled; the applied model is what it was.
    """
    store = context.store
    profile, profiled = profiled_session(context)
    target = context.target()
    conditions = functools.cache(functools.partial(conditions_of, engine, target, threads=profiled.threads))
    noted = noted_conditions(store)
    context.on_progress("choose", 0.0)
    choices = choose(profile, store.trials, lambda options: KnownConditions(conditions(options), noted))
    if is_untouched(choices):
        raise SessionError("Nothing was searched in this session yet.", _HOW_TO_TUNE)
    devices = [choice.options.device for choice in choices if choice.schedule is not None and choice.options is not None]
    options = MeasureOptions(device=devices[0] if devices else 0)
    with opened_application(engine, context, profile, options, trust=trust) as (application, scratch):
        applier = Applier(
            application,
            profile,
            choices,
            _verifier(context, profiled, request.inputs),
            folder=scratch,
            rounds=request.rounds,
            on_progress=context.on_progress,
            already=NOTHING_SETTLED if request.anew else settled(choices, stored_comparison(store).comparison),
        )
        outcome = applier.run()
        application.close()
        identifier = str(store.manifest().get("profile_id", ""))
        notes = (*outcome.comparison.notes, *_strays(context, profile))
        comparison = replace(outcome.comparison, profile_id=identifier, device=options.device, notes=notes)
        return _settled(context, outcome, comparison, target.options)


def _settled(context: JobContext, outcome: Outcome, comparison: Comparison, target: dict[str, Any]) -> dict[str, Any]:
    """Make a verified model the session's; store the comparison in any case."""
    if outcome.folder is None or not comparison.applied:
        context.store.write_document(COMPARISON, comparison.to_dict())
        return comparison.to_dict()
    context.on_progress("write", 0.0)
    notes = write_database(outcome.folder, outcome, target)
    comparison = replace(comparison, notes=(*comparison.notes, *notes))
    write_verdict(outcome.folder, comparison)
    with context.directory.replacing_tuned(outcome.folder):
        context.store.write_document(COMPARISON, comparison.to_dict())
    return comparison.to_dict()


def verify(engine: Engine, context: JobContext, request: ApplyRequest, *, trust: bool) -> dict[str, Any]:
    """Build what is applied once more from its records, and compare its outputs with the untuned model's.

    The library in ``tuned/`` is code, and may be anybody's: it is not loaded, but its digest is compared with what was written.

    Returns:
        As `workbench.records.comparison.Verification.to_dict`.

    Raises:
        SessionError: Nothing is applied, or the records are not there any more.
    """
    profile, profiled = profiled_session(context)
    comparison, changed = _applied_model(context)
    schedules = _schedules(context, profile, comparison)
    options = MeasureOptions(device=comparison.device)
    with opened_application(engine, context, profile, options, trust=trust) as (application, scratch):
        folder = scratch / "model"
        folder.mkdir()
        built = application.build(schedules, folder)
        if isinstance(built, Failed):
            return Verification(verified=False, reason=plain(built.error.strip().splitlines()[0], 600)).to_dict()
        missing = sorted(set(schedules) - set(built))
        verification = _verifier(context, profiled, request.inputs).verify(application, schedules)
    if missing or changed:
        said = f"not what was applied: {plain(', '.join(missing or changed), 300)}"
        verification = replace(verification, verified=False, reason=f"{verification.reason}; {said}" if verification.reason else said)
    return verification.to_dict()


def _applied_model(context: JobContext) -> tuple[Comparison, tuple[str, ...]]:
    """What is applied, and the names of its files that were changed since.

    Raises:
        SessionError: Nothing is applied, its ``verify.json`` is damaged, or the session was profiled again since.
    """
    try:
        comparison, changed = read_verdict(context.directory.tuned)
    except FileNotFoundError as error:
        raise SessionError("Nothing is applied in this session.", "Apply first: workbench apply.") from error
    except (OSError, ValueError, RecursionError) as error:
        raise SessionError(f"{TUNED}/{VERDICT} is damaged: {plain(str(error), 200)}.", "Apply again: workbench apply.") from error
    if comparison.profile_id != context.store.manifest().get("profile_id"):
        raise SessionError("The session was profiled again since its model was applied.", "Apply again: workbench apply.")
    return comparison, changed


def _schedules(context: JobContext, profile: Profile, comparison: Comparison) -> dict[str, RecordedSchedule]:
    """The recorded schedule of each kernel that has one in the applied model."""
    tasks = {task.task: task for task in profile.tasks}
    schedules = {}
    for kernel in comparison.kernels:
        if kernel.used != RECORD or kernel.trial is None:
            continue
        trial, trace = context.store.trials.trial(kernel.task, kernel.trial), context.store.trials.trace(kernel.task, kernel.trial)
        if trial is None or not trace or kernel.task not in tasks or trial.fingerprint != kernel.fingerprint:
            raise SessionError(f"Trial {kernel.trial} of {plain(kernel.task, 120)} is not what was applied.", "Apply again: workbench apply.")
        schedules.update(dict.fromkeys(tasks[kernel.task].kernels, RecordedSchedule(trace, trial.fingerprint)))
    return schedules


def _verifier(context: JobContext, request: ProfileRequest, inputs: int) -> Verifier:
    model, why_not = _onnx_model(request.source)
    seeds = tuple(request.seed + place for place in range(max(inputs, 1)))
    return Verifier(seeds, model, why_not, context.on_progress)


def _onnx_model(source: ModelSource) -> tuple[Path | None, str]:
    """The source model, if it is an ONNX file that is still what was profiled; or why not."""
    if source.kind != "onnx":
        return None, "the model is not of ONNX"
    path = Path(source.path)
    try:
        is_same = file_stamp(path) == source.stamp
    except (OSError, ValueError):
        return None, "the model's file is not here"
    return (path, "") if is_same else (None, "the model's file was changed since the profile")


def _strays(context: JobContext, profile: Profile) -> tuple[str, ...]:
    """A note on searched tasks that the profile does not have: they are of another target, or of another version of the model."""
    known = {task.task for task in profile.tasks}
    try:
        strays = [progress for progress in context.store.trials.progress() if progress.task not in known]
    except SessionError as error:
        return (f"Not all of the session's trials can be read: {plain(error.message, 200)}",)
    if not strays:
        return ()
    names = ", ".join(plain(progress.name) for progress in strays[:3])
    return (f"{len(strays)} searched tasks belong to another target, or another version of the model, and were left out: {names}.",)


def read_request(arguments: dict[str, Any]) -> ApplyRequest:
    """What a front asks for.

    Raises:
        SelectionError: It makes no sense.
    """
    request = decode(ApplyRequest, arguments)
    if request.inputs < 1 or (request.rounds is not None and request.rounds < 1):
        raise SelectionError("The number of inputs and of rounds is at least 1.", "Give larger numbers.")
    return request
