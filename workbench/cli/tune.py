"""``workbench tune``: searches schedules for the selected tasks, with live progress."""

from __future__ import annotations

import argparse
import functools
from typing import Any

from workbench.api import Session
from workbench.api import open as open_session
from workbench.api.search import Search
from workbench.cli.arguments import amount, count, positive, positive_number, seed
from workbench.cli.output import show
from workbench.cli.sessions import find_session, profile_of
from workbench.cli.tune_progress import TuneProgress
from workbench.cli.tune_table import tune_table
from workbench.errors import InputError, Interrupted, SelectionError
from workbench.records.profile import Profile
from workbench.records.trial import MeasureOptions, Trial
from workbench.records.tuning import DEFAULT_TRIALS_PER_TASK, FAILED, SearchBudget

_REFRESH_S = 0.2
_DEFAULTS = MeasureOptions()
_NOTHING_SEARCHED = 1
"""Exit code if every task ended as failed."""


def add_command(commands: Any, shared: argparse.ArgumentParser) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser("tune", parents=[shared], help="search schedules for the selected tasks, with live progress")
    budget = parser.add_argument_group("when it ends")
    budget.add_argument("--trials", type=positive, metavar="N", help="all trials of the session together, those of earlier searches included")
    budget.add_argument("--seconds", type=positive_number, metavar="S", help="time of this search")
    budget.add_argument("--per-task", type=positive, metavar="N", help=f"trials of each task (default: {DEFAULT_TRIALS_PER_TASK}, if nothing else)")
    default = SearchBudget.flat_after
    budget.add_argument(
        "--flat-after", type=count, default=default, metavar="N", help=f"a task ends after N trials without gain; 0 never (default: {default})"
    )
    search = parser.add_argument_group("what it searches")
    search.add_argument("--resume", action="store_true", help="go on where earlier searches of these tasks ended")
    search.add_argument("--dry-run", type=positive, metavar="N", help="generate, build and check N candidates of each task without measuring")
    search.add_argument("--seed", type=seed, default=0, metavar="N", help="seed of candidates and of random inputs")
    search.add_argument("--space", default="default", metavar="NAME", help="search space (default: default)")
    search.add_argument("--schedule", default="", metavar="MODULE:FUNCTION", help="a schedule function of your own; needs --trust")
    search.add_argument("--trust", action="store_true", help="allow the schedule function to run")
    search.add_argument("--transfer", nargs="+", default=[], metavar="PATH", help="sessions or databases whose schedules are tried first")
    measure = parser.add_argument_group("how it measures")
    measure.add_argument("--repeat", type=positive, default=_DEFAULTS.repeat, metavar="N", help="most measured times of a trial")
    measure.add_argument("--number", type=positive, metavar="N", help="runs behind each measured time (default: as --min-repeat-ms needs)")
    measure.add_argument("--min-repeat-ms", type=amount, default=_DEFAULTS.min_repeat_ms, metavar="X", help="least duration of a measured time")
    measure.add_argument("--timeout", type=positive_number, default=_DEFAULTS.timeout_s, metavar="S", help="longest time that a trial may run")
    measure.add_argument("--build-timeout", type=positive_number, default=_DEFAULTS.build_timeout_s, metavar="S", help="the same for building it")
    measure.add_argument("--cooldown-ms", type=amount, default=_DEFAULTS.cooldown_ms, metavar="X", help="pause before each trial")
    measure.add_argument("--cache-flush", action="store_true", help="measure with cold caches")
    measure.add_argument("--device", type=count, default=_DEFAULTS.device, metavar="I", help="index of the device")
    measure.add_argument("--builders", type=positive, metavar="N", help="processes that build (default: one for each physical core)")
    parser.set_defaults(run=_run)


def _run(options: argparse.Namespace) -> int:
    if options.schedule and not options.trust:
        raise InputError("--schedule runs code of your own.", "Allow it with --trust.")
    directory = find_session(options.session, quiet=options.quiet)
    profile = profile_of(directory)
    with directory.store() as store:
        selection = store.selection()
    if selection is None or not selection.tasks:
        raise SelectionError("Nothing is selected.", "Select the hotspots first: workbench select --share 0.8.")
    with open_session(directory.path.absolute(), trust=options.trust) as session:
        begin = functools.partial(
            session.tune,
            selection,
            trials=options.trials,
            seconds=options.seconds,
            per_task=options.per_task,
            flat_after=options.flat_after or None,
            seed=options.seed,
            resume=options.resume,
            dry_run=options.dry_run,
            space=options.space,
            schedule=options.schedule,
            measure=_measure_options(options),
            builders=options.builders,
            transfer=options.transfer,
        )
        search = run_search(session, begin, profile, quiet=options.quiet)
        result = search.result()
        show([tune_table(result, search.progress(), profile)], values=result, json_to=options.json)
    return _NOTHING_SEARCHED if all(task["state"] == FAILED for task in result["tasks"]) else 0


def run_search(session: Session, begin: functools.partial[Search], profile: Profile, *, quiet: bool) -> Search:
    """Search to the end, with progress on standard error.

    Args:
        session: What is searched.
        begin: Starts the search.
        profile: The profile it is about.
        quiet: True shows no progress.

    Raises:
        WorkbenchError: The search failed; what was measured is stored.
        Interrupted: Ctrl-C, which ends the search; what was measured is stored.
    """
    known, cursor = _known_trials(session)
    search = begin()
    try:
        with TuneProgress(search.request, profile, known, quiet=quiet) as progress:
            is_running = True
            while is_running:
                search.wait(_REFRESH_S, on_event=progress.on_event)
                is_running = search.is_running  # asked before the trials are: none is missed at the end
                trials, cursor = search.trials(since=cursor)
                progress.update(trials, search.progress())
    except KeyboardInterrupt:  # one that came while nothing was waited for
        search.cancel()
        raise Interrupted("Stopped.", "What was measured is saved: go on with --resume.") from None
    return search


def _known_trials(session: Session) -> tuple[list[Trial], int]:
    """The trials that the session holds already, and the cursor behind them."""
    with session.directory.store() as store:
        found = store.trials.all()
    return [stored.trial for stored in found], found[-1].cursor if found else 0


def _measure_options(options: argparse.Namespace) -> MeasureOptions:
    return MeasureOptions(
        number=options.number,
        repeat=options.repeat,
        min_repeat_ms=options.min_repeat_ms,
        timeout_s=options.timeout,
        build_timeout_s=options.build_timeout,
        cooldown_ms=options.cooldown_ms,
        cache_flush=options.cache_flush,
        device=options.device,
    )
