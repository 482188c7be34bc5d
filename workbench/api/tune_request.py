"""Makes a request for a search of what a Python user gives: checked before a worker is asked, and with NumPy's numbers taken for what they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.api.given import plain_number, switch, text
from workbench.errors import InputError, SelectionError
from workbench.escaping import plain_value
from workbench.records.selection import SelectedTask, Selection
from workbench.records.trial import MeasureOptions
from workbench.records.tuning import DEFAULT_TRIALS_PER_TASK, SearchBudget, TuneRequest
from workbench.search.limits import check_request

_WHOLE = ("number", "repeat", "device")
_REAL = ("min_repeat_ms", "timeout_s", "build_timeout_s", "cooldown_ms")


def make_request(
    selection: object,
    *,
    trials: Any,
    seconds: Any,
    per_task: Any,
    flat_after: Any,
    seed: Any,
    resume: Any,
    dry_run: Any,
    space: Any,
    schedule: Any,
    measure: Any,
    builders: Any,
    transfer: Any,
) -> TuneRequest:
    """The request; arguments as for `workbench.Session.tune`.

    Raises:
        SelectionError: Nothing is selected.
        InputError: An argument has a wrong type, or a value that no search can use.
    """
    if selection is not None and not isinstance(selection, Selection):
        raise InputError(f"A {type(selection).__name__} is no selection.", "Give what session.profile().select(...) returned.")
    if selection is None or not selection.tasks:
        raise SelectionError("No task is selected.", "Select some: session.profile().select(share=0.8), or workbench select --share 0.8.")
    if all(limit is None for limit in (trials, seconds, per_task, dry_run)):
        per_task = DEFAULT_TRIALS_PER_TASK
    request = TuneRequest(
        tasks=tuple(_with_plain_budget(item) for item in selection.tasks),
        budget=SearchBudget(trials=_whole(trials), seconds=_real(seconds), per_task=_whole(per_task), flat_after=_whole(flat_after)),
        seed=_whole(seed),
        resume=switch("resume", resume),
        dry_run=_whole(dry_run),
        space=text("space", space),
        schedule=text("schedule", schedule),
        measure=_measure_options(measure),
        builders=_whole(builders),
        transfer=_places(transfer),
    )
    check_request(request)
    return request


def _with_plain_budget(item: SelectedTask) -> SelectedTask:
    return replace(item, trials=_whole(item.trials), seconds=_real(item.seconds))


def _measure_options(options: object) -> MeasureOptions:
    if options is None:
        return MeasureOptions()
    if not isinstance(options, MeasureOptions):
        raise InputError(f"measure is {plain_value(options)}.", "Give workbench.MeasureOptions(...).")
    numbers = {name: _whole(getattr(options, name)) for name in _WHOLE} | {name: _real(getattr(options, name)) for name in _REAL}
    return replace(options, cache_flush=switch("cache_flush", options.cache_flush), **numbers)


def _whole(value: Any) -> Any:
    return plain_number(value, is_whole=True)


def _real(value: Any) -> Any:
    return plain_number(value, is_whole=False)


def _places(given: object) -> tuple[str, ...]:
    """Paths as absolute texts; a lone one is one place, not its letters."""
    places = [given] if isinstance(given, str | Path) else list(given) if isinstance(given, Iterable) else [None]
    paths = [Path(place) for place in places if isinstance(place, str | Path)]
    if len(paths) < len(places):
        raise InputError(f"transfer is {plain_value(given)}.", "Give paths of sessions, databases or auto_scheduler logs.")
    return tuple(str(path.absolute()) for path in paths)
