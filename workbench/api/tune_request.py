"""Makes a request for a search of what a Python user gives: checked before a worker is asked, and with NumPy's numbers taken for what they are."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from workbench.errors import InputError, SelectionError
from workbench.escaping import plain
from workbench.records.number import real, whole
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
        resume=_switch("resume", resume),
        dry_run=_whole(dry_run),
        space=_text("space", space),
        schedule=_text("schedule", schedule),
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
        raise InputError(f"measure is {_shown(options)}.", "Give workbench.MeasureOptions(...).")
    numbers = {name: _whole(getattr(options, name)) for name in _WHOLE} | {name: _real(getattr(options, name)) for name in _REAL}
    return replace(options, cache_flush=_switch("cache_flush", options.cache_flush), **numbers)


def _whole(value: Any) -> Any:
    """A whole number as Python's own; anything else stays, to be refused."""
    number = whole(value)
    return value if number is None else number


def _real(value: Any) -> Any:
    """A number as Python's own; anything else stays, to be refused."""
    number = real(value)
    return value if number is None else number


def _switch(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise InputError(f"{name} is {_shown(value)}.", "Give True or False.")
    return value


def _text(name: str, value: object) -> str:
    if not isinstance(value, str):
        raise InputError(f"{name} is {_shown(value)}.", "Give a text.")
    return value


def _places(given: object) -> tuple[str, ...]:
    """Paths as absolute texts; a lone one is one place, not its letters."""
    places = [given] if isinstance(given, str | Path) else list(given) if isinstance(given, Iterable) else [None]
    paths = [Path(place) for place in places if isinstance(place, str | Path)]
    if len(paths) < len(places):
        raise InputError(f"transfer is {_shown(given)}.", "Give paths of sessions or databases.")
    return tuple(str(path.absolute()) for path in paths)


def _shown(value: object) -> str:
    return plain(repr(value), 60)
